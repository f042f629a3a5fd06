//! Copies between real registries, with skopeo as the reference.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod copies;
mod faults;
mod kills;
mod store;

use std::time::Duration;

use serde_json::Value;
use velero_registry::{Access, CopyError, Image, Options, Registry, Retry, copy};
use velero_testkit::registry::{ContainerRegistry, skopeo};

const DEADLINE: Duration = Duration::from_secs(120);

/// An image of a registry that speaks plain HTTP and serves everybody.
fn image(registry: &ContainerRegistry, name: &str) -> Image {
    image_at(&registry.host(), name, Access { plain_http: true, ..Access::default() })
}

fn image_at(host: &str, name: &str, access: Access) -> Image {
    Registry::new(host, access).unwrap().image(&format!("{host}/{name}").parse().unwrap()).unwrap()
}

/// Tries again at once, three times.
fn quick() -> Options {
    Options { retry: Retry { pauses: vec![Duration::from_millis(10); 3] }, ..Options::default() }
}

/// Would try again only after this test's deadline.
fn never_again() -> Options {
    Options { retry: Retry { pauses: vec![DEADLINE * 10] }, ..Options::default() }
}

/// Why a copy fails, which it must do before the deadline.
async fn failure(source: &Image, destination: &Image, options: &Options) -> CopyError {
    tokio::time::timeout(DEADLINE, copy(source, destination, options)).await.unwrap().unwrap_err()
}

/// The manifest as skopeo reads it.
fn raw(registry: &ContainerRegistry, name: &str) -> Vec<u8> {
    try_raw(registry, name).unwrap()
}

/// The manifest as skopeo reads it, if it is there.
fn try_raw(registry: &ContainerRegistry, name: &str) -> anyhow::Result<Vec<u8>> {
    skopeo(["inspect", "--raw", "--tls-verify=false", &format!("docker://{}/{name}", registry.host())])
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap()
}

/// The blobs of an image's manifest: digests and sizes.
fn blobs(manifest: &[u8]) -> Vec<(String, u64)> {
    let manifest: Value = serde_json::from_slice(manifest).unwrap();
    let layers = manifest["layers"].as_array().unwrap();
    let all = std::iter::once(&manifest["config"]).chain(layers);
    all.map(|blob| (text(blob, "/digest").to_owned(), blob["size"].as_u64().unwrap())).collect()
}

fn size(manifest: &[u8]) -> u64 {
    blobs(manifest).iter().map(|(_, size)| size).sum()
}

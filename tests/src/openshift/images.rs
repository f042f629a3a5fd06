//! The images of the project: one that runs, one for two platforms, a tag that follows the first, and a stream whose only tag
//! is from a tag of another stream.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::TestBox;
use velero_testkit::image::Image;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::registry::{ContainerRegistry, Layout, REGISTRY_PASSWORD, REGISTRY_USER, skopeo};

use super::{PATIENCE, SHOP};

/// The image stream.
pub const STREAM: &str = "web";
/// The tag of the image that runs.
pub const RUNS: &str = "v1";
/// The tag of the image for two platforms.
pub const PLATFORMS: &str = "all";
/// The tag that follows the first.
pub const FOLLOWS: &str = "stable";

/// A stream that another stream takes its image from.
pub const BASE: &str = "base";
/// The stream that takes it.
pub const TAKER: &str = "app";

const MANIFESTS: &str = "Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// The digests of the images.
#[derive(Clone, Debug)]
pub struct Images {
    /// The image that runs.
    pub runs: String,
    /// The manifest list.
    pub platforms: String,
    /// The image of the stream that another takes its image from.
    pub base: String,
}

impl Images {
    /// The tags that were pushed, with their digests.
    pub fn own(&self) -> [(&'static str, &String); 2] {
        [(RUNS, &self.runs), (PLATFORMS, &self.platforms)]
    }

    /// All tags of the stream, with their digests.
    pub fn tags(&self) -> [(&'static str, &String); 3] {
        [(RUNS, &self.runs), (PLATFORMS, &self.platforms), (FOLLOWS, &self.runs)]
    }
}

/// Pushes the images into the registry of the box, from inside its network, and waits for the stream they make. The
/// namespace has to be there.
pub fn push(test_box: &TestBox) -> Result<Images> {
    let machine = test_box.machine();
    let registry = test_box.internal_registry();
    let archive = machine.folder("images")?.join("web.tar");
    image().write(&archive)?;
    let source = format!("oci-archive:{}", archive.display());
    copy(&source, &registry, STREAM, RUNS)?;

    let seed = ContainerRegistry::start()?;
    let mut layout = Layout::new()?;
    let platforms = [layout.image("amd64", &[20_000])?, layout.image("arm64", &[30_000])?];
    let list = layout.index(&platforms)?;
    layout.push(&list, &seed, "seed:list")?;
    copy(&format!("docker://{}/seed:list", seed.host()), &registry, STREAM, PLATFORMS)?;
    let base = layout.image("amd64", &[50_000])?;
    layout.push(&base, &seed, "seed:base")?;
    copy(&format!("docker://{}/seed:base", seed.host()), &registry, BASE, RUNS)?;

    wait_for_tags(machine, STREAM, 2)?;
    tag_from(machine, (STREAM, FOLLOWS), &format!("{STREAM}:{RUNS}"))?;
    wait_for_tags(machine, BASE, 1)?;
    tag_from(machine, (TAKER, FOLLOWS), &format!("{BASE}:{RUNS}"))?;
    let found = |tag| digest(machine, &registry, SHOP, tag)?.with_context(|| format!("{tag} was not pushed"));
    let base = base["digest"].as_str().unwrap_or_default().to_owned();
    let images = Images { runs: found(RUNS)?, platforms: found(PLATFORMS)?, base };
    ensure!(list["digest"] == images.platforms.as_str(), "the list changed on its way: {list}");
    Ok(images)
}

/// An image that runs and that nobody has yet: it holds what is different each time it is read.
fn image() -> Image {
    let (busybox, stamp) = (Path::new("/usr/bin/busybox"), Path::new("/proc/sys/kernel/random/uuid"));
    let image = Image::new("shop/web:v1").file(busybox, "bin/busybox").file(stamp, "etc/stamp");
    let image = image.command(&["sleep", "2147483647"]);
    ["sh", "sleep", "touch"].iter().fold(image, |image, command| image.link("busybox", &format!("bin/{command}")))
}

fn copy(source: &str, registry: &str, stream: &str, tag: &str) -> Result<()> {
    let destination = format!("docker://{registry}/{SHOP}/{stream}:{tag}");
    let flags = ["copy", "--all", "--preserve-digests", "--src-tls-verify=false", "--dest-tls-verify=false"];
    let login = login();
    skopeo(flags.into_iter().chain(["--dest-creds", &login, source, &destination]))
        .with_context(|| format!("cannot push {destination}"))?;
    Ok(())
}

/// Who may use the internal registry.
fn login() -> String {
    format!("{REGISTRY_USER}:{REGISTRY_PASSWORD}")
}

/// Waits until pushes have made a stream.
fn wait_for_tags(machine: &Machine, name: &str, count: usize) -> Result<()> {
    wait_until("the image stream", PATIENCE, || {
        let stream = stream(machine, SHOP, name)?;
        let tags = stream["status"]["tags"].as_array().map_or(0, Vec::len);
        ensure!(tags == count, "the stream {name} has {tags} tags");
        Ok(())
    })
}

/// Adds a tag that is from another tag.
fn tag_from(machine: &Machine, (stream, tag): (&str, &str), from: &str) -> Result<()> {
    let from = json!({"kind": "ImageStreamTag", "name": from});
    let tag = json!({
        "apiVersion": "image.openshift.io/v1",
        "kind": "ImageStreamTag",
        "metadata": {"name": format!("{stream}:{tag}"), "namespace": SHOP},
        "tag": {"name": tag, "from": from, "reference": true, "referencePolicy": {"type": "Source"}},
    });
    let file = machine.folder("images")?.join("tag.json");
    std::fs::write(&file, tag.to_string())?;
    let path = format!("/apis/image.openshift.io/v1/namespaces/{SHOP}/imagestreamtags");
    machine.kubectl(&["create", "--raw", &path, "-f", &file.display().to_string()]).map(drop)
}

/// An image stream of the project.
pub fn stream(machine: &Machine, namespace: &str, name: &str) -> Result<Value> {
    let path = format!("/apis/image.openshift.io/v1/namespaces/{namespace}/imagestreams/{name}");
    machine.read(&path)
}

/// The digest that a registry has for a tag of the project; `None` where there is none.
pub fn digest(machine: &Machine, registry: &str, namespace: &str, tag: &str) -> Result<Option<String>> {
    let url = format!("http://{registry}/v2/{namespace}/{STREAM}/manifests/{tag}");
    let login = login();
    let flags = ["--silent", "--show-error", "--head", "--user", &login, "--header", MANIFESTS, &url];
    let answer = machine.run("curl", flags)?;
    let status = answer.split_whitespace().nth(1).unwrap_or_default();
    if status == "404" {
        return Ok(None);
    }
    ensure!(status == "200", "HEAD {url} answers {answer}");
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("docker-content-digest").then(|| value.trim().to_owned())
    };
    Ok(Some(answer.lines().find_map(header).with_context(|| format!("HEAD {url} names no digest: {answer}"))?))
}

//! The images of the project: one that runs, one for two platforms, and a tag that follows the first.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::TestBox;
use velero_testkit::image::Image;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::registry::{ContainerRegistry, Layout, skopeo};

use super::{PATIENCE, SHOP};

/// The image stream.
pub const STREAM: &str = "web";
/// The tag of the image that runs.
pub const RUNS: &str = "v1";
/// The tag of the image for two platforms.
pub const PLATFORMS: &str = "all";
/// The tag that follows the first.
pub const FOLLOWS: &str = "stable";

const MANIFESTS: &str = "Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// The digests of the images.
#[derive(Clone, Debug)]
pub struct Images {
    /// The image that runs.
    pub runs: String,
    /// The manifest list.
    pub platforms: String,
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
    copy(&source, &registry, RUNS)?;

    let seed = ContainerRegistry::start()?;
    let mut layout = Layout::new()?;
    let platforms = [layout.image("amd64", &[20_000])?, layout.image("arm64", &[30_000])?];
    let list = layout.index(&platforms)?;
    layout.push(&list, &seed, "seed:list")?;
    copy(&format!("docker://{}/seed:list", seed.host()), &registry, PLATFORMS)?;

    follow(machine)?;
    let found = |tag| digest(machine, &registry, SHOP, tag)?.with_context(|| format!("{tag} was not pushed"));
    let images = Images { runs: found(RUNS)?, platforms: found(PLATFORMS)? };
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

fn copy(source: &str, registry: &str, tag: &str) -> Result<()> {
    let destination = format!("docker://{registry}/{SHOP}/{STREAM}:{tag}");
    let flags = ["copy", "--all", "--preserve-digests", "--src-tls-verify=false", "--dest-tls-verify=false"];
    skopeo(flags.into_iter().chain([source, &destination])).with_context(|| format!("cannot push {destination}"))?;
    Ok(())
}

/// Adds the tag that follows the first one, as soon as the pushes have made the stream.
fn follow(machine: &Machine) -> Result<()> {
    wait_until("the image stream", PATIENCE, || {
        let stream = stream(machine, SHOP)?;
        let tags = stream["status"]["tags"].as_array().map_or(0, Vec::len);
        ensure!(tags == 2, "the stream has {tags} tags");
        Ok(())
    })?;
    let from = json!({"kind": "ImageStreamTag", "name": format!("{STREAM}:{RUNS}")});
    let tag = json!({
        "apiVersion": "image.openshift.io/v1",
        "kind": "ImageStreamTag",
        "metadata": {"name": format!("{STREAM}:{FOLLOWS}"), "namespace": SHOP},
        "tag": {"name": FOLLOWS, "from": from, "referencePolicy": {"type": "Source"}},
    });
    let file = machine.folder("images")?.join("tag.json");
    std::fs::write(&file, tag.to_string())?;
    let path = format!("/apis/image.openshift.io/v1/namespaces/{SHOP}/imagestreamtags");
    machine.kubectl(&["create", "--raw", &path, "-f", &file.display().to_string()]).map(drop)
}

/// The image stream of the project.
pub fn stream(machine: &Machine, namespace: &str) -> Result<Value> {
    let path = format!("/apis/image.openshift.io/v1/namespaces/{namespace}/imagestreams/{STREAM}");
    Ok(serde_json::from_str(&machine.kubectl(&["get", "--raw", &path])?)?)
}

/// The digest that a registry has for a tag of the project; `None` where there is none.
pub fn digest(machine: &Machine, registry: &str, namespace: &str, tag: &str) -> Result<Option<String>> {
    let url = format!("http://{registry}/v2/{namespace}/{STREAM}/manifests/{tag}");
    let answer = machine.run("curl", ["--silent", "--show-error", "--head", "--header", MANIFESTS, &url])?;
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

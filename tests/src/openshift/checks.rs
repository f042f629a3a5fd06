//! What the project has to be after a restore.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::TestBox;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::STORAGE_CLASS;

use super::images::{self, FOLLOWS, Images, PLATFORMS, RUNS, STREAM, TAKER};
use super::project::{self, ACCOUNT, CONSTRAINTS, MOVED_CLASS, PULLER};
use super::{PATIENCE, STORE, running_image};

/// Checks everything of a project that was restored into that namespace.
pub fn project(test_box: &TestBox, namespace: &str, images: &Images) -> Result<()> {
    let machine = test_box.machine();
    images_are_there(test_box, namespace, images)?;
    let mut wrong = Vec::new();
    let mut expectations = expectations(&test_box.internal_registry(), namespace);
    let taker = format!("/apis/image.openshift.io/v1/namespaces/{namespace}/imagestreamtags/{TAKER}:{FOLLOWS}");
    expectations.push((taker, "/image/metadata/name", json!(images.base)));
    let secret = project::pull_secret(machine, namespace)?;
    let puller = format!("/api/v1/namespaces/{namespace}/pods/{PULLER}");
    expectations.push((puller, "/spec/imagePullSecrets", json!([{"name": secret}])));
    for (path, pointer, expected) in expectations {
        let object = object(machine, &path)?.with_context(|| format!("{path} is not there"))?;
        let found = object.pointer(pointer).cloned().unwrap_or_default();
        if found != expected {
            wrong.push(format!("{path}: {pointer} is {found}, not {expected}"));
        }
    }
    for path in left_out(namespace) {
        if object(machine, &path)?.is_some() {
            wrong.push(format!("{path} was restored"));
        }
    }
    ensure!(wrong.is_empty(), "the project in {namespace} is not as it has to be:\n{}", wrong.join("\n"));
    let image = running_image(test_box, namespace, STREAM)?;
    let expected = format!("{}/{namespace}/{STREAM}@{}", test_box.internal_registry(), images.runs);
    ensure!(image == expected, "the pod runs {image}, not {expected}");
    project::wait_for_puller(machine, namespace)
}

/// The registry has every image with its digest, and the pushes have made the stream.
fn images_are_there(test_box: &TestBox, namespace: &str, images: &Images) -> Result<()> {
    let (machine, registry) = (test_box.machine(), test_box.internal_registry());
    for (tag, digest) in images.own() {
        let found = images::digest(machine, &registry, namespace, tag)?;
        ensure!(
            found.as_ref() == Some(digest),
            "{registry} has {found:?} for {namespace}/{STREAM}:{tag}, not {digest}"
        );
    }
    wait_until("the tags of the stream", PATIENCE, || {
        let stream = images::stream(machine, namespace, STREAM)?;
        let tags = stream["status"]["tags"].as_array().cloned().unwrap_or_default();
        for (tag, digest) in images.tags() {
            let history = tags.iter().find(|history| history["tag"] == tag);
            let newest = history.map_or(&Value::Null, |history| &history["items"][0]);
            let reference = format!("{registry}/{namespace}/{STREAM}@{digest}");
            ensure!(newest["dockerImageReference"] == reference.as_str(), "{tag} is {newest}, not {reference}");
        }
        ensure!(tags.len() == images.tags().len(), "the stream has more tags: {tags:?}");
        Ok(())
    })
}

/// Path, place and value of what a restore decides.
fn expectations(registry: &str, namespace: &str) -> Vec<(String, &'static str, Value)> {
    let of = |api: &str, plural: &str, name: &str| format!("{api}/namespaces/{namespace}/{plural}/{name}");
    let image = |tag: &str| json!(format!("{registry}/{namespace}/{STREAM}:{tag}"));
    let account = json!(format!("system:serviceaccount:{namespace}:{ACCOUNT}"));
    let group = json!(format!("system:serviceaccounts:{namespace}"));
    let config = of("/apis/apps.openshift.io/v1", "deploymentconfigs", "web-config");
    let build = of("/apis/build.openshift.io/v1", "buildconfigs", "web-build");
    let binding = of("/apis/authorization.openshift.io/v1", "rolebindings", "readers");
    let route = of("/apis/route.openshift.io/v1", "routes", "web");
    let constraints = format!("/apis/security.openshift.io/v1/securitycontextconstraints/{CONSTRAINTS}");
    let tag = of("/apis/image.openshift.io/v1", "imagestreamtags", &format!("{STREAM}:{FOLLOWS}"));
    let deployment = of("/apis/apps/v1", "deployments", STREAM);
    let claim = of("/api/v1", "persistentvolumeclaims", "data");
    let class = if namespace == STORE { MOVED_CLASS } else { STORAGE_CLASS };
    vec![
        (config.clone(), "/spec/template/spec/containers/0/image", image(RUNS)),
        (config.clone(), "/spec/triggers/0/imageChangeParams/from/namespace", json!(namespace)),
        (config, "/spec/replicas", json!(1)),
        (build.clone(), "/spec/output/to/name", image(RUNS)),
        (build, "/spec/strategy/dockerStrategy/from/name", image(PLATFORMS)),
        (binding.clone(), "/subjects/0/namespace", json!(namespace)),
        (binding.clone(), "/subjects/1/name", group.clone()),
        (binding.clone(), "/userNames", json!([account])),
        (binding, "/groupNames", json!([group])),
        (route.clone(), "/spec/host", Value::Null),
        (route, "/spec/to/name", json!("web")),
        (constraints.clone(), "/users", json!([account, "system:serviceaccount:other:someone"])),
        (constraints, "/allowPrivilegedContainer", json!(false)),
        (tag, "/tag/from/name", json!(format!("{STREAM}:{RUNS}"))),
        (deployment, "/spec/template/spec/containers/0/image", image(RUNS)),
        (claim, "/spec/storageClassName", json!(class)),
        (of("/api/v1", "serviceaccounts", ACCOUNT), "/metadata/name", json!(ACCOUNT)),
    ]
}

/// What OpenShift makes again and a restore leaves out.
fn left_out(namespace: &str) -> [String; 2] {
    [
        format!("/apis/build.openshift.io/v1/namespaces/{namespace}/builds/web-build-1"),
        format!("/api/v1/namespaces/{namespace}/secrets/web-certificate"),
    ]
}

fn object(machine: &Machine, path: &str) -> Result<Option<Value>> {
    machine.read_if_there(path)
}

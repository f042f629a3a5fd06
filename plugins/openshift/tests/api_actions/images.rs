//! The images of a stream on their way: from the registry of one cluster to the migration registry and on to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use velero_plugin::RestoreItemInput;
use velero_registry::Digest;
use velero_testkit::faulty_proxy::{self, Action};
use velero_testkit::registry::{ContainerRegistry, Guard, Layout, REGISTRY_PASSWORD, REGISTRY_USER, skopeo};
use velero_testkit::{TestCluster, cluster_test, openshift_box_test};

use crate::support::{STREAM_BACKUP, STREAM_RESTORE, Scene, image_stream_tags};

/// Three registries: of the old cluster, for the migration, of the new cluster. Those of clusters want to know who asks.
struct Registries {
    old: ContainerRegistry,
    migration: ContainerRegistry,
    new: ContainerRegistry,
    token: NamedTempFile,
}

impl Registries {
    fn start() -> Self {
        let token = NamedTempFile::new().unwrap();
        std::fs::write(token.path(), REGISTRY_PASSWORD).unwrap();
        Self {
            old: ContainerRegistry::start_with(Guard::Password, false).unwrap(),
            migration: ContainerRegistry::start().unwrap(),
            new: ContainerRegistry::start_with(Guard::Password, false).unwrap(),
            token,
        }
    }

    /// The settings that let the plugin use them.
    fn settings(&self, further: &[(&str, &str)]) -> Value {
        let hosts = [&self.old, &self.migration, &self.new].map(ContainerRegistry::host).join(",");
        let mut data =
            json!({"plainHttpRegistries": hosts, "registryTokenFile": self.token.path(), "copyRetries": "1"});
        further.iter().for_each(|(key, value)| data[*key] = json!(value));
        data
    }

    /// Brings an image or an index into the registry of the old cluster.
    fn fill(&self, layout: &mut Layout, image: &Value, tag: &str) {
        let seed = ContainerRegistry::start().unwrap();
        layout.push(image, &seed, &format!("shop/web:{tag}")).unwrap();
        let credentials = format!("{REGISTRY_USER}:{REGISTRY_PASSWORD}");
        let (from, to) = (seed.host(), self.old.host());
        skopeo([
            "copy",
            "--all",
            "--preserve-digests",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
            "--dest-creds",
            &credentials,
            &format!("docker://{from}/shop/web:{tag}"),
            &format!("docker://{to}/shop/web:{tag}"),
        ])
        .unwrap();
    }
}

/// The digest of an image as skopeo reads it.
fn digest_in(registry: &ContainerRegistry, name: &str) -> String {
    let credentials = format!("{REGISTRY_USER}:{REGISTRY_PASSWORD}");
    let image = format!("docker://{}/{name}", registry.host());
    let raw = skopeo(["inspect", "--raw", "--tls-verify=false", "--creds", &credentials, &image]).unwrap();
    Digest::of(&raw).as_str().to_owned()
}

async fn scene(test: &TestCluster, settings: Value) -> Scene {
    let scene = Scene::new(test).await;
    scene.settings(settings).await;
    scene
}

/// A stream of the old cluster: each tag with the digests of its images, the newest first.
fn stream(registries: &Registries, tags: &[(&str, &[&str])]) -> Value {
    let old = registries.old.host();
    let item = |image: &&str| json!({"image": image, "dockerImageReference": format!("{old}/shop/web@{image}")});
    let items = |images: &[&str]| images.iter().map(item).collect::<Vec<_>>();
    let tags: Vec<_> = tags.iter().map(|(tag, images)| json!({"tag": tag, "items": items(images)})).collect();
    json!({
        "kind": "ImageStream",
        "metadata": {"name": "web", "namespace": "shop", "annotations": {
            "openshift.io/backup-registry-hostname": old,
            "openshift.io/restore-registry-hostname": registries.new.host(),
            "openshift.io/migration-registry": registries.migration.host(),
        }},
        "spec": {}, "status": {"tags": tags},
    })
}

fn digest(descriptor: &Value) -> &str {
    descriptor["digest"].as_str().unwrap()
}

#[test]
fn the_images_of_a_stream_reach_the_other_cluster_with_their_digests() {
    cluster_test(async |test| {
        let registries = Registries::start();
        let mut layout = Layout::new().unwrap();
        let first = layout.image("amd64", &[10_000]).unwrap();
        let other = layout.image("arm64", &[20_000]).unwrap();
        let index = layout.index(&[first.clone(), other]).unwrap();
        registries.fill(&mut layout, &first, "v1");
        registries.fill(&mut layout, &index, "v2");
        let scene = scene(&test, registries.settings(&[])).await;
        let stream = stream(&registries, &[("v1", &[digest(&first)]), ("v2", &[digest(&index), digest(&first)])]);

        let backup = scene.existing_backup().await;
        let outcome = scene.back_up(STREAM_BACKUP, &stream, &backup).await.unwrap();
        let ended = scene.backup_ended(&outcome.operation_id.unwrap(), &backup).await;
        assert_eq!((ended.error.as_str(), ended.description.as_str()), ("", "3 images copied"));
        assert!(ended.n_completed > 30_000 && ended.n_completed == ended.n_total, "{ended:?}");

        let mapping = json!({"backupName": "shop", "namespaceMapping": {"shop": "store"}});
        let restore = scene.existing_restore(&mapping).await;
        let mut item = stream.clone();
        item.as_object_mut().unwrap().remove("status");
        let input = RestoreItemInput { item: &item, item_from_backup: &stream, restore: &restore };
        let outcome = scene.restore_action(STREAM_RESTORE).execute(input).await.unwrap();
        assert!(outcome.skip_restore);
        let ended = scene.restore_ended(&outcome.operation_id.unwrap(), &restore).await;
        assert_eq!(ended.error, "");
        for (registry, namespace) in [(&registries.migration, "shop"), (&registries.new, "store")] {
            for (tag, expected) in [("v1", &first), ("v2", &index)] {
                let name = format!("{namespace}/web:{tag}");
                assert_eq!(digest_in(registry, &name), digest(expected), "{name}");
            }
        }
    });
}

#[test]
fn a_stream_that_waits_for_one_platform_has_its_digest() {
    cluster_test(async |test| {
        let registries = Registries::start();
        let mut layout = Layout::new().unwrap();
        let first = layout.image("amd64", &[10_000]).unwrap();
        let second = layout.image("arm64", &[20_000]).unwrap();
        let index = layout.index(&[first, second.clone()]).unwrap();
        registries.fill(&mut layout, &index, "v1");
        let scene = scene(&test, registries.settings(&[("platform", "linux/arm64")])).await;
        let backup = scene.existing_backup().await;
        let before = stream(&registries, &[("v1", &[digest(&index)])]);
        let outcome = scene.back_up(STREAM_BACKUP, &before, &backup).await.unwrap();
        assert_eq!(outcome.operation_id, None);
        assert_eq!(outcome.updated_item, Some(stream(&registries, &[("v1", &[digest(&second)])])));
        assert_eq!(digest_in(&registries.migration, "shop/web:v1"), digest(&second));
    });
}

#[test]
fn an_image_that_is_gone_is_named_and_the_others_are_copied() {
    cluster_test(async |test| {
        let registries = Registries::start();
        let mut layout = Layout::new().unwrap();
        let image = layout.image("amd64", &[10_000]).unwrap();
        registries.fill(&mut layout, &image, "v1");
        let scene = scene(&test, registries.settings(&[])).await;
        let gone = format!("sha256:{}", "0".repeat(64));
        let stream = stream(&registries, &[("gone", &[&gone]), ("v1", &[digest(&image)])]);
        let backup = scene.existing_backup().await;
        let outcome = scene.back_up(STREAM_BACKUP, &stream, &backup).await.unwrap();
        let ended = scene.backup_ended(&outcome.operation_id.unwrap(), &backup).await;
        assert!(ended.error.contains(&gone), "{}", ended.error);
        assert_eq!(digest_in(&registries.migration, "shop/web:v1"), digest(&image));
    });
}

/// A registry behind a gate: it serves nobody until that is opened, and counts those it sent away.
#[derive(Clone, Default)]
struct Gate {
    open: Arc<AtomicBool>,
    refused: Arc<AtomicU32>,
}

impl Gate {
    async fn before(&self, registry: &ContainerRegistry) -> String {
        let gate = self.clone();
        let rule = move |_: &faulty_proxy::Request| match gate.open.load(Ordering::SeqCst) {
            true => Action::Forward,
            false => {
                gate.refused.fetch_add(1, Ordering::SeqCst);
                Action::Unavailable
            }
        };
        let url = faulty_proxy::start(&registry.host(), rule).await.unwrap();
        url.trim_start_matches("http://").to_owned()
    }

    /// Opens after somebody has knocked twice.
    async fn open_later(&self) {
        while self.refused.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.open.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_tag_from_another_stream_comes_after_the_push_that_makes_what_it_is_from() {
    openshift_box_test(async |test| {
        let (migration, gate) = (ContainerRegistry::start().unwrap(), Gate::default());
        let mut layout = Layout::new().unwrap();
        let image = layout.image("amd64", &[10_000]).unwrap();
        layout.push(&image, &migration, "shop/base:v1").unwrap();
        let token = NamedTempFile::new().unwrap();
        std::fs::write(token.path(), REGISTRY_PASSWORD).unwrap();
        let (internal, gated) = (test.test_box.internal_registry(), gate.before(&migration).await);
        let settings = json!({
            "plainHttpRegistries": format!("{internal},{gated}"), "registryTokenFile": token.path(), "copyRetries": "20",
        });
        let scene = scene(&test, settings).await;
        let mapping = json!({"backupName": "shop", "namespaceMapping": {"shop": scene.namespace}});
        let restore = scene.existing_restore(&mapping).await;
        let annotations = json!({
            "openshift.io/backup-registry-hostname": "old:5000", "openshift.io/restore-registry-hostname": internal,
            "openshift.io/migration-registry": gated,
        });
        let reference = format!("old:5000/shop/base@{}", digest(&image));
        let items = json!([{"image": digest(&image), "dockerImageReference": reference}]);
        let base = json!({
            "kind": "ImageStream", "metadata": {"name": "base", "namespace": "shop", "annotations": annotations},
            "spec": {}, "status": {"tags": [{"tag": "v1", "items": items}]},
        });
        let copy = scene.restore(STREAM_RESTORE, &base, &restore).await.unwrap();
        assert!(copy.skip_restore && copy.operation_id.is_some());

        let tag = json!({
            "apiVersion": "image.openshift.io/v1", "kind": "ImageStreamTag",
            "metadata": {"name": "app:stable", "namespace": "shop"},
            "tag": {"name": "stable", "from": {"kind": "ImageStreamTag", "name": "base:v1"}},
            "image": {"dockerImageReference": reference},
        });
        let mut here = tag.clone();
        here["metadata"]["namespace"] = json!(scene.namespace);
        let create = async || scene.cluster.create(&image_stream_tags(), Some(&scene.namespace), &here).await;
        let refused = create().await.unwrap_err().to_string();
        assert!(refused.contains("spec.tags[stable].from.name: Not found"), "{refused}");
        let act = async {
            let outcome = scene.restore("openshift.io/04-imagestreamtag-restore-plugin", &tag, &restore).await;
            assert!(gate.open.load(Ordering::SeqCst), "it did not wait for the push");
            outcome.unwrap()
        };
        let (outcome, ()) = tokio::join!(act, gate.open_later());
        assert!(!outcome.skip_restore);
        let created = create().await.unwrap();
        assert_eq!(created["image"]["metadata"]["name"], digest(&image));
    });
}

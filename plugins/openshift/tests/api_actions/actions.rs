//! What the actions look up in a cluster, keep and write down.

use std::io::Write;

use base64::Engine;
use serde_json::{Value, json};
use velero_cluster::types;
use velero_plugin::BackupItemOutcome;
use velero_plugin_openshift::{Switch, builtin};
use velero_registry::Digest;
use velero_testkit::cluster_test;

use crate::support::{PATIENCE, STREAM_BACKUP, Scene, config_maps, kind};

const IMAGE: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A stream whose only image is in a registry that nobody serves.
fn stream(namespace: &str) -> Value {
    let annotations = json!({
        "openshift.io/backup-registry-hostname": "127.0.0.1:2", "openshift.io/migration-registry": "127.0.0.1:1",
    });
    let items = json!([{"image": IMAGE, "dockerImageReference": format!("127.0.0.1:2/shop/web@{IMAGE}")}]);
    json!({
        "apiVersion": "image.openshift.io/v1", "kind": "ImageStream",
        "metadata": {"name": "web", "namespace": namespace, "annotations": annotations},
        "spec": {}, "status": {"tags": [{"tag": "v1", "items": items}]},
    })
}

#[test]
fn where_there_is_no_openshift_there_are_no_actions() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        for (switch, expected) in [(Switch::Auto, 0), (Switch::Off, 0), (Switch::On, 27)] {
            let actions = builtin(&scene.cluster, &scene.discovery, &scene.namespace, switch, false).unwrap();
            assert_eq!(actions.restore_item().len(), expected, "{switch:?}");
        }
    });
}

#[test]
fn an_action_is_switched_off_by_a_config_map_and_a_typing_error_is_told() {
    cluster_test(async |test| {
        let mut scene = Scene::new(&test).await;
        let applies_to = async |scene: &Scene, name: &str| {
            scene.restore_action(name).applies_to().await.map(|it| it.included_resources)
        };
        let (route, build) = ("openshift.io/05-route-restore-plugin", "openshift.io/06-build-restore-plugin");
        assert_eq!(applies_to(&scene, route).await.unwrap(), ["routes"]);
        scene.settings(json!({"disable": "05-route-restore-plugin"})).await;
        scene.again();
        assert_eq!(applies_to(&scene, route).await.unwrap(), ["nothing.openshift.io"]);
        assert_eq!(applies_to(&scene, build).await.unwrap(), ["builds"]);
        let patch = json!({"data": {"disable": "05-rote-restore-plugin"}});
        scene.cluster.merge_patch(config_maps().item(Some(&scene.namespace), "openshift"), &patch).await.unwrap();
        scene.again();
        let error = applies_to(&scene, route).await.unwrap_err().to_string();
        assert!(error.contains("there is no action openshift.io/05-rote-restore-plugin"), "{error}");
    });
}

#[test]
fn items_say_where_they_come_from_and_the_cluster_is_asked_once() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let pod = json!({"kind": "Pod", "metadata": {"name": "web", "namespace": scene.namespace}});
        let backup = scene.backup_object(false);
        let version = async |item: &Value| {
            let outcome = scene.back_up("openshift.io/01-common-backup-plugin", item, &backup).await.unwrap();
            outcome.updated_item.unwrap()["metadata"]["annotations"].clone()
        };
        let first = version(&pod).await;
        assert!(first["openshift.io/backup-server-version"].as_str().unwrap().starts_with("1."), "{first}");
        assert_eq!(first["openshift.io/backup-registry-hostname"], "");
        assert_eq!(first.as_object().unwrap().len(), 2, "{first}");
        let stream = json!({"kind": "ImageStream", "metadata": {"name": "web", "namespace": scene.namespace}});
        assert_eq!(version(&stream).await["openshift.io/skip-image-copy"], "true");
        // A ConfigMap that appears later makes no difference to a backup that has looked already.
        scene.create(&config_maps(), json!({"metadata": {"name": "oadp-registry-config"}, "data": {}})).await;
        assert_eq!(version(&stream).await["openshift.io/skip-image-copy"], "true");
    });
}

#[test]
fn a_pod_gets_the_pull_secret_of_its_account_where_it_is_restored() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let account = json!({"metadata": {"name": "default-2", "annotations":
            {"openshift.io/internal-registry-pull-secret-ref": "default-dockercfg-new"}}});
        scene.create(&kind("ServiceAccount", "serviceaccounts"), account).await;
        for name in ["default-dockercfg-old", "default-dockercfg-new"] {
            let annotations = json!({"openshift.io/internal-registry-auth-token.service-account": "default-2"});
            let secret = json!({"metadata": {"name": name, "annotations": annotations}});
            scene.create(&kind("Secret", "secrets"), secret).await;
        }
        let mut restore = scene.restore_object();
        restore.spec.namespace_mapping.insert("shop".to_owned(), scene.namespace.clone());
        let spec =
            json!({"containers": [], "imagePullSecrets": [{"name": "default-dockercfg-there"}, {"name": "mine"}]});
        let pod = json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        let outcome = scene.restore("openshift.io/07-pod-restore-plugin", &pod, &restore).await.unwrap();
        let expected = json!([{"name": "default-dockercfg-new"}, {"name": "mine"}]);
        assert_eq!(outcome.updated_item.unwrap()["spec"]["imagePullSecrets"], expected);
    });
}

#[test]
fn a_namespace_without_pull_secrets_is_an_error_after_the_wait() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        scene.settings(json!({"pullSecretWait": "1s"})).await;
        let restore = scene.restore_object();
        let pod = json!({"kind": "Pod", "metadata": {"name": "web", "namespace": scene.namespace}, "spec": {}});
        let act = scene.restore("openshift.io/07-pod-restore-plugin", &pod, &restore);
        let error = tokio::time::timeout(PATIENCE, act).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("still lacks pull secrets") && error.contains("/web"), "{error}");
    });
}

#[test]
fn a_volume_that_is_moved_is_retained_in_the_cluster_too() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let name = format!("pv-{}", scene.namespace);
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {"openshift.io/migrate-type": "move"}},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/x"},
                "persistentVolumeReclaimPolicy": "Delete",
            },
        });
        scene.cluster.create(&types::PERSISTENT_VOLUMES, None, &volume).await.unwrap();
        let action = "openshift.io/03-pv-backup-plugin";
        let untouched = scene.back_up(action, &volume, &scene.backup_object(false)).await.unwrap();
        assert_eq!(untouched, BackupItemOutcome::default());
        let outcome = scene.back_up(action, &volume, &scene.backup_object(true)).await.unwrap();
        let live = scene.cluster.get(types::PERSISTENT_VOLUMES.item(None, &name)).await.unwrap().unwrap();
        scene.cluster.delete(types::PERSISTENT_VOLUMES.item(None, &name), &Default::default()).await.unwrap();
        for item in [outcome.updated_item.unwrap(), live] {
            assert_eq!(item["spec"]["persistentVolumeReclaimPolicy"], "Retain");
            assert_eq!(item["metadata"]["annotations"]["migration.openshift.io/orig-reclaim-policy"], "Delete");
        }
    });
}

#[test]
fn an_image_that_cannot_be_copied_fails_its_operation_and_is_named() {
    cluster_test(async |test| {
        let mut scene = Scene::new(&test).await;
        let token = token();
        scene.settings(json!({"registryTokenFile": token, "copyRetries": "1"})).await;
        let backup = scene.existing_backup().await;
        let outcome = scene.back_up(STREAM_BACKUP, &stream(&scene.namespace), &backup).await.unwrap();
        let id = outcome.operation_id.unwrap();
        // A process that did not start the operation answers too.
        scene.again();
        let ended = scene.backup_ended(&id, &backup).await;
        assert!(ended.error.contains("127.0.0.1:2"), "{ended:?}");
        assert_eq!(ended.operation_units, "Bytes");
        let record = scene.cluster.get(config_maps().item(Some(&scene.namespace), &id)).await.unwrap().unwrap();
        assert_eq!(record["metadata"]["ownerReferences"][0]["kind"], "Backup");
        let unknown = scene.backup_action(STREAM_BACKUP).progress("other", &backup).await;
        assert!(matches!(unknown, Err(velero_plugin::Error::InvalidOperationId { .. })));
    });
}

#[test]
fn an_operation_of_another_process_goes_on_or_is_cancelled() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let token = token();
        scene.settings(json!({"registryTokenFile": token})).await;
        let backup = scene.backup_object(true);
        let action = scene.backup_action(STREAM_BACKUP);
        let plan = packed(br#"{"internal":"127.0.0.1:2","copies":[]}"#);
        for (id, cancelled) in [("openshift-image-copy-a", false), ("openshift-image-copy-b", true)] {
            scene.create(&config_maps(), json!({"metadata": {"name": id}, "binaryData": {"plan": plan}})).await;
            if cancelled {
                action.cancel(id, &backup).await.unwrap();
            }
            let ended = scene.backup_ended(id, &backup).await;
            assert_eq!(ended.error, if cancelled { "the copy was cancelled" } else { "" });
            // An operation that has ended cannot be cancelled any more, which is no error; nor can one whose record is gone.
            action.cancel(id, &backup).await.unwrap();
            scene.cluster.delete(config_maps().item(Some(&scene.namespace), id), &Default::default()).await.unwrap();
            action.cancel(id, &backup).await.unwrap();
        }
    });
}

#[test]
fn ten_thousand_images_are_one_record() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        scene.settings(json!({"registryTokenFile": token(), "copyRetries": "0"})).await;
        let backup = scene.existing_backup().await;
        let item = |number: u32| {
            let image = Digest::of(&number.to_be_bytes());
            json!({"image": image.as_str(), "dockerImageReference": format!("127.0.0.1:2/shop/web@{}", image.as_str())})
        };
        let mut stream = stream(&scene.namespace);
        stream["status"]["tags"][0]["items"] = (0..10_000).map(item).collect();
        let outcome = scene.back_up(STREAM_BACKUP, &stream, &backup).await.unwrap();
        let id = outcome.operation_id.unwrap();
        // Another process would go on with it.
        let record = scene.cluster.get(config_maps().item(Some(&scene.namespace), &id)).await.unwrap().unwrap();
        assert_eq!(record["metadata"]["labels"]["velero.io/resource-usage"], "OperationRecord");
        scene.backup_action(STREAM_BACKUP).cancel(&id, &backup).await.unwrap();
        let ended = scene.backup_ended(&id, &backup).await;
        assert!(ended.error.contains("cancelled"), "{}", ended.error);
    });
}

#[test]
fn a_stream_that_was_restored_without_images_is_backed_up_with_them_next_time() {
    cluster_test(async |test| {
        let mut scene = Scene::new(&test).await;
        let backup = scene.existing_backup().await;
        let annotations = json!({"openshift.io/backup-registry-hostname": "127.0.0.1:2"});
        let mut item = stream(&scene.namespace);
        item["metadata"]["annotations"] = annotations;
        // There is no registry to copy to.
        for action in ["openshift.io/01-common-backup-plugin", STREAM_BACKUP] {
            let outcome = scene.back_up(action, &item, &backup).await.unwrap();
            assert_eq!(outcome.operation_id, None);
            item = outcome.updated_item.unwrap_or(item);
        }
        assert_eq!(item["metadata"]["annotations"]["openshift.io/skip-image-copy"], "true");
        let restore = scene.existing_restore(&json!({"backupName": "shop"})).await;
        for action in ["openshift.io/01-common-restore-plugin", "openshift.io/19-is-restore-plugin"] {
            let outcome = scene.restore(action, &item, &restore).await.unwrap();
            assert!(!outcome.skip_restore);
            item = outcome.updated_item.unwrap_or(item);
        }
        assert_eq!(item["metadata"]["annotations"].get("openshift.io/skip-image-copy"), None);

        scene
            .settings(json!({"registryTokenFile": token(), "copyRetries": "0", "migrationRegistry": "127.0.0.1:1"}))
            .await;
        scene.again();
        let common = scene.back_up("openshift.io/01-common-backup-plugin", &item, &backup).await.unwrap();
        let mut item = common.updated_item.unwrap();
        item["metadata"]["annotations"]["openshift.io/backup-registry-hostname"] = json!("127.0.0.1:2");
        let outcome = scene.back_up(STREAM_BACKUP, &item, &backup).await.unwrap();
        let ended = scene.backup_ended(&outcome.operation_id.unwrap(), &backup).await;
        assert!(ended.error.contains("127.0.0.1:2/shop/web"), "its images were asked for: {}", ended.error);
    });
}

#[test]
fn a_stream_waits_for_its_images_when_asked_to() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let token = token();
        scene.settings(json!({"registryTokenFile": token, "imageCopy": "sync", "copyRetries": "0"})).await;
        let backup = scene.backup_object(true);
        let outcome = scene.back_up(STREAM_BACKUP, &stream(&scene.namespace), &backup).await;
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:2/shop/web"), "{error}");
    });
}

/// A plan as records keep it.
fn packed(plan: &[u8]) -> String {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(plan).unwrap();
    base64::engine::general_purpose::STANDARD.encode(encoder.finish().unwrap())
}

/// A file with a token: any that is there, for no registry looks at it.
fn token() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")
}

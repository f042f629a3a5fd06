//! Volumes of pods that are asked for and cannot be copied as they are, against a real API server.

use crate::support::{Scene, claims, pods, service_accounts};
use serde_json::{Value, json};
use velero_api::v1::BackupSpec;
use velero_testkit::cluster_test;

const ASK: &str = "backup.velero.io/backup-volumes";

/// Makes a pod that is in that phase as far as the API server knows, and mounts all volumes but `unmounted`.
async fn pod(scene: &Scene, (name, phase): (&str, &str), asked: Option<&str>, volumes: Value) {
    let names = volumes.as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap());
    let mounted = names.filter(|name| *name != "unmounted");
    let mounts: Vec<Value> = mounted.map(|name| json!({"name": name, "mountPath": format!("/{name}")})).collect();
    let annotations = asked.map_or(json!({}), |asked| json!({ASK: asked}));
    let pod = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "automountServiceAccountToken": false,
            "nodeSelector": {"example.com/never": "true"},
            "containers": [{"name": "main", "image": "none", "volumeMounts": mounts}],
            "volumes": volumes,
        },
    });
    let mut pod = scene.create(&pods(), pod).await;
    pod["status"] = json!({"phase": phase});
    // The scheduler writes too.
    pod["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    scene.cluster.update_status(&pods(), Some(&scene.namespace), &pod).await.unwrap();
}

/// The messages about the own namespace, errors and warnings.
async fn messages(scene: &Scene, by_default: bool) -> (Vec<String>, Vec<String>) {
    let included_resources = ["pods", "persistentvolumeclaims", "persistentvolumes"].map(str::to_owned).into();
    let spec =
        BackupSpec { included_resources, default_volumes_to_fs_backup: Some(by_default), ..scene.own_namespace() };
    let results = scene.back_up(spec).await.journal.results();
    let of = |namespaces: std::collections::BTreeMap<String, Vec<String>>| {
        namespaces.get(&scene.namespace).cloned().unwrap_or_default()
    };
    (of(results.errors.namespaces), of(results.warnings.namespaces))
}

fn scratch(name: &str) -> Value {
    json!({"name": name, "emptyDir": {}})
}

#[test]
fn a_volume_that_a_pod_names_and_that_is_not_copied_is_an_error_with_a_reason() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.wait(&service_accounts(), "default", |_| true).await;
        let config = json!({"name": "config", "configMap": {"name": "c", "optional": true}});
        let volumes = json!([config, scratch("unmounted"), scratch("other")]);
        pod(&scene, ("web", "Running"), Some("typo, config,unmounted"), volumes).await;
        pod(&scene, ("job", "Succeeded"), Some("scratch"), json!([scratch("scratch")])).await;
        let (errors, warnings) = messages(&scene, false).await;
        assert_eq!((errors.len(), warnings.len()), (4, 0), "{errors:?} {warnings:?}");
        for words in [
            "names volume typo, which the pod does not have",
            "volumes of its type are never copied",
            "no container of the pod mounts it",
            "the pod has ended",
        ] {
            assert!(errors.iter().any(|error| error.contains(words)), "{words}: {errors:?}");
        }
    });
}

#[test]
fn where_all_volumes_are_copied_those_of_ended_pods_and_those_nobody_mounts_are_warnings() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.wait(&service_accounts(), "default", |_| true).await;
        pod(&scene, ("job", "Failed"), None, json!([scratch("scratch")])).await;
        pod(&scene, ("web", "Running"), None, json!([scratch("unmounted")])).await;
        let (errors, warnings) = messages(&scene, true).await;
        assert_eq!((errors.len(), warnings.len()), (0, 2), "{errors:?} {warnings:?}");
    });
}

#[test]
fn a_claim_that_no_pod_can_copy_is_one_error_however_many_pods_use_it() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.wait(&service_accounts(), "default", |_| true).await;
        let claim = json!({"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "by-hand", "resources": {"requests": {"storage": "1Mi"}},
        }});
        scene.create(&claims(), claim).await;
        let data = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        for (name, phase) in [("a", "Pending"), ("b", "Running"), ("c", "Succeeded")] {
            pod(&scene, (name, phase), Some("data"), data.clone()).await;
        }
        let (errors, _) = messages(&scene, false).await;
        assert_eq!(errors.len(), 1, "{errors:?}");
        let tried = format!("volume data of pod {}/b is not backed up", scene.namespace);
        assert!(errors[0].contains(&tried), "the pod that runs says why, such as that there is no agent: {errors:?}");
    });
}

use std::collections::BTreeMap;

use serde_json::{Value, json};
use velero_api::records::PodVolumeInfo;
use velero_api::v1::{Backup, Restore};

use super::*;

fn backup(spec: Value) -> Backup {
    let mut backup = Backup::new("velero", "nightly", serde_json::from_value(spec).unwrap());
    backup.metadata.uid = Some("b-uid".to_owned());
    backup
}

fn restore(spec: Value) -> Restore {
    let mut restore = Restore::new("velero", "again", serde_json::from_value(spec).unwrap());
    restore.metadata.uid = Some("r-uid".to_owned());
    restore
}

fn pod() -> RunningPod {
    let text = str::to_owned;
    RunningPod { namespace: text("shop"), name: text("web-0"), uid: text("p-uid"), node: text("node-1") }
}

fn copy(volume: &str, snapshot: &str, uploader: &str) -> PodVolumeInfo {
    PodVolumeInfo {
        snapshot_handle: snapshot.to_owned(),
        size: 4096,
        uploader_type: uploader.to_owned(),
        volume_name: volume.to_owned(),
        pod_name: "web-0".to_owned(),
        pod_namespace: "shop".to_owned(),
        ..PodVolumeInfo::default()
    }
}

#[test]
fn a_copy_is_asked_for_as_velero_does() {
    let spec = json!({"storageLocation": "default", "uploaderConfig": {"parallelFilesUpload": 5}});
    let volume = CopiedVolume { name: "data", claim: Some(("web-data", "c-uid")) };
    let made = serde_json::to_value(pod_volume_backup(&backup(spec), &pod(), volume)).unwrap();
    let name = transfer_name("nightly", "b-uid", "p-uid", "data", 0);
    let expected = json!({
        "apiVersion": "velero.io/v1",
        "kind": "PodVolumeBackup",
        "metadata": {
            "namespace": "velero",
            "name": name,
            "generateName": "nightly-",
            "ownerReferences": [
                {"apiVersion": "velero.io/v1", "kind": "Backup", "name": "nightly", "uid": "b-uid", "controller": true}],
            "labels": {
                "velero.io/backup-name": "nightly", "velero.io/backup-uid": "b-uid", "velero.io/pvc-uid": "c-uid"},
            "annotations": {"velero.io/pvc-name": "web-data"},
        },
        "spec": {
            "node": "node-1",
            "pod": {"kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "p-uid"},
            "volume": "data",
            "backupStorageLocation": "default",
            "repoIdentifier": "",
            "uploaderType": "kopia",
            "tags": {
                "backup": "nightly", "backup-uid": "b-uid", "pod": "web-0", "pod-uid": "p-uid", "ns": "shop",
                "volume": "data", "pvc-uid": "c-uid"},
            "uploaderSettings": {"ParallelFilesUpload": "5"},
        },
        "status": {"progress": {}},
    });
    assert_eq!(made, expected);
    let plain = pod_volume_backup(&backup(json!({})), &pod(), CopiedVolume { name: "cache", claim: None });
    assert_eq!(plain.metadata.annotations, None, "it has no claim");
    assert!(plain.spec.uploader_settings.is_empty() && !plain.spec.tags.contains_key("pvc-uid"));
}

#[test]
fn the_way_back_is_asked_for_as_velero_does() {
    let spec = json!({"uploaderConfig": {"writeSparseFiles": true, "parallelFilesDownload": 3}});
    let copy = copy("data", "k1", "kopia");
    let mut target = pod();
    target.namespace = "shop-2".to_owned();
    let volume = FilledVolume { copy: &copy, claim_uid: Some("c-uid"), location: "default" };
    let made = serde_json::to_value(pod_volume_restore(&restore(spec), &target, volume)).unwrap();
    let expected = json!({
        "apiVersion": "velero.io/v1",
        "kind": "PodVolumeRestore",
        "metadata": {
            "namespace": "velero",
            "name": transfer_name("again", "r-uid", "p-uid", "data", 0),
            "generateName": "again-",
            "ownerReferences": [
                {"apiVersion": "velero.io/v1", "kind": "Restore", "name": "again", "uid": "r-uid", "controller": true}],
            "labels": {
                "velero.io/restore-name": "again", "velero.io/restore-uid": "r-uid", "velero.io/pod-uid": "p-uid",
                "velero.io/pvc-uid": "c-uid"},
        },
        "spec": {
            "pod": {"kind": "Pod", "namespace": "shop-2", "name": "web-0", "uid": "p-uid"},
            "volume": "data",
            "backupStorageLocation": "default",
            "repoIdentifier": "",
            "uploaderType": "kopia",
            "snapshotID": "k1",
            "sourceNamespace": "shop",
            "uploaderSettings": {"WriteSparseFiles": "true", "ParallelFilesDownload": "3"},
            "snapshotSize": 4096,
        },
        "status": {"progress": {}},
    });
    assert_eq!(made, expected);
    for (config, expected) in [
        (json!({}), json!(null)),
        (json!({"uploaderConfig": {}}), json!({"WriteSparseFiles": "false"})),
        (
            json!({"uploaderConfig": {"parallelFilesDownload": 2}}),
            json!({"WriteSparseFiles": "false", "ParallelFilesDownload": "2"}),
        ),
    ] {
        let made = pod_volume_restore(&restore(config.clone()), &pod(), FilledVolume { claim_uid: None, ..volume });
        assert_eq!(
            serde_json::to_value(made).unwrap()["spec"].get("uploaderSettings").cloned().unwrap_or_default(),
            expected,
            "{config}"
        );
    }
}

#[test]
fn a_name_is_the_same_each_time_and_fits_where_names_of_pods_do() {
    let name = |owner: &str, pod: &str, attempt| transfer_name(owner, "u", pod, "data", attempt);
    assert_eq!(name("b", "p", 0), name("b", "p", 0));
    assert_ne!(name("b", "p", 0), name("b", "q", 0));
    assert_ne!(name("b", "p", 0), name("b", "p", 1));
    assert_eq!(name("b", "p", 0).len(), "b-".len() + 5);
    let long = name(&"b".repeat(200), "p", 0);
    assert_eq!(long.len(), 63, "{long}");
}

#[test]
fn only_copies_that_hold_something_for_a_volume_of_the_pod_are_put_back() {
    let pod = json!({
        "metadata": {"name": "web-0"},
        "spec": {"volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "cache", "emptyDir": {}},
            {"name": "token", "projected": {}}, {"name": "info", "downwardAPI": {}}, {"name": "empty", "emptyDir": {}},
            {"name": "old", "emptyDir": {}}]},
    });
    let mut other = copy("cache", "k9", "kopia");
    other.pod_name = "web-1".to_owned();
    let copies = [
        copy("data", "k1", "kopia"),
        copy("cache", "k2", "kopia"),
        copy("token", "k3", "kopia"),
        copy("info", "k4", "kopia"),
        copy("empty", "", "kopia"),
        copy("old", "k6", "restic"),
        copy("gone", "k7", "kopia"),
        other,
    ];
    let found = copies_of_pod(&copies, "shop", &pod);
    let handles: Vec<(&str, &str)> =
        found.iter().map(|(volume, copy)| (*volume, copy.snapshot_handle.as_str())).collect();
    assert_eq!(handles, [("cache", "k2"), ("data", "k1")]);
    assert!(copies_of_pod(&copies, "shop-2", &pod).is_empty(), "the namespace is the one of the backup");
    assert_eq!(copy_obstacle(&copy("a", "k", "restic")), Some(CopyObstacle::Uploader));
    assert_eq!(copy_obstacle(&copy("a", "k", "")), Some(CopyObstacle::Uploader), "before there was a choice");
    assert_eq!(copy_obstacle(&copy("a", "", "kopia")), Some(CopyObstacle::Empty));
}

fn with_container(pod: &Value, config: &[(&str, &str)]) -> Result<Value, WaitContainerError> {
    let config: BTreeMap<String, String> =
        config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let container = WaitContainer {
        server_image: "registry.example.com/velero:v1.18.3",
        restore_uid: "r-uid",
        volumes: vec!["cache", "data"],
        config: &config,
    };
    let mut pod = pod.clone();
    container.insert(&mut pod)?;
    Ok(pod)
}

#[test]
fn a_pod_waits_in_an_init_container_before_all_others() {
    let pod = json!({"spec": {
        "initContainers": [{"name": "restic-wait"}, {"name": "own"}, {"name": "restore-wait"}],
        "containers": [{"name": "main"}]}});
    let pod = with_container(&pod, &[]).unwrap();
    let bounds = json!({"cpu": "100m", "memory": "128Mi"});
    let expected = json!({
        "name": "restore-wait",
        "image": "registry.example.com/velero:v1.18.3",
        "command": ["/velero-restore-helper"],
        "args": ["r-uid"],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": bounds, "limits": bounds},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
            "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumeMounts": [
            {"name": "cache", "mountPath": "/restores/cache"}, {"name": "data", "mountPath": "/restores/data"}],
    });
    assert_eq!(pod["spec"]["initContainers"], json!([expected, {"name": "own"}]));
}

#[test]
fn who_waits_is_the_user_of_the_pod_where_it_names_one() {
    for (user, is_not_root) in [(26, true), (0, false)] {
        let pod =
            json!({"spec": {"securityContext": {"runAsUser": user, "fsGroup": 26}, "containers": [{"name": "main"}]}});
        let context = with_container(&pod, &[]).unwrap()["spec"]["initContainers"][0]["securityContext"].take();
        assert_eq!((&context["runAsUser"], &context["runAsNonRoot"]), (&json!(user), &json!(is_not_root)));
    }
}

#[test]
fn the_plugin_config_says_what_the_container_is_like() {
    let plain = json!({"spec": {"containers": [{"name": "main", "securityContext": {"runAsUser": 7}}]}});
    let container =
        |config: &[(&str, &str)]| with_container(&plain, config).unwrap()["spec"]["initContainers"][0].take();
    assert_eq!(container(&[])["securityContext"], json!({"runAsUser": 7}), "that of the first container");
    for (asked, image) in [
        ("helper", "registry.example.com/velero:v1.18.3"),
        ("example.com/helper", "example.com/helper:v1.18.3"),
        ("example.com:5000/helper:v2", "example.com:5000/helper:v2"),
        ("example.com/helper@sha256:abc", "example.com/helper@sha256:abc"),
        ("", "registry.example.com/velero:v1.18.3"),
    ] {
        assert_eq!(container(&[("image", asked)])["image"], image, "{asked}");
    }
    let bounds = [("cpuRequest", "50m"), ("cpuLimit", "0"), ("memRequest", "64Mi"), ("memLimit", "1Gi")];
    let expected = json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}});
    assert_eq!(container(&bounds)["resources"], expected);
    assert_eq!(container(&[("command", "/wait")])["command"], json!(["/wait"]));
    let user = [("secCtxRunAsUser", "5"), ("secCtxRunAsGroup", "6"), ("secCtxAllowPrivilegeEscalation", "false")];
    let expected = json!({"runAsUser": 5, "runAsGroup": 6, "allowPrivilegeEscalation": false});
    assert_eq!(container(&user)["securityContext"], expected);
    let whole = "runAsUser: 9\ncapabilities:\n  drop: [ALL]\n";
    let expected = json!({"runAsUser": 9, "runAsGroup": 6, "capabilities": {"drop": ["ALL"]}});
    assert_eq!(container(&[("secCtxRunAsGroup", "6"), ("secCtx", whole)])["securityContext"], expected);
}

#[test]
fn nonsense_in_the_plugin_config_is_named() {
    let plain = json!({"spec": {"containers": [{"name": "main"}]}});
    for (key, value) in [
        ("cpuRequest", "much"),
        ("memLimit", "1Q"),
        ("cpuRequest", "200m"),
        ("secCtxRunAsUser", "root"),
        ("secCtxAllowPrivilegeEscalation", "perhaps"),
        ("secCtx", "runAsUzer: 1"),
        ("secCtx", "- a"),
    ] {
        let error = with_container(&plain, &[(key, value)]).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(value.trim_start_matches("- ")), "{error}");
    }
}

#[test]
fn containers_of_an_earlier_restore_go_and_other_pods_stay_as_they_are() {
    let mut pod = json!({"spec": {"initContainers": [{"name": "restore-wait"}]}});
    remove_wait_containers(&mut pod);
    assert_eq!(pod, json!({"spec": {}}));
    let plain = json!({"spec": {"containers": []}});
    let mut same = plain.clone();
    remove_wait_containers(&mut same);
    assert_eq!(same, plain);
}

#[test]
fn a_pod_without_a_specification_stays_as_it_is() {
    for spec in [json!("text"), json!([]), json!(7), Value::Null] {
        let pod = json!({"kind": "Pod", "spec": spec});
        assert_eq!(with_container(&pod, &[]).unwrap(), pod, "{spec}");
    }
    let odd = json!({"spec": {"initContainers": "none", "containers": 3}});
    assert!(with_container(&odd, &[]).unwrap()["spec"]["initContainers"].is_array());
}

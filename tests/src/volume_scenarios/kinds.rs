//! Asked-for volumes of rare kinds, and volumes that are mounted in rare ways.

use serde_json::{Value, json};
use velero_testkit::objects;
use velero_testkit::parts::WORKLOAD_IMAGE;

use super::pods::{NO_CLASS, annotated, claim, claim_of, pod, pod_with_claim, with};
use super::{Again, Row, Way};
use crate::volume_data::{claimed, empty_dir};

const COPIED: [&str; 3] = ["backup Completed", "copy web/data Completed", "claim data: PodVolumeBackup succeeded"];
const COPIED_SCRATCH: [&str; 3] =
    ["backup Completed", "copy web/scratch Completed", "volume web/scratch: PodVolumeBackup succeeded"];
const SKIPPED: [&str; 3] = ["backup Completed", "backup warns", "claim data: skipped"];
const LOST: [&str; 2] = ["backup PartiallyFailed", "claim data: skipped"];
const NOT_SAVED: &str = "a volume that is asked for and not saved is an error, not a warning";

pub(super) fn rows() -> Vec<Row> {
    [special(), devices(), mounts(), names()].into_iter().flatten().collect()
}

fn row(name: &'static str, objects: Vec<Value>) -> Row {
    Row::new(name, Way::Asked, objects)
}

fn special() -> Vec<Row> {
    let memory = json!({"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "folder-of-node"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"}, "storageClassName": NO_CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/usr", "type": "Directory"},
            "claimRef": {"namespace": "asked-host-path-claim", "name": "data"},
        },
    });
    let on_node = with(claim_of("data", NO_CLASS), "/spec/volumeName", json!("folder-of-node"));
    let reader = with(pod_with_claim("web", "data"), "/spec/containers/0/volumeMounts/0/readOnly", json!(true));
    vec![
        row("asked-memory", vec![pod("web", "scratch", &[memory])])
            .restored(Again::Whole)
            .gives(&[&COPIED_SCRATCH[..], &["restore Completed", "web/scratch same"]].concat()),
        row("asked-host-path-claim", vec![volume, on_node, reader]).gives(&SKIPPED).but_ours(NOT_SAVED, &LOST),
    ]
}

fn devices() -> Vec<Row> {
    let device = |way, name| {
        let pod = objects::pod_with_device("", "web", "data", "sleep 100000");
        let asked = if way == Way::Asked { "data" } else { "none-of-them" };
        let key = if way == Way::Asked { "backup-volumes" } else { "velero-does-not-know-this" };
        let pod = annotated(pod, &format!("backup.velero.io/{key}"), asked);
        Row::new(name, way, vec![objects::for_device(claim("data")), pod])
    };
    vec![
        device(Way::Asked, "asked-device").gives(&SKIPPED).but_ours(NOT_SAVED, &LOST),
        device(Way::All, "all-device").gives(&SKIPPED).but_ours(NOT_SAVED, &LOST),
        device(Way::Moved, "moved-device").gives(&["backup Completed", "claim data: CSISnapshot moved succeeded"]),
    ]
}

fn mounts() -> Vec<Row> {
    let both = pod("web", "data", &[claimed("data", "data"), claimed("again", "data")]);
    let by_two = {
        let mut pod = pod("web", "scratch", &[empty_dir("scratch")]);
        let mut second = pod["spec"]["containers"][0].clone();
        second["name"] = json!("second");
        second["command"] = json!(["sleep", "100000"]);
        second["startupProbe"] = Value::Null;
        second["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/part", "subPath": "deep"}]);
        pod["spec"]["containers"].as_array_mut().into_iter().for_each(|containers| containers.push(second.clone()));
        pod
    };
    let by_init = {
        let mut pod = pod("web", "data", &[claimed("data", "data")]);
        let container = pod["spec"]["containers"][0].clone();
        let init = json!({
            "name": "first", "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["true"],
            "volumeMounts": container["volumeMounts"],
        });
        pod["spec"]["initContainers"] = json!([init]);
        with(pod, "/spec/containers/0/volumeMounts", json!([]))
    };
    vec![
        row("asked-by-one-name-of-two", vec![claim("data"), both])
            .restored(Again::Whole)
            .gives(&[&COPIED[..], &["restore Completed", "web/data same", "web/again same"]].concat()),
        row("asked-by-two-containers", vec![by_two])
            .restored(Again::Whole)
            .gives(&[&COPIED_SCRATCH[..], &["restore Completed", "web/scratch same"]].concat()),
        row("asked-mounted-at-first", vec![claim("data"), by_init])
            .gives(&SKIPPED)
            .but_ours("what only an init container mounts is mounted as long as the pod runs, and is copied", &COPIED),
        row("asked-claim-going", vec![claim("data"), pod_with_claim("web", "data")])
            .deleting(&["data"])
            .gives(&["backup Completed", "copy web/data Completed"])
            .but_ours("the file about volumes names the claim of a copy, in the backup or not", &COPIED),
    ]
}

fn names() -> Vec<Row> {
    let both = |asked: &str| pod("web", asked, &[claimed("data", "data"), empty_dir("scratch")]);
    vec![
        row("asked-named-twice", vec![claim("data"), both("data,data")]).gives(&COPIED),
        row("asked-with-spaces", vec![claim("data"), both("data, scratch")]).gives(&COPIED).but_ours(
            "spaces around names are no part of them",
            &[&COPIED[..], &["copy web/scratch Completed", "volume web/scratch: PodVolumeBackup succeeded"]].concat(),
        ),
        row("asked-like-a-token", vec![pod("web", "default-token-scratch", &[empty_dir("default-token-scratch")])])
            .gives(&["backup Completed"])
            .but_ours(NOT_SAVED, &["backup PartiallyFailed"]),
    ]
}

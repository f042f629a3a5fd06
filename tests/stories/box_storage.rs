//! The storage of the box is real: what a pod wrote is in the snapshot of its volume and in volumes made from that, also
//! in another box; and the driver misbehaves when told to.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use velero_testkit::harness::unique_name;
use velero_testkit::machine::{Machine, loop_devices, wait_until};
use velero_testkit::parts::{CsiDriver, GROUP_SNAPSHOT_CLASS, SNAPSHOT_CLASS};
use velero_testkit::{BoxKind, DRIVER_NAME, Settings, TestBox, TestCluster, Tool, objects, storage_box_test};

const DEADLINE: Duration = Duration::from_secs(60);
const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1 volumesnapshots";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1 volumesnapshotcontents";
const GROUPS: &str = "/apis/groupsnapshot.storage.k8s.io/v1beta2 volumegroupsnapshots";

fn apply(machine: &Machine, object: &Value) {
    machine.apply(&object.to_string()).unwrap();
}

/// An object of a type such as `/api/v1 pods`; those that belong to the cluster have no namespace.
fn get(machine: &Machine, namespace: Option<&str>, kind: &str, name: &str) -> Result<Value> {
    let (version, plural) = kind.split_once(' ').context("a type without a version")?;
    let place = namespace.map_or_else(String::new, |namespace| format!("namespaces/{namespace}/"));
    machine.read(&format!("{version}/{place}{plural}/{name}"))
}

/// Runs a shell command in a pod with the volume of that claim at /data, to its good end, and gives what it printed.
fn run_with_claim(machine: &Machine, namespace: &str, claim: &str, shell: &str) -> String {
    let pod = unique_name("pod");
    apply(machine, &objects::pod_with_claim(namespace, &pod, claim, shell));
    wait_until("the pod to end", DEADLINE, || {
        let phase = get(machine, Some(namespace), "/api/v1 pods", &pod)?["status"]["phase"].clone();
        ensure!(phase == "Succeeded", "the pod {pod} is {phase}");
        Ok(())
    })
    .unwrap();
    let log = machine.kubectl(&["-n", namespace, "logs", &pod]).unwrap();
    machine.kubectl(&["-n", namespace, "delete", "pod", &pod]).unwrap();
    log
}

/// Makes a claim, and a file in its volume.
fn write_file(cluster: &TestCluster, claim: &str, text: &str) {
    let machine = cluster.test_box.machine();
    apply(machine, &objects::claim(&cluster.namespace, claim));
    run_with_claim(machine, &cluster.namespace, claim, &format!("echo {text} > /data/file"));
}

/// Waits until a snapshot is ready and gives its handle.
fn ready_handle(machine: &Machine, namespace: &str, snapshot: &str) -> String {
    let mut handle = None;
    wait_until("the snapshot to be ready", DEADLINE, || {
        let status = get(machine, Some(namespace), SNAPSHOTS, snapshot)?["status"].clone();
        ensure!(status["readyToUse"] == true, "the snapshot {snapshot} is not ready: {status}");
        let content = status["boundVolumeSnapshotContentName"].as_str().context("no content")?;
        let content = get(machine, None, CONTENTS, content)?;
        handle = content["status"]["snapshotHandle"].as_str().map(str::to_owned);
        Ok(())
    })
    .unwrap();
    handle.expect("a snapshot that is ready has a handle")
}

fn volume_handle(machine: &Machine, namespace: &str, claim: &str) -> String {
    let claim = get(machine, Some(namespace), "/api/v1 persistentvolumeclaims", claim).unwrap();
    let volume =
        get(machine, None, "/api/v1 persistentvolumes", claim["spec"]["volumeName"].as_str().unwrap()).unwrap();
    volume["spec"]["csi"]["volumeHandle"].as_str().unwrap().to_owned()
}

#[test]
fn a_claim_from_a_snapshot_has_what_was_written_before_it_and_removing_all_leaves_no_folder() {
    storage_box_test(async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        write_file(&cluster, "data", "before");
        apply(machine, &objects::volume_snapshot(namespace, "snapshot", "data", SNAPSHOT_CLASS));
        let snapshot = ready_handle(machine, namespace, "snapshot");
        run_with_claim(machine, namespace, "data", "echo after > /data/file");
        apply(machine, &objects::claim_from_snapshot(namespace, "copy", "snapshot"));
        assert_eq!(run_with_claim(machine, namespace, "copy", "cat /data/file"), "before\n");
        assert_eq!(run_with_claim(machine, namespace, "data", "cat /data/file"), "after\n");

        let volumes = ["data", "copy"].map(|claim| volume_handle(machine, namespace, claim));
        let storage = TestBox::storage().unwrap();
        assert!(storage.snapshots.get(&snapshot).unwrap().is_some(), "the driver does not know {snapshot}");
        machine.kubectl(&["-n", namespace, "delete", "pvc,volumesnapshot", "--all"]).unwrap();
        wait_until("the folders to go", DEADLINE, || {
            let folders = volumes.iter().map(|id| storage.volumes.data(id)).chain([storage.snapshots.data(&snapshot)]);
            let left: Vec<_> = folders.filter(|data| data.parent().is_some_and(Path::exists)).collect();
            ensure!(left.is_empty(), "still there: {left:?}");
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_snapshot_is_ready_after_the_delay_of_its_class_and_not_before() {
    storage_box_test(async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        apply(machine, &objects::snapshot_class(namespace, &json!({"readyAfterSeconds": "5"})));
        write_file(&cluster, "data", "text");
        apply(machine, &objects::volume_snapshot(namespace, "slow", "data", namespace));
        let handle = ready_handle(machine, namespace, "slow");
        let taken = TestBox::storage().unwrap().snapshots.get(&handle).unwrap().unwrap().created;
        assert!(Timestamp::now().duration_since(taken) >= SignedDuration::from_secs(5), "it was ready too early");
        machine.kubectl(&["delete", "volumesnapshotclass", namespace]).unwrap();
    });
}

#[test]
fn a_driver_that_fails_is_told_of_in_the_status_of_the_snapshot() {
    storage_box_test(async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        apply(machine, &objects::snapshot_class(namespace, &json!({"failCreateSnapshot": "the disk is on fire"})));
        apply(machine, &objects::claim(namespace, "data"));
        apply(machine, &objects::volume_snapshot(namespace, "failing", "data", namespace));
        wait_until("the error", DEADLINE, || {
            let status = get(machine, Some(namespace), SNAPSHOTS, "failing")?["status"].clone();
            let message = status["error"]["message"].as_str().unwrap_or_default();
            ensure!(message.contains("the disk is on fire"), "the status is {status}");
            Ok(())
        })
        .unwrap();
        machine.kubectl(&["-n", namespace, "delete", "volumesnapshot", "failing"]).unwrap();
        machine.kubectl(&["delete", "volumesnapshotclass", namespace]).unwrap();
    });
}

#[test]
fn a_group_snapshot_has_every_volume_of_the_group_and_leaves_nothing() {
    storage_box_test(async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        for name in ["one", "two", "other"] {
            let mut claim = objects::claim(namespace, name);
            claim["metadata"]["labels"] = json!({"group": if name == "other" { "no" } else { "yes" }});
            apply(machine, &claim);
            run_with_claim(machine, namespace, name, &format!("echo {name} > /data/file"));
        }
        let members = ["one", "two"].map(|claim| volume_handle(machine, namespace, claim));
        apply(
            machine,
            &json!({
                "apiVersion": "groupsnapshot.storage.k8s.io/v1beta2",
                "kind": "VolumeGroupSnapshot",
                "metadata": {"name": "group", "namespace": namespace},
                "spec": {
                    "volumeGroupSnapshotClassName": GROUP_SNAPSHOT_CLASS,
                    "source": {"selector": {"matchLabels": {"group": "yes"}}},
                },
            }),
        );
        wait_until("the group to be ready", DEADLINE, || {
            let status = get(machine, Some(namespace), GROUPS, "group")?["status"].clone();
            ensure!(status["readyToUse"] == true, "the group is not ready: {status}");
            Ok(())
        })
        .unwrap();
        let taken = || -> Vec<String> {
            let snapshots = TestBox::storage().unwrap().snapshots.all().unwrap().into_iter();
            snapshots.map(|snapshot| snapshot.source_volume_id).filter(|id| members.contains(id)).collect()
        };
        assert_eq!(taken().len(), 2, "{:?}", taken());
        machine.kubectl(&["-n", namespace, "delete", "volumegroupsnapshot", "group"]).unwrap();
        wait_until("the snapshots to go", DEADLINE, || {
            ensure!(taken().is_empty(), "still there: snapshots of {:?}", taken());
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_snapshot_taken_in_one_box_serves_in_another_once_the_driver_there_calls_it_ready() {
    const OTHER: &str = "storage-other";
    storage_box_test(async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        write_file(&cluster, "data", "from the first box");
        apply(machine, &objects::volume_snapshot(namespace, "snapshot", "data", SNAPSHOT_CLASS));
        let handle = ready_handle(machine, namespace, "snapshot");
        let other = TestBox::up(OTHER, BoxKind::Storage).unwrap();
        other.set_storage(&Settings { never_ready: true, ..Settings::default() }).unwrap();
        let machine = other.machine();
        for object in imported_snapshot("default", "imported", &handle) {
            apply(machine, &object);
        }
        wait_until("the driver to be asked", DEADLINE, || {
            let status = get(machine, None, CONTENTS, "imported")?["status"].clone();
            ensure!(status["readyToUse"] == false, "the status is {status}");
            Ok(())
        })
        .unwrap();
        other.set_storage(&Settings::default()).unwrap();
        assert_eq!(ready_handle(machine, "default", "imported"), handle);
        apply(machine, &objects::claim_from_snapshot("default", "data", "imported"));
        assert_eq!(run_with_claim(machine, "default", "data", "cat /data/file"), "from the first box\n");

        let volume = volume_handle(machine, "default", "data");
        machine.kubectl(&["delete", "pvc", "data"]).unwrap();
        machine.kubectl(&["wait", "--for=delete", &format!("pv/{volume}"), "--timeout=60s"]).unwrap();
    });
    TestBox::down(OTHER).unwrap();
}

/// A snapshot of which only the handle is known, and its content; removing it leaves the data alone.
fn imported_snapshot(namespace: &str, name: &str, handle: &str) -> [Value; 2] {
    let mut snapshot = objects::volume_snapshot(namespace, name, "", SNAPSHOT_CLASS);
    snapshot["spec"]["source"] = json!({"volumeSnapshotContentName": name});
    let content = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER_NAME,
            "deletionPolicy": "Retain",
            "volumeSnapshotClassName": SNAPSHOT_CLASS,
            "source": {"snapshotHandle": handle},
            "volumeSnapshotRef": {"name": name, "namespace": namespace},
        },
    });
    [content, snapshot]
}

#[test]
fn the_driver_passes_the_sanity_suite_with_folders() {
    pass_the_sanity_suite("mount");
}

#[test]
fn the_driver_passes_the_sanity_suite_with_devices() {
    pass_the_sanity_suite("block");
}

fn pass_the_sanity_suite(access: &'static str) {
    storage_box_test(async move |cluster| {
        let machine = cluster.test_box.machine();
        let suite = Tool::CsiSanity.path().unwrap();
        let folder = machine.folder(&cluster.namespace).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let driver = CsiDriver::binary().unwrap();
        let arguments =
            [("storage", "storage"), ("settings", "settings.json"), ("socket", "socket"), ("node-folder", "node")];
        let arguments = arguments.map(|(flag, file)| format!("--{flag}={}", path(file)));
        let name = format!("csi-sanity-{access}");
        machine.start(&name, driver, arguments.into_iter().chain(["--node=sanity".into()])).unwrap();
        wait_until("the socket", DEADLINE, || {
            ensure!(fs::exists(path("socket"))?, "no socket yet");
            Ok(())
        })
        .unwrap();
        let flags = [("csi.endpoint", "socket"), ("csi.mountdir", "mount"), ("csi.stagingdir", "staging")];
        let flags = flags.map(|(flag, file)| format!("--{flag}={}", path(file)));
        let more = [format!("--csi.testvolumeaccesstype={access}"), "--ginkgo.no-color".into()];
        let said = machine.run(suite, flags.into_iter().chain(more));
        machine.stop(&name).unwrap();
        let said = said.unwrap();
        assert!(said.contains("SUCCESS!") && said.contains(" 0 Failed"), "{said}");
        assert_eq!(fs::read_dir(path("storage/volumes")).unwrap().count(), 0, "volumes were left behind");
        assert_eq!(fs::read_dir(path("storage/snapshots")).unwrap().count(), 0, "snapshots were left behind");
        assert_eq!(loop_devices::of_folder(&folder).unwrap(), Vec::<PathBuf>::new(), "devices were left behind");
    });
}

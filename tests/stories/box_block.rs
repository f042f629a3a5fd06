//! Devices in the box are real: what a pod wrote to its device is in the snapshot of its volume and in devices made from
//! that, no loop device is left over, and a pod that looks into kubelet's folder sees the volumes of later pods.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use velero_testkit::harness::run;
use velero_testkit::machine::{Machine, loop_devices, wait_until};
use velero_testkit::parts::{SNAPSHOT_CLASS, WORKLOAD_IMAGE};
use velero_testkit::{BoxKind, TestBox, objects, storage_box_test};

const DEADLINE: Duration = Duration::from_secs(60);

/// Prints what [`write`] wrote.
const READ: &str = "dd if=/dev/data bs=1 skip=700000 count=6 2>/dev/null";

/// A command that writes six letters into the middle of the device, and leaves it to the kernel to bring them further.
fn write(letters: &str) -> String {
    assert_eq!(letters.len(), 6);
    format!("printf {letters} | dd of=/dev/data bs=1 seek=700000 conv=notrunc 2>/dev/null")
}

fn apply(machine: &Machine, object: &Value) {
    machine.apply(&object.to_string()).unwrap();
}

/// Starts a pod that does nothing, and waits until it runs.
fn start(machine: &Machine, namespace: &str, pod: &Value) {
    apply(machine, pod);
    let name = format!("pod/{}", pod["metadata"]["name"].as_str().unwrap());
    machine.kubectl(&["-n", namespace, "wait", "--for=condition=Ready", &name, "--timeout=60s"]).unwrap();
}

fn execute(machine: &Machine, namespace: &str, pod: &str, shell: &str) -> Result<String> {
    machine.kubectl(&["-n", namespace, "exec", pod, "--", "sh", "-c", shell])
}

fn idle_pod_with_device(namespace: &str, name: &str, claim: &str) -> Value {
    objects::pod_with_device(namespace, name, claim, "sleep 1000")
}

fn volume_of(machine: &Machine, namespace: &str, claim: &str) -> String {
    machine.kubectl(&["-n", namespace, "get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}"]).unwrap()
}

/// How many loop devices the driver has for a volume: their files have its name. Those that kubelet puts on top have not.
fn devices_of(machine: &Machine, volume: &str) -> usize {
    let devices = loop_devices::of_folder(&machine.state().join("csi-node")).unwrap();
    let file = |device: &Path| {
        fs::read_to_string(Path::new("/sys/block").join(device.file_name()?).join("loop/backing_file")).ok()
    };
    devices.iter().filter_map(|device| file(device)).filter(|file| file.contains(&format!("/{volume}"))).count()
}

fn wait_until_detached(machine: &Machine, volume: &str) {
    wait_until("the devices to be detached", DEADLINE, || {
        let left = devices_of(machine, volume);
        ensure!(left == 0, "the volume {volume} still has {left} loop devices");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_device_from_a_snapshot_has_the_bytes_from_before_it() {
    storage_box_test(async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        apply(machine, &objects::for_device(objects::claim(namespace, "data")));
        start(machine, namespace, &idle_pod_with_device(namespace, "writer", "data"));
        execute(machine, namespace, "writer", &write("before")).unwrap();
        apply(machine, &objects::volume_snapshot(namespace, "snapshot", "data", SNAPSHOT_CLASS));
        let ready = "--for=jsonpath={.status.readyToUse}=true";
        machine.kubectl(&["-n", namespace, "wait", ready, "volumesnapshot/snapshot", "--timeout=60s"]).unwrap();
        execute(machine, namespace, "writer", &write("after!")).unwrap();

        apply(machine, &objects::for_device(objects::claim_from_snapshot(namespace, "copy", "snapshot")));
        start(machine, namespace, &idle_pod_with_device(namespace, "reader", "copy"));
        assert_eq!(execute(machine, namespace, "reader", READ).unwrap(), "before");
        assert_eq!(execute(machine, namespace, "writer", READ).unwrap(), "after!");

        let volumes = ["data", "copy"].map(|claim| volume_of(machine, namespace, claim));
        machine.kubectl(&["-n", namespace, "delete", "pod,pvc,volumesnapshot", "--all"]).unwrap();
        let storage = TestBox::storage().unwrap();
        for volume in volumes {
            wait_until_detached(machine, &volume);
            wait_until("the volume to go", DEADLINE, || {
                ensure!(storage.volumes.get(&volume)?.is_none(), "the volume {volume} is still there");
                Ok(())
            })
            .unwrap();
        }
    });
}

#[test]
fn pods_on_a_node_share_the_device_of_a_volume_and_a_driver_that_was_killed_finds_it_again() {
    // The sidecars end with the driver: no other test would want that.
    const BOX: &str = "killed-driver";
    run(BOX, BoxKind::Storage, async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        apply(machine, &objects::for_device(objects::claim(namespace, "data")));
        start(machine, namespace, &idle_pod_with_device(namespace, "plain", "data"));
        let volume = volume_of(machine, namespace, "data");
        let driver = machine.host_process("csi-driver").unwrap().to_string();
        assert!(Command::new("kill").args(["-KILL", &driver]).status().unwrap().success());
        cluster.test_box.restart_storage_driver().unwrap();

        let mut privileged = idle_pod_with_device(namespace, "privileged", "data");
        privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
        start(machine, namespace, &privileged);
        assert_eq!(devices_of(machine, &volume), 1);
        execute(machine, namespace, "plain", &write("shared")).unwrap();
        assert_eq!(execute(machine, namespace, "privileged", READ).unwrap(), "shared");

        execute(machine, namespace, "plain", "sync").unwrap();
        let mut reader = idle_pod_with_device(namespace, "reader", "data");
        reader["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = json!(true);
        start(machine, namespace, &reader);
        assert_eq!(devices_of(machine, &volume), 2);
        assert_eq!(execute(machine, namespace, "reader", READ).unwrap(), "shared");
        execute(machine, namespace, "reader", &write("broken")).unwrap_err();

        machine.kubectl(&["-n", namespace, "delete", "pod", "plain", "reader"]).unwrap();
        wait_until("the device for readers to go", DEADLINE, || {
            ensure!(devices_of(machine, &volume) == 1, "{} devices", devices_of(machine, &volume));
            Ok(())
        })
        .unwrap();
        assert_eq!(execute(machine, namespace, "privileged", READ).unwrap(), "shared");
        machine.kubectl(&["-n", namespace, "delete", "pod", "privileged"]).unwrap();
        wait_until_detached(machine, &volume);
    });
    TestBox::down(BOX).unwrap();
}

#[test]
fn a_pod_that_looks_into_the_folder_of_kubelet_sees_the_volumes_of_later_pods() {
    storage_box_test(async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        let mount = json!({"name": "host-pods", "mountPath": "/host_pods", "mountPropagation": "HostToContainer"});
        let watcher = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "watcher", "namespace": namespace},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "host-pods", "hostPath": {"path": machine.state().join("kubelet/pods")}}],
                "containers": [{
                    "name": "watcher", "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never",
                    "command": ["sleep", "1000"], "volumeMounts": [mount],
                }],
            },
        });
        start(machine, namespace, &watcher);
        apply(machine, &objects::claim(namespace, "data"));
        let writer = objects::pod_with_claim(namespace, "writer", "data", "echo seen > /data/file; sleep 1000");
        start(machine, namespace, &writer);
        let folder =
            machine.kubectl(&["-n", namespace, "get", "pod", "writer", "-o", "jsonpath={.metadata.uid}"]).unwrap();
        let volume = volume_of(machine, namespace, "data");
        let file = format!("/host_pods/{folder}/volumes/kubernetes.io~csi/{volume}/mount/file");
        wait_until("the file to be seen", DEADLINE, || {
            let text = execute(machine, namespace, "watcher", &format!("cat {file}"))?;
            ensure!(text == "seen\n", "{file} has {text:?}");
            Ok(())
        })
        .unwrap();
        machine.kubectl(&["-n", namespace, "delete", "pod", "writer"]).unwrap();
        machine.kubectl(&["-n", namespace, "delete", "pvc", "data"]).unwrap();
    });
}

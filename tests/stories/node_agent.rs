//! The node agent and its movers as pods, as users run them: volumes of a pod are saved and filled, snapshots moved and
//! brought back, and nothing but the data is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use velero_testkit::harness::unique_name;
use velero_testkit::image::Image;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{BUCKET, Images, SNAPSHOT_CLASS};
use velero_testkit::server::credentials_file;
use velero_testkit::{BoxKind, Edition, TestBox, harness, objects};
use velero_tests::command_line::CommandLine;

/// The image that is installed when no other is named.
const IMAGE: &str = concat!("ghcr.io/velero-rust/velero:v", env!("CARGO_PKG_VERSION"));
const NAMESPACE: &str = "velero";
const SHOP: &str = "shop";
const PATIENCE: Duration = Duration::from_secs(120);
const FILES: &str = "mkdir -p /data/deep /cache; head -c 3000000 /dev/urandom > /data/large; echo apples > /data/deep/stock; \
                     chown 1234:2345 /data/deep/stock; chmod 0600 /data/deep/stock; ln -s deep/stock /data/link; \
                     echo pears > /cache/stock; sleep 3600";

fn apply(machine: &Machine, object: &Value) {
    machine.apply(&object.to_string()).unwrap();
}

fn install(cli: &CommandLine<'_>) {
    let machine = cli.machine;
    let archive = machine.state().join("velero-image.tar");
    Image::of_velero(IMAGE, &Edition::Ours.binary().unwrap()).unwrap().write(&archive).unwrap();
    Images::load(machine, &archive).unwrap();
    fs::remove_file(&archive).unwrap();
    let keys = machine.state().join("keys");
    fs::write(&keys, credentials_file()).unwrap();
    let location = format!("region=us-east-1,s3ForcePathStyle=true,s3Url={}", TestBox::store_url_for_pods());
    let kubelet = machine.folder("kubelet").unwrap();
    let flags = [
        "install".to_owned(),
        "--provider=aws".to_owned(),
        format!("--bucket={BUCKET}"),
        format!("--prefix={}", unique_name("node-agent")),
        format!("--secret-file={}", keys.display()),
        format!("--backup-location-config={location}"),
        "--use-volume-snapshots=false".to_owned(),
        "--use-node-agent".to_owned(),
        "--features=EnableCSI".to_owned(),
        format!("--kubelet-root-dir={}", kubelet.display()),
        "--wait".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    cli.velero(&flags).unwrap();
    wait_until("the agent", PATIENCE, || {
        let set = machine.read(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/node-agent"))?;
        ensure!(set["status"]["numberReady"] == 1, "the agent is not ready: {}", set["status"]);
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", agent_log(machine)));
}

fn agent_log(machine: &Machine) -> String {
    let log = machine.kubectl(&["-n", NAMESPACE, "logs", "-l", "name=node-agent", "--tail=60"]);
    log.unwrap_or_else(|error| error.to_string())
}

/// A pod that has written into a claim and an emptyDir; its object.
fn running_shop(machine: &Machine) -> Value {
    apply(machine, &objects::namespace(SHOP));
    apply(machine, &objects::claim(SHOP, "data"));
    let mut pod = objects::pod_with_claim(SHOP, "app", "data", FILES);
    pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "cache", "emptyDir": {}}));
    let mounts = &mut pod["spec"]["containers"][0]["volumeMounts"];
    mounts.as_array_mut().unwrap().push(json!({"name": "cache", "mountPath": "/cache"}));
    wait_until("the account of the namespace", PATIENCE, || machine.apply(&pod.to_string())).unwrap();
    let path = format!("/api/v1/namespaces/{SHOP}/pods/app");
    wait_until("the files", PATIENCE, || {
        machine.kubectl(&["-n", SHOP, "exec", "app", "--", "cat", "/cache/stock"])?;
        let phase = &machine.read(&path)?["status"]["phase"];
        ensure!(phase == "Running", "the pod is {phase}");
        Ok(())
    })
    .unwrap();
    machine.read(&path).unwrap()
}

/// Makes an object of Velero and waits for its good end; gives it as it is then.
fn completes(machine: &Machine, version: &str, plural: &str, object: &Value) -> Value {
    apply(machine, object);
    let name = object["metadata"]["name"].as_str().unwrap();
    let path = format!("/apis/velero.io/{version}/namespaces/{NAMESPACE}/{plural}/{name}");
    let mut ended = Value::Null;
    wait_until("the end of the transfer", PATIENCE, || {
        ended = machine.read(&path)?;
        let phase = ended["status"]["phase"].as_str().unwrap_or_default();
        ensure!(["Completed", "Failed", "Canceled"].contains(&phase), "{name} is {phase}");
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{ended:#}\n{}", agent_log(machine)));
    assert_eq!(ended["status"]["phase"], "Completed", "{ended:#}\n{}", agent_log(machine));
    let object = format!("{plural}.velero.io/{name}");
    machine.kubectl(&["-n", NAMESPACE, "wait", "--for=jsonpath={.status.phase}=Completed", &object]).unwrap();
    wait_until("the end of cleaning up", PATIENCE, || nothing_is_left(machine, name))
        .unwrap_or_else(|error| panic!("{error:#}\n{}", agent_log(machine)));
    machine.read(&path).unwrap()
}

/// Nothing of that name, but the object itself, is in Velero's namespace any more.
fn nothing_is_left(machine: &Machine, name: &str) -> Result<()> {
    let snapshots = "/apis/snapshot.storage.k8s.io/v1";
    for path in [
        format!("/api/v1/namespaces/{NAMESPACE}/pods"),
        format!("/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"),
        format!("{snapshots}/namespaces/{NAMESPACE}/volumesnapshots"),
        format!("{snapshots}/volumesnapshotcontents"),
    ] {
        let items = machine.items(&path)?;
        let found =
            items.iter().find(|item| item["metadata"]["name"].as_str().is_some_and(|found| found.starts_with(name)));
        ensure!(found.is_none(), "{path}/{name} is left");
    }
    Ok(())
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": NAMESPACE})
}

fn pod_volume_backup(name: &str, pod: &Value, volume: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": metadata(name),
        "spec": {
            "node": pod["spec"]["nodeName"], "volume": volume, "backupStorageLocation": "default", "repoIdentifier": "",
            "uploaderType": "kopia", "tags": {"volume": volume},
            "pod": {"kind": "Pod", "namespace": SHOP, "name": "app", "uid": pod["metadata"]["uid"]},
        },
    })
}

/// A pod that waits for its data; then it says what it found.
fn restores_into_a_waiting_pod(machine: &Machine, snapshot: &Value) {
    apply(machine, &objects::config_map(NAMESPACE, "restore", "stands", "for a Restore"));
    let owner = machine.read(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/restore")).unwrap();
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    let mut pod = objects::pod(SHOP, "restored", "cat /data/link; stat -c '%u:%g %a' /data/deep/stock; sleep 3600");
    pod["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    // What the helper does that a restore puts there.
    let wait = format!("until [ -f /restores/data/.velero/{uid} ]; do sleep 0.2; done; rm -r /restores/data/.velero");
    pod["spec"]["initContainers"] = json!([{
        "name": "restore-wait", "image": pod["spec"]["containers"][0]["image"], "imagePullPolicy": "Never",
        "command": ["sh", "-c", wait], "volumeMounts": [{"name": "data", "mountPath": "/restores/data"}],
    }]);
    apply(machine, &pod);
    let pod = machine.read(&format!("/api/v1/namespaces/{SHOP}/pods/restored")).unwrap();
    let mut restore = json!({
        "apiVersion": "velero.io/v1", "kind": "PodVolumeRestore", "metadata": metadata("pvr-data"),
        "spec": {
            "volume": "data", "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia",
            "snapshotID": snapshot["status"]["snapshotID"], "sourceNamespace": SHOP,
            "pod": {"kind": "Pod", "namespace": SHOP, "name": "restored", "uid": pod["metadata"]["uid"]},
        },
    });
    restore["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "restore", "uid": uid}]);
    completes(machine, "v1", "podvolumerestores", &restore);
    wait_until("the restored pod", PATIENCE, || {
        let said = machine.kubectl(&["-n", SHOP, "logs", "restored"])?;
        ensure!(said.trim() == "apples\n1234:2345 600", "the restored pod says {said:?}");
        Ok(())
    })
    .unwrap();
}

fn data_upload(name: &str, snapshot: &str, snapshot_class: &str, storage_class: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": metadata(name),
        "spec": {
            "snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": SHOP, "backupStorageLocation": "default",
            "operationTimeout": "5m0s",
            "csiSnapshot": {"volumeSnapshot": snapshot, "storageClass": storage_class, "snapshotClass": snapshot_class},
        },
    })
}

fn no_snapshot_is_left(machine: &Machine) -> Result<()> {
    let left = machine.items(&format!("/apis/snapshot.storage.k8s.io/v1/namespaces/{SHOP}/volumesnapshots"))?;
    ensure!(left.is_empty(), "snapshots are left: {left:?}");
    let left = machine.items("/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents")?;
    ensure!(left.is_empty(), "contents of snapshots are left: {left:?}");
    Ok(())
}

fn storage_class(machine: &Machine) -> String {
    let claim = machine.read(&format!("/api/v1/namespaces/{SHOP}/persistentvolumeclaims/data")).unwrap();
    claim["spec"]["storageClassName"].as_str().unwrap().to_owned()
}

/// Waits until an upload is in a phase.
fn reaches(machine: &Machine, name: &str, phase: &str) {
    let path = format!("/apis/velero.io/v2alpha1/namespaces/{NAMESPACE}/datauploads/{name}");
    let reached = wait_until("the phase of an upload", PATIENCE, || {
        let upload = machine.read(&path)?;
        ensure!(upload["status"]["phase"] == phase, "{upload:#}");
        Ok(())
    });
    reached.unwrap_or_else(|error| panic!("{error:#}\n{}", agent_log(machine)));
}

fn nothing_is_left_of_what_is_cancelled_or_deleted(machine: &Machine) {
    // A class that keeps snapshots must not keep one whose data nobody moves any more.
    let mut never = objects::snapshot_class("never", &json!({"neverReady": "true"}));
    never["deletionPolicy"] = json!("Retain");
    apply(machine, &never);
    apply(machine, &objects::volume_snapshot(SHOP, "never", "data", "never"));
    apply(machine, &data_upload("du-never", "never", "never", &storage_class(machine)));
    reaches(machine, "du-never", "Accepted");
    let cancel =
        ["-n", NAMESPACE, "patch", "dataupload", "du-never", "--type=merge", "-p", r#"{"spec":{"cancel":true}}"#];
    machine.kubectl(&cancel).unwrap();
    reaches(machine, "du-never", "Canceled");

    // A claim that never binds, and another agent that takes over.
    apply(machine, &objects::volume_snapshot(SHOP, "lost", "data", SNAPSHOT_CLASS));
    apply(machine, &data_upload("du-lost", "lost", SNAPSHOT_CLASS, "no-such-class"));
    wait_until("the pod of the upload", PATIENCE, || {
        machine.read(&format!("/api/v1/namespaces/{NAMESPACE}/pods/du-lost")).map(drop)
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", agent_log(machine)));
    machine.kubectl(&["-n", NAMESPACE, "delete", "pod", "-l", "name=node-agent"]).unwrap();
    machine.kubectl(&["-n", NAMESPACE, "delete", "dataupload", "du-lost", "--timeout=60s"]).unwrap();
    wait_until("the end of cleaning up", PATIENCE, || {
        nothing_is_left(machine, "du-")?;
        no_snapshot_is_left(machine)
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", agent_log(machine)));
}

fn moves_a_snapshot_and_brings_it_back(machine: &Machine) {
    apply(machine, &objects::volume_snapshot(SHOP, "snapshot", "data", SNAPSHOT_CLASS));
    let upload = data_upload("du-data", "snapshot", SNAPSHOT_CLASS, &storage_class(machine));
    let uploaded = completes(machine, "v2alpha1", "datauploads", &upload);
    assert_eq!(uploaded["status"]["nodeOS"], "linux", "{uploaded:#}");
    no_snapshot_is_left(machine).unwrap();

    let mut target = objects::claim(SHOP, "moved");
    target["spec"]["selector"] = json!({"matchLabels": {"velero.io/dynamic-pv-restore": "shop.moved.x"}});
    apply(machine, &target);
    let download = json!({
        "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload", "metadata": metadata("dd-data"),
        "spec": {
            "targetVolume": {"namespace": SHOP, "pvc": "moved", "pv": ""}, "sourceNamespace": SHOP,
            "backupStorageLocation": "default", "operationTimeout": "5m0s",
            "snapshotID": uploaded["status"]["snapshotID"],
        },
    });
    // Where volumes are made with the first pod, there must be one.
    let reader = "cat /data/link; stat -c '%u:%g %a' /data/deep/stock; sleep 3600";
    apply(machine, &objects::pod_with_claim(SHOP, "reader", "moved", reader));
    completes(machine, "v2alpha1", "datadownloads", &download);
    wait_until("the pod with the moved claim", PATIENCE, || {
        let said = machine.kubectl(&["-n", SHOP, "logs", "reader"])?;
        ensure!(said.trim() == "apples\n1234:2345 600", "the pod says {said:?}");
        Ok(())
    })
    .unwrap();
}

/// What the agent tells Prometheus.
fn counts_what_it_did(machine: &Machine) {
    let pods = machine.items(&format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=name%3Dnode-agent")).unwrap();
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}:8085/proxy/metrics");
    let text = machine.kubectl(&["get", "--raw", &path]).unwrap();
    let value = |series: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{series}\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(value("podVolume_pod_volume_backup_dequeue_count"), 2.0);
    assert_eq!(value("podVolume_data_upload_success_total"), 1.0);
    assert_eq!(value("podVolume_data_download_success_total"), 1.0);
    assert!(value("process_resident_memory_bytes") > 0.0);
    let own = own_memory_of_agent(machine);
    assert!(own < 24, "an idle agent holds {own} MiB");
}

/// The memory of the agent in MiB; the pages of the binary, which is not built for size here, aside.
fn own_memory_of_agent(machine: &Machine) -> u64 {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let of_process = |process: &Path, file: &str| fs::read_to_string(process.join(file)).unwrap_or_default();
    let is_agent = |process: &PathBuf| {
        of_process(process, "cmdline").contains("\0node-agent\0server")
            && of_process(process, "cgroup").contains(&machine.cgroup())
    };
    let agent = processes.filter(is_agent).map(|process| of_process(&process, "status")).next().unwrap();
    let line = agent.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next());
    line.unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn agent_and_movers_save_and_fill_volumes_and_leave_nothing_but_data() {
    TestBox::down("node-agent").unwrap();
    harness::run("node-agent", BoxKind::Storage, async |cluster| {
        let machine = cluster.test_box.machine();
        let cli = CommandLine::new(machine, Edition::Ours);
        install(&cli);
        let pod = running_shop(machine);
        let cache = completes(machine, "v1", "podvolumebackups", &pod_volume_backup("pvb-cache", &pod, "cache"));
        let data = completes(machine, "v1", "podvolumebackups", &pod_volume_backup("pvb-data", &pod, "data"));
        for backup in [&cache, &data] {
            assert!(backup["status"]["snapshotID"].as_str().is_some_and(|id| !id.is_empty()), "{backup:#}");
        }
        assert!(data["status"]["progress"]["totalBytes"].as_i64().unwrap_or_default() >= 3_000_000, "{data:#}");
        restores_into_a_waiting_pod(machine, &data);
        moves_a_snapshot_and_brings_it_back(machine);
        counts_what_it_did(machine);
        nothing_is_left_of_what_is_cancelled_or_deleted(machine);
    });
    TestBox::down("node-agent").unwrap();
}

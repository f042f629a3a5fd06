//! Our custom resources are the peer's: the same definitions, and whatever the peer writes survives our types.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use velero_api::{crd, v1, v2alpha1};
use velero_testkit::{Edition, TestCluster, Tool, cluster_test};
use velero_tests::difference::differences;

/// The definitions the peer installs, by name.
fn peer_definitions() -> Vec<Value> {
    let output = std::process::Command::new(Edition::Peer.binary().unwrap())
        .args(["install", "--crds-only", "--dry-run", "-o", "yaml"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let list: Value = serde_saphyr::from_str(&text).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// What both sides say, without texts for people and without what the generator of the definitions adds.
fn comparable(definition: &Value) -> Value {
    let mut definition = crd::without_descriptions(definition);
    let object = definition.as_object_mut().unwrap();
    object.remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("creationTimestamp");
    metadata.remove("annotations");
    definition
}

#[test]
fn the_definitions_equal_the_peers_but_for_the_server_status() {
    let ours = crd::all();
    let theirs = peer_definitions();
    let name = |definition: &Value| definition["metadata"]["name"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = theirs.iter().map(name).collect();
    names.sort();
    let mut our_names: Vec<String> = ours.iter().map(name).collect();
    our_names.sort();
    assert_eq!(our_names, names);
    for definition in &ours {
        let their = theirs.iter().find(|their| name(their) == name(definition)).unwrap();
        let mut ours = comparable(definition);
        if name(definition) == "serverstatusrequests.velero.io" {
            let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
            let added = ours.pointer_mut(status).unwrap().as_object_mut().unwrap().remove("serverStatus").unwrap();
            assert_eq!(added, json!({"type": "string", "enum": ["Ready", "Partially Ready", "Waiting"]}));
        }
        let different = differences(&ours, &comparable(their));
        assert!(different.is_empty(), "{} differs: {different:#?}", name(definition));
    }
}

fn read_and_written_again<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let typed: K = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    serde_json::to_value(typed).unwrap()
}

fn through_our_type(kind: &str, object: &Value) -> Value {
    match kind {
        "Backup" => read_and_written_again::<v1::Backup>(object),
        "Restore" => read_and_written_again::<v1::Restore>(object),
        "Schedule" => read_and_written_again::<v1::Schedule>(object),
        "BackupStorageLocation" => read_and_written_again::<v1::BackupStorageLocation>(object),
        "VolumeSnapshotLocation" => read_and_written_again::<v1::VolumeSnapshotLocation>(object),
        "BackupRepository" => read_and_written_again::<v1::BackupRepository>(object),
        "DeleteBackupRequest" => read_and_written_again::<v1::DeleteBackupRequest>(object),
        "DownloadRequest" => read_and_written_again::<v1::DownloadRequest>(object),
        "ServerStatusRequest" => read_and_written_again::<v1::ServerStatusRequest>(object),
        "PodVolumeBackup" => read_and_written_again::<v1::PodVolumeBackup>(object),
        "PodVolumeRestore" => read_and_written_again::<v1::PodVolumeRestore>(object),
        "DataUpload" => read_and_written_again::<v2alpha1::DataUpload>(object),
        "DataDownload" => read_and_written_again::<v2alpha1::DataDownload>(object),
        other => panic!("a kind we do not have: {other}"),
    }
}

#[test]
fn every_kind_written_by_the_peers_own_types_reads_back_unchanged_through_ours() {
    let binary = Tool::VeleroSamples.path().unwrap();
    let output = std::process::Command::new(binary).arg("200").output().unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        let (kind, object) = (sample["kind"].as_str().unwrap(), with_type(&sample));
        kinds.insert(kind.to_owned());
        let mut unknown = object.clone();
        unknown["spec"]["fieldOfTheFuture"] = json!({"kept": true});
        unknown["status"]["fieldOfTheFuture"] = json!(7);
        for object in [object, unknown] {
            let changed = differences(&through_our_type(kind, &object), &object);
            assert!(changed.is_empty(), "{kind} changed: {changed:#?}");
        }
    }
    assert_eq!(kinds.len(), 13, "{kinds:?}");
}

/// The sample as it travels: with its type, and without the creation time Go writes as null.
fn with_type(sample: &Value) -> Value {
    let version = if sample["kind"].as_str().unwrap().starts_with("Data") { "v2alpha1" } else { "v1" };
    let mut object = sample["object"].clone();
    object["apiVersion"] = json!(format!("velero.io/{version}"));
    object["kind"] = sample["kind"].clone();
    object["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
    object
}

#[test]
fn the_api_server_accepts_our_definitions_and_serves_every_kind() {
    cluster_test(async |cluster: TestCluster| {
        let machine = cluster.test_box.machine();
        for definition in crd::all() {
            machine.apply(&definition.to_string()).unwrap();
        }
        for definition in crd::all() {
            let name = definition["metadata"]["name"].as_str().unwrap();
            machine.wait_for_definition(name).unwrap();
            machine.kubectl(&["-n", &cluster.namespace, "get", name]).unwrap();
        }
    });
}

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

/// Where the schema of a definition has its fields.
const FIELDS: &str = "/spec/versions/0/schema/openAPIV3Schema/properties";

fn column(name: &str, json_path: &str, kind: &str) -> Value {
    json!({"name": name, "jsonPath": json_path, "type": kind})
}

/// All that our definitions have and those of Velero 1.18.3 do not have: by the definition, the place and the value. What comes
/// from the version after it is as that version has it; the rest is our own.
#[expect(clippy::too_many_lines, reason = "a table")]
fn additions() -> Vec<(&'static str, String, Value)> {
    let mut all = Vec::new();
    for (plural, short_name) in [
        ("backuprepositories", "repo"),
        ("backups", "bak"),
        ("datadownloads", "dd"),
        ("datauploads", "du"),
        ("deletebackuprequests", "dbr"),
        ("downloadrequests", "dreq"),
        ("podvolumebackups", "pvb"),
        ("podvolumerestores", "pvr"),
        ("restores", "rst"),
        ("schedules", "sched"),
    ] {
        all.push((plural, "/spec/names/shortNames".to_owned(), json!([short_name])));
    }
    let age = column("Age", ".metadata.creationTimestamp", "date");
    let (status, errors, warnings) = (
        column("Status", ".status.phase", "string"),
        column("Errors", ".status.errors", "integer"),
        column("Warnings", ".status.warnings", "integer"),
    );
    for (plural, columns) in [
        ("backups", json!([status, errors, warnings, column("Started", ".status.startTimestamp", "date"), age])),
        ("restores", json!([column("Backup", ".spec.backupName", "string"), status, errors, warnings, age])),
        (
            "downloadrequests",
            json!([
                column("Target Kind", ".spec.target.kind", "string"),
                column("Target Name", ".spec.target.name", "string"),
                status,
                age
            ]),
        ),
        (
            "serverstatusrequests",
            json!([
                status,
                column("Server Version", ".status.serverVersion", "string"),
                column("Processed", ".status.processedTimestamp", "date"),
                age
            ]),
        ),
        (
            "volumesnapshotlocations",
            json!([column("Provider", ".spec.provider", "string"), column("Phase", ".status.phase", "string"), age]),
        ),
    ] {
        all.push((plural, "/spec/versions/0/additionalPrinterColumns".to_owned(), columns));
        all.push((plural, "/spec/versions/0/subresources".to_owned(), json!({})));
    }
    let annotations = json!({"type": "object", "nullable": true, "additionalProperties": {"type": "string"}});
    for plural in ["backups", "backupstoragelocations", "restores", "schedules"] {
        all.push((plural, format!("{FIELDS}/status/properties/conditions"), conditions()));
    }
    for (plural, place, value) in [
        ("backups", "/spec/properties/metadata/properties/annotations", annotations.clone()),
        ("schedules", "/spec/properties/template/properties/metadata/properties/annotations", annotations),
        ("restores", "/spec/properties/skipDefaultResourceModifier", json!({"type": "boolean", "nullable": true})),
        ("downloadrequests", "/status/properties/phase/enum/2", json!("Failed")),
        ("downloadrequests", "/status/properties/message", json!({"type": "string"})),
        (
            "serverstatusrequests",
            "/status/properties/serverStatus",
            json!({"type": "string", "enum": ["Ready", "Partially Ready", "Waiting"]}),
        ),
    ] {
        all.push((plural, format!("{FIELDS}{place}"), value));
    }
    all
}

/// Conditions as Kubernetes has them everywhere.
fn conditions() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "message": text,
                "observedGeneration": {"type": "integer", "format": "int64"},
                "reason": text,
                "status": text,
                "type": text,
            },
        },
    })
}

/// Takes a value out of a document.
fn take(document: &mut Value, place: &str) -> Option<Value> {
    let (parent, key) = place.rsplit_once('/')?;
    match document.pointer_mut(parent)? {
        Value::Object(object) => object.remove(key),
        Value::Array(items) => key.parse().ok().filter(|index| *index < items.len()).map(|index| items.remove(index)),
        _ => None,
    }
}

#[test]
fn the_definitions_equal_the_peers_but_for_the_known_additions() {
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
        let of_kind = additions().into_iter().filter(|(plural, ..)| name(definition) == format!("{plural}.velero.io"));
        for (plural, place, value) in of_kind {
            assert_eq!(take(&mut ours, &place), Some(value), "{plural} {place}");
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

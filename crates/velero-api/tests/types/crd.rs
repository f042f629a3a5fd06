//! The definitions in `config/crd` are the ones this crate makes.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::{Value, json};
use velero_api::crd;

const REMEDY: &str = "run cargo xtask gen";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/crd")
}

#[test]
fn the_files_in_config_crd_are_up_to_date() {
    for (name, text) in crd::yaml_files().unwrap() {
        let stored = fs::read_to_string(folder().join(&name)).unwrap_or_default();
        assert!(stored == text, "config/crd/{name} is out of date: {REMEDY}");
    }
}

#[test]
fn config_crd_holds_no_other_files() {
    let generated: BTreeSet<String> = crd::yaml_files().unwrap().into_iter().map(|(name, _)| name).collect();
    let stored: BTreeSet<String> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(stored, generated, "{REMEDY}");
}

#[test]
fn the_yaml_says_the_same_as_the_definition() {
    for (definition, (name, text)) in crd::all().into_iter().zip(crd::yaml_files().unwrap()) {
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, definition, "{name}");
    }
}

fn schema_of(kind: &str) -> Value {
    let definition = crd::all().into_iter().find(|definition| definition["spec"]["names"]["kind"] == kind).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clone()
}

#[test]
fn the_status_of_the_server_is_part_of_the_schema() {
    let status = schema_of("ServerStatusRequest")["status"]["properties"]["serverStatus"].clone();
    assert_eq!(
        crd::without_descriptions(&status),
        json!({ "type": "string", "enum": ["Ready", "Partially Ready", "Waiting"] })
    );
}

#[test]
fn only_marked_fields_are_nullable_and_only_int64_has_a_format() {
    let backup = schema_of("Backup");
    assert_eq!(backup["spec"]["properties"]["snapshotVolumes"]["nullable"], json!(true));
    assert_eq!(backup["spec"]["properties"]["resourcePolicy"].get("nullable"), None);
    assert_eq!(backup["status"]["properties"]["warnings"].get("format"), None);
    let upload = schema_of("DataUpload");
    assert_eq!(upload["status"]["properties"]["incrementalBytes"]["format"], json!("int64"));
}

#[test]
fn no_kind_has_a_status_subresource() {
    for definition in crd::all() {
        let version = &definition["spec"]["versions"][0];
        assert!(version["subresources"].get("status").is_none(), "{}", definition["metadata"]["name"]);
    }
}

#[test]
fn a_property_called_description_survives_the_removal_of_descriptions() {
    let schema = json!({ "description": "gone", "properties": { "description": { "type": "string" } } });
    assert_eq!(crd::without_descriptions(&schema), json!({ "properties": { "description": { "type": "string" } } }));
}

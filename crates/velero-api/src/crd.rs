//! The CustomResourceDefinitions, made from the Rust types.

use serde_json::{Map, Value, json};

use crate::{
    GROUP,
    resource::{PrinterColumn, VeleroResource},
    schema, v1, v2alpha1,
};

/// Every definition, in the order of the file names: v1 first, then v2alpha1.
pub fn all() -> Vec<Value> {
    vec![
        definition::<v1::BackupRepository>(),
        definition::<v1::Backup>(),
        definition::<v1::BackupStorageLocation>(),
        definition::<v1::DeleteBackupRequest>(),
        definition::<v1::DownloadRequest>(),
        definition::<v1::PodVolumeBackup>(),
        definition::<v1::PodVolumeRestore>(),
        definition::<v1::Restore>(),
        definition::<v1::Schedule>(),
        definition::<v1::ServerStatusRequest>(),
        definition::<v1::VolumeSnapshotLocation>(),
        definition::<v2alpha1::DataDownload>(),
        definition::<v2alpha1::DataUpload>(),
    ]
}

/// Every definition as a YAML file: its name, as in `velero.io_backups.yaml`, and its text.
pub fn yaml_files() -> Result<Vec<(String, String)>, serde_saphyr::ser::Error> {
    all()
        .into_iter()
        .map(|definition| {
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
            let text = serde_saphyr::to_string(&definition)?;
            Ok((format!("{GROUP}_{plural}.yaml"), format!("---\n{text}")))
        })
        .collect()
}

/// The definition of one kind.
pub fn definition<K: VeleroResource>() -> Value {
    let singular = K::KIND.to_lowercase();
    let mut names = json!({
        "kind": K::KIND,
        "listKind": format!("{}List", K::KIND),
        "plural": K::PLURAL,
        "singular": singular,
    });
    if !K::SHORT_NAMES.is_empty() {
        names["shortNames"] = json!(K::SHORT_NAMES);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{GROUP}", K::PLURAL),
            "labels": { "component": "velero" },
        },
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [version::<K>()],
        },
    })
}

fn version<K: VeleroResource>() -> Value {
    let mut version = json!({
        "name": K::VERSION,
        "served": true,
        "storage": true,
        "schema": {
            "openAPIV3Schema": {
                "description": K::DESCRIPTION.trim(),
                "type": "object",
                "properties": {
                    "apiVersion": { "description": "The group and version of the object.", "type": "string" },
                    "kind": { "description": "The kind of the object.", "type": "string" },
                    "metadata": { "type": "object" },
                    "spec": schema::structural::<K::Spec>(),
                    "status": schema::structural::<K::Status>(),
                },
            },
        },
    });
    if !K::COLUMNS.is_empty() {
        version["additionalPrinterColumns"] = K::COLUMNS.iter().map(printer_column).collect();
        version["subresources"] = json!({});
    }
    version
}

fn printer_column(column: &PrinterColumn) -> Value {
    let mut value = json!({ "name": column.name, "jsonPath": column.json_path, "type": column.kind });
    if let Some(format) = column.format {
        value["format"] = json!(format);
    }
    if column.priority != 0 {
        value["priority"] = json!(column.priority);
    }
    value
}

/// The same document without its description texts, to compare definitions by structure.
pub fn without_descriptions(document: &Value) -> Value {
    match document {
        Value::Object(object) => {
            // A property may be called "description" too; its value is a schema, not a text.
            let kept = object.iter().filter(|(key, value)| *key != "description" || !value.is_string());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_descriptions(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(without_descriptions).collect(),
        other => other.clone(),
    }
}

//! What the DataUploads of a backup came to, for the claims that are restored from it.
//!
//! It is kept in memory, for the actions of one restore are made for it. Vendors look for it where Velero keeps it: in a
//! ConfigMap for each DataUpload, which goes when the restore has ended.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kube::Resource;
use serde_json::{Value, json};
use velero_api::metadata::{label, name, namespace, uid};
use velero_api::v1::{Backup, Restore};
use velero_api::v2alpha1::{DataUpload, DataUploadResult};
use velero_api::{DataMovePhase, labels};
use velero_cluster::{Cluster, types};
use velero_plugin::item::text;
use velero_plugin::{Error, Result};

use super::is_built_in;
use crate::objects::list;

/// Where the data of a claim comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// A data mover brings it.
    Moved(DataUploadResult),
    /// Nowhere: the volume had no data.
    Empty,
}

/// What a restore knows of the DataUploads of its backup, by `<namespace>/<name>` as claims name them.
pub(crate) struct Uploads {
    cluster: Cluster,
    known: Mutex<HashMap<String, Result<Source, String>>>,
}

impl Uploads {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), known: Mutex::default() }
    }

    /// Reads a DataUpload as it is in the archive.
    pub(crate) fn read(item: &Value) -> Result<DataUpload> {
        serde_json::from_value(item.clone()).map_err(|error| {
            Error::Item(format!("DataUpload {} cannot be read: {error}", text(item, "/metadata/name")))
        })
    }

    /// Takes over what a DataUpload of the backup came to. Those of other backups are in the archive too where it holds the
    /// namespace of the server.
    pub(crate) async fn learn(&self, upload: &DataUpload, backup: &Backup, restore: &Restore) -> Result<()> {
        let owner = label(upload, labels::BACKUP_NAME);
        if !owner.is_empty() && owner != labels::valid_value(name(backup)) {
            return Ok(());
        }
        let result = result_of(upload, backup);
        // A restore that is only looked at has no identity, and nothing is made for it.
        if restore.metadata.uid.is_some() {
            self.keep(upload, &result, restore).await?;
        }
        let key = format!("{}/{}", namespace(upload), name(upload));
        let source = judge(upload, result);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, source);
        Ok(())
    }

    /// Where the data of a claim of the backup comes from, which names its DataUpload.
    pub(crate) async fn of_claim(&self, upload: &str, claim: (&str, &str), restore: &Restore) -> Result<Source> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(upload).cloned();
        match known {
            Some(known) => known.map_err(Error::Item),
            None => self.kept(claim, restore).await,
        }
    }

    /// Writes a result down where vendors look for it, once.
    async fn keep(&self, upload: &DataUpload, result: &DataUploadResult, restore: &Restore) -> Result<()> {
        let note = new_note(upload, result, restore);
        self.cluster.create_once(&types::CONFIG_MAPS, Some(namespace(restore)), &note).await?;
        Ok(())
    }

    /// What somebody else has written down: an action of a vendor that knows more than the archive does.
    async fn kept(&self, claim: (&str, &str), restore: &Restore) -> Result<Source> {
        let missing = || {
            Error::Item(format!(
                "the backup has no DataUpload of claim {}/{}, so nobody knows where its data is; restore it without its data by \
                 restorePVs: false",
                claim.0, claim.1
            ))
        };
        if restore.metadata.uid.is_none() {
            return Err(missing());
        }
        let notes = self.notes_of(claim, restore).await?;
        let content = match notes.as_slice() {
            [] => return Err(missing()),
            [note] => note.pointer("/data").and_then(|data| data.get(uid(restore))).and_then(Value::as_str),
            _ => return Err(Error::Item(format!("claim {}/{} has several DataUpload results", claim.0, claim.1))),
        };
        let result: DataUploadResult = content.and_then(|text| serde_json::from_str(text).ok()).ok_or_else(|| {
            Error::Item(format!("the DataUpload result of claim {}/{} cannot be read", claim.0, claim.1))
        })?;
        Ok(Source::Moved(result))
    }

    async fn notes_of(&self, claim: (&str, &str), restore: &Restore) -> Result<Vec<Value>> {
        let marks = marks(claim, restore).map(|(key, value)| format!("{key}={value}"));
        list(&self.cluster, &types::CONFIG_MAPS, Some(namespace(restore)), Some(&marks.join(","))).await
    }
}

/// What a DataDownload has to know of a DataUpload. The location is that of the backup, which may have another name in the
/// cluster of the restore.
fn result_of(upload: &DataUpload, backup: &Backup) -> DataUploadResult {
    let status = &upload.status;
    DataUploadResult {
        backup_storage_location: backup.spec.storage_location.clone(),
        data_mover: upload.spec.data_mover.clone(),
        snapshot_id: status.snapshot_id.clone(),
        source_namespace: upload.spec.source_namespace.clone(),
        data_mover_result: status.data_mover_result.clone(),
        node_os: status.node_os.clone(),
        snapshot_size: status.progress.total_bytes,
        ..DataUploadResult::default()
    }
}

/// Whether there is data to bring back. What a vendor's data mover needs is known to that alone.
fn judge(upload: &DataUpload, result: DataUploadResult) -> Result<Source, String> {
    let (phase, is_ours) = (upload.status.phase(), is_built_in(&upload.spec.data_mover));
    match phase {
        DataMovePhase::Completed if is_ours && result.snapshot_id.is_empty() => Ok(Source::Empty),
        DataMovePhase::Completed => Ok(Source::Moved(result)),
        phase => {
            let said = match upload.status.message.as_str() {
                "" => String::new(),
                message => format!(" ({message})"),
            };
            Err(format!(
                "the data of claim {}/{} is not in the backup: DataUpload {} was {phase} when the backup ended{said}; restore it \
                 without its data by restorePVs: false, or from another backup",
                upload.spec.source_namespace,
                upload.spec.source_pvc,
                name(upload)
            ))
        }
    }
}

fn marks((claim_namespace, claim): (&str, &str), restore: &Restore) -> [(&'static str, String); 3] {
    [
        (labels::RESTORE_UID, labels::valid_value(uid(restore))),
        (labels::PVC_NAMESPACE_NAME, labels::valid_value(&format!("{claim_namespace}.{claim}"))),
        (labels::RESOURCE_USAGE, labels::RESOURCE_USAGE_DATA_UPLOAD_RESULT.to_owned()),
    ]
}

/// The ConfigMap with the result of a DataUpload. It belongs to the restore, so that it goes with it whatever happens.
fn new_note(upload: &DataUpload, result: &DataUploadResult, restore: &Restore) -> Value {
    let claim = (upload.spec.source_namespace.as_str(), upload.spec.source_pvc.as_str());
    let marks: serde_json::Map<String, Value> =
        marks(claim, restore).into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let content = serde_json::to_string(result).unwrap_or_default();
    json!({
        "apiVersion": types::CONFIG_MAPS.api_version(),
        "kind": types::CONFIG_MAPS.kind,
        "metadata": {
            "generateName": format!("{}-", name(upload)),
            "namespace": namespace(restore),
            "labels": marks,
            "ownerReferences": restore.controller_owner_ref(&()).into_iter().collect::<Vec<_>>(),
        },
        "data": {uid(restore): content},
    })
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn upload(mover: &str, status: &Value) -> DataUpload {
        let spec = json!({"sourceNamespace": "shop", "sourcePVC": "data", "datamover": mover,
            "backupStorageLocation": "then"});
        Uploads::read(&json!({"metadata": {"name": "b-1"}, "spec": spec, "status": status})).unwrap()
    }

    fn backup() -> Backup {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.spec.storage_location = "now".to_owned();
        backup
    }

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("csi-transfers", learn)]
    }

    fn learn(bytes: &[u8]) {
        let Ok(item) = serde_json::from_slice::<Value>(bytes) else { return };
        let Ok(upload) = Uploads::read(&item) else { return };
        let result = result_of(&upload, &Backup::new("velero", "b", Default::default()));
        assert!(new_note(&upload, &result, &Restore::new("velero", "r", Default::default()))["data"].is_object());
        let _ = judge(&upload, result);
    }

    strike_all!(parsers);

    #[test]
    fn what_comes_back_is_what_the_upload_came_to() {
        for (mover, status, expected) in [
            ("", json!({"phase": "Completed", "snapshotID": "k1"}), "moved"),
            ("velero", json!({"phase": "Completed", "snapshotID": "k1"}), "moved"),
            ("", json!({"phase": "Completed", "message": "volume was empty"}), "empty"),
            ("vendor", json!({"phase": "Completed"}), "moved"),
            ("", json!({"phase": "Failed", "message": "no space"}), "was Failed when the backup ended (no space)"),
            ("", json!({"phase": "Canceled"}), "was Canceled when the backup ended; restore it"),
            ("", json!({"phase": "InProgress", "snapshotID": "k1"}), "was InProgress"),
            ("", json!({}), "was New"),
        ] {
            let upload = upload(mover, &status);
            let said = match judge(&upload, result_of(&upload, &backup())) {
                Ok(Source::Moved(_)) => "moved".to_owned(),
                Ok(Source::Empty) => "empty".to_owned(),
                Err(problem) => problem,
            };
            assert!(said.contains(expected), "{mover} {status}: {said}");
        }
    }

    #[test]
    fn vendors_find_what_velero_writes_down() {
        let status = json!({"phase": "Completed", "snapshotID": "k1", "nodeOS": "linux",
            "dataMoverResult": {"volume": "v"}, "progress": {"totalBytes": 9}});
        let upload = upload("vendor", &status);
        let mut restore = Restore::new("velero", "r", Default::default());
        restore.metadata.uid = Some("u".to_owned());
        let note = new_note(&upload, &result_of(&upload, &backup()), &restore);
        assert_eq!(note["metadata"]["generateName"], "b-1-");
        let labels = json!({"velero.io/restore-uid": "u", "velero.io/pvc-namespace-name": "shop.data",
            "velero.io/resource-usage": "DataUpload"});
        assert_eq!(note["metadata"]["labels"], labels);
        assert_eq!(note["metadata"]["ownerReferences"][0]["kind"], "Restore");
        let result: Value = serde_json::from_str(note["data"]["u"].as_str().unwrap()).unwrap();
        let expected = json!({"backupStorageLocation": "now", "datamover": "vendor", "snapshotID": "k1",
            "sourceNamespace": "shop", "dataMoverResult": {"volume": "v"}, "nodeOS": "linux", "snapshotSize": 9});
        assert_eq!(result, expected);
    }
}

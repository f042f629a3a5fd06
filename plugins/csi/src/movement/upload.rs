//! The DataUpload of a claim: what a data mover has to know to move the data of its snapshot into a repository.

use std::collections::{BTreeMap, BTreeSet};

use kube::Resource;
use kube::api::ObjectMeta;
use serde_json::Value;
use velero_api::metadata::{name, namespace, uid};
use velero_api::uploader_settings::PARALLEL_FILES_UPLOAD;
use velero_api::v1::Backup;
use velero_api::v2alpha1::{CsiSnapshotSpec, DataUpload, DataUploadSpec, SNAPSHOT_TYPE_CSI, UPLOAD_OPERATION};
use velero_api::{DataMovePhase, labels};
use velero_cluster::{Cluster, types};
use velero_plugin::Result;
use velero_plugin::item::text;

use super::is_built_in;
use crate::objects::{identity, list};

/// The operation of the upload of a claim: there is one in a backup.
pub(crate) fn upload_operation(backup: &Backup, claim: &Value) -> String {
    labels::valid_value(&format!("{UPLOAD_OPERATION}{}.{}", uid(backup), text(claim, "/metadata/uid")))
}

/// The DataUpload of the snapshot of a claim.
pub(crate) fn new_upload(
    claim: &Value,
    snapshot: &Value,
    content: &Value,
    backup: &Backup,
    data_mover: &str,
) -> DataUpload {
    let (claim_namespace, claim_name) = identity(claim);
    let uploader = backup.spec.uploader_config.as_ref().map_or(0, |config| config.parallel_files_upload);
    let config = (uploader > 0).then(|| (PARALLEL_FILES_UPLOAD.to_owned(), uploader.to_string()));
    DataUpload {
        metadata: ObjectMeta {
            namespace: Some(namespace(backup).to_owned()),
            generate_name: Some(format!("{}-", name(backup))),
            owner_references: backup.controller_owner_ref(&()).map(|owner| vec![owner]),
            labels: Some(BTreeMap::from([
                (labels::BACKUP_NAME.to_owned(), labels::valid_value(name(backup))),
                (labels::BACKUP_UID.to_owned(), uid(backup).to_owned()),
                (labels::PVC_UID.to_owned(), text(claim, "/metadata/uid").to_owned()),
                (labels::ASYNC_OPERATION_ID.to_owned(), upload_operation(backup, claim)),
            ])),
            ..ObjectMeta::default()
        },
        spec: DataUploadSpec {
            snapshot_type: SNAPSHOT_TYPE_CSI.to_owned(),
            csi_snapshot: Some(CsiSnapshotSpec {
                volume_snapshot: identity(snapshot).1.to_owned(),
                storage_class: text(claim, "/spec/storageClassName").to_owned(),
                snapshot_class: text(snapshot, "/spec/volumeSnapshotClassName").to_owned(),
                driver: text(content, "/spec/driver").to_owned(),
                ..CsiSnapshotSpec::default()
            }),
            source_pvc: claim_name.to_owned(),
            data_mover: data_mover.to_owned(),
            backup_storage_location: backup.spec.storage_location.clone(),
            source_namespace: claim_namespace.to_owned(),
            data_mover_config: config.into_iter().collect(),
            operation_timeout: backup.spec.csi_snapshot_timeout,
            ..DataUploadSpec::default()
        },
        ..DataUpload::default()
    }
}

/// The snapshots of a backup that are in the hands of data movers.
pub(crate) struct Held(BTreeSet<(String, String)>);

impl Held {
    /// Asks the DataUploads of a backup.
    pub(crate) async fn of_backup(cluster: &Cluster, backup: &Backup) -> Result<Self> {
        let selector = format!("{}={}", labels::BACKUP_UID, uid(backup));
        let uploads = list(cluster, &types::DATA_UPLOADS, Some(namespace(backup)), Some(&selector)).await?;
        let held = uploads.iter().filter(|upload| is_holding(upload));
        let snapshot = |upload: &Value| {
            let of = |pointer| text(upload, pointer).to_owned();
            (of("/spec/sourceNamespace"), of("/spec/csiSnapshot/volumeSnapshot"))
        };
        Ok(Self(held.map(snapshot).collect()))
    }

    /// Whether a data mover works with a snapshot.
    pub(crate) fn has(&self, snapshot: &Value) -> bool {
        let (namespace, name) = identity(snapshot);
        self.0.contains(&(namespace.to_owned(), name.to_owned()))
    }
}

/// Whether a data mover has taken an upload and has not let go of it. What becomes of the snapshots of a vendor's is up to
/// the vendor, unless there is none: one that nobody has taken until it was cancelled.
fn is_holding(upload: &Value) -> bool {
    let phase = DataMovePhase::from(text(upload, "/status/phase"));
    let is_untouched = matches!(&phase, DataMovePhase::New) || phase.as_str().is_empty();
    let is_cancelled = upload.pointer("/spec/cancel").and_then(Value::as_bool) == Some(true);
    match is_built_in(text(upload, "/spec/datamover")) {
        true => !(phase.is_terminal() || is_untouched),
        false => !(is_untouched && is_cancelled),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::v1::UploaderConfigForBackup;

    use super::*;

    fn backup() -> Backup {
        let mut backup = Backup::new("velero", "nightly", Default::default());
        backup.metadata.uid = Some("b4d8c6a2-0000-0000-0000-000000000001".to_owned());
        backup.spec.storage_location = "default".to_owned();
        backup.spec.csi_snapshot_timeout = velero_api::GoDuration::from_mins(10);
        backup
    }

    fn claim() -> Value {
        let metadata = json!({"namespace": "shop", "name": "data", "uid": "c1a1c1a1-0000-0000-0000-000000000002"});
        json!({"metadata": metadata, "spec": {"storageClassName": "fast"}})
    }

    #[test]
    fn an_upload_is_what_velero_writes() {
        let snapshot = json!({"metadata": {"namespace": "shop", "name": "velero-data-x"},
            "spec": {"volumeSnapshotClassName": "snap"}});
        let content = json!({"spec": {"driver": "disk.example.com"}});
        let mut backup = backup();
        let mut expected = json!({
            "apiVersion": "velero.io/v2alpha1",
            "kind": "DataUpload",
            "metadata": {
                "namespace": "velero",
                "generateName": "nightly-",
                "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Backup", "name": "nightly",
                    "uid": "b4d8c6a2-0000-0000-0000-000000000001", "controller": true}],
                "labels": {
                    "velero.io/backup-name": "nightly",
                    "velero.io/backup-uid": "b4d8c6a2-0000-0000-0000-000000000001",
                    "velero.io/pvc-uid": "c1a1c1a1-0000-0000-0000-000000000002",
                    "velero.io/async-operation-id": upload_operation(&backup, &claim()),
                },
            },
            "spec": {
                "snapshotType": "CSI",
                "csiSnapshot": {"volumeSnapshot": "velero-data-x", "storageClass": "fast", "snapshotClass": "snap",
                    "driver": "disk.example.com"},
                "sourcePVC": "data",
                "backupStorageLocation": "default",
                "sourceNamespace": "shop",
                "operationTimeout": "10m0s",
            },
            "status": {"progress": {}},
        });
        let written = |backup: &Backup| {
            serde_json::to_value(new_upload(&claim(), &snapshot, &content, backup, &backup.spec.data_mover)).unwrap()
        };
        assert_eq!(written(&backup), expected);
        backup.spec.data_mover = "vendor".to_owned();
        backup.spec.uploader_config =
            Some(UploaderConfigForBackup { parallel_files_upload: 4, ..UploaderConfigForBackup::default() });
        expected["spec"]["datamover"] = json!("vendor");
        expected["spec"]["dataMoverConfig"] = json!({"ParallelFilesUpload": "4"});
        assert_eq!(written(&backup), expected);
    }

    #[test]
    fn an_operation_fits_into_a_label_and_is_the_same_each_time() {
        let operation = upload_operation(&backup(), &claim());
        assert!(operation.starts_with("du-b4d8c6a2-0000-0000-0000-000000000001.") && operation.len() == 63);
        assert_eq!(operation, upload_operation(&backup(), &claim()));
        let other = json!({"metadata": {"uid": "c1a1c1a1-0000-0000-0000-000000000003"}});
        assert_ne!(operation, upload_operation(&backup(), &other));
    }

    #[test]
    fn a_snapshot_is_held_while_somebody_works_with_it() {
        for (mover, phase, holds) in [
            ("", "", false),
            ("velero", "New", false),
            ("", "Accepted", true),
            ("", "Prepared", true),
            ("velero", "InProgress", true),
            ("", "Canceling", true),
            ("", "Resting", true),
            ("", "Completed", false),
            ("", "Failed", false),
            ("", "Canceled", false),
            ("vendor", "New", true),
            ("vendor", "Completed", true),
        ] {
            let upload = json!({"spec": {"datamover": mover}, "status": {"phase": phase}});
            assert_eq!(is_holding(&upload), holds, "{mover} {phase}");
        }
        for (phase, holds) in [("", false), ("New", false), ("Accepted", true), ("Canceled", true)] {
            let upload = json!({"spec": {"datamover": "vendor", "cancel": true}, "status": {"phase": phase}});
            assert_eq!(is_holding(&upload), holds, "cancelled {phase}");
        }
    }
}

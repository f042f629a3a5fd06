//! Asynchronous operations that item actions have started.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::ResourceIdentifier;
use crate::wire::{UnknownFields, empty_as_null, is_zero, null_as_default};

string_enum! {
    /// The life of an operation.
    OperationPhase {
        /// Recorded, not started by the plugin yet.
        New = "New",
        /// Running.
        InProgress = "InProgress",
        /// Ended well.
        Completed = "Completed",
        /// Ended by an error.
        Failed = "Failed",
    }
}

impl OperationPhase {
    /// Whether the operation has ended.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// An operation of a backup item action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupOperation {
    /// Who started it and for what.
    pub spec: BackupOperationSpec,
    /// How it goes.
    pub status: OperationStatus,
}

/// Who started an operation of a backup, and for what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupOperationSpec {
    /// The backup.
    pub backup_name: String,

    /// The UID of the backup.
    #[serde(rename = "backupUID")]
    pub backup_uid: String,

    /// The action or volume snapshotter that started the operation.
    pub backup_item_action: String,

    /// The object the operation is for.
    pub resource_identifier: ResourceIdentifier,

    /// The identity the action has given to the operation.
    #[serde(rename = "operationID")]
    pub operation_id: String,

    /// Objects to store again when all operations have ended.
    #[serde(alias = "itemsToUpdate", deserialize_with = "null_as_default", serialize_with = "empty_as_null")]
    pub post_operation_items: Vec<ResourceIdentifier>,

    /// For the upload of a native snapshot: the VolumeSnapshotLocation whose snapshotter started it. The action is the
    /// snapshotter then, and the operation is the snapshot.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_snapshot_location: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// An operation of a restore item action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoreOperation {
    /// Who started it and for what.
    pub spec: RestoreOperationSpec,
    /// How it goes.
    pub status: OperationStatus,
}

/// Who started an operation of a restore, and for what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreOperationSpec {
    /// The restore.
    pub restore_name: String,

    /// The UID of the restore.
    #[serde(rename = "restoreUID")]
    pub restore_uid: String,

    /// The action that started the operation.
    pub restore_item_action: String,

    /// The object the operation is for.
    pub resource_identifier: ResourceIdentifier,

    /// The identity the action has given to the operation.
    #[serde(rename = "operationID")]
    pub operation_id: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// How an operation goes. The capital spellings of the first design are read too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationStatus {
    /// Where the operation is in its life.
    #[serde(alias = "operationPhase", skip_serializing_if = "Option::is_none")]
    pub phase: Option<OperationPhase>,

    /// Why the operation failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,

    /// How much is done, in units.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_completed: i64,

    /// How much there is to do, in units.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_total: i64,

    /// What the numbers count, as in `bytes`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation_units: String,

    /// What the plugin says about its progress.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,

    /// When the operation was recorded.
    #[serde(alias = "Created", skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,

    /// When the plugin started it, if known.
    #[serde(alias = "Started", skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,

    /// When the plugin last said something about it, if known.
    #[serde(alias = "Updated", skip_serializing_if = "Option::is_none")]
    pub updated: Option<Time>,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl OperationStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &OperationPhase {
        self.phase.as_ref().unwrap_or(&OperationPhase::New)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identifier(name: &str) -> serde_json::Value {
        json!({ "Group": "", "Resource": "persistentvolumeclaims", "Namespace": "shop", "Name": name })
    }

    #[test]
    fn an_operation_of_a_backup_is_written_as_it_was_read() {
        let record = json!({
            "spec": {
                "backupName": "b1",
                "backupUID": "u1",
                "backupItemAction": "velero.io/csi-pvc-backupper",
                "resourceIdentifier": identifier("data"),
                "operationID": "du-1",
                "postOperationItems": [identifier("data")],
            },
            "status": {
                "phase": "InProgress",
                "nCompleted": 10,
                "nTotal": 20,
                "operationUnits": "Byte",
                "description": "Prepared",
                "created": "2026-01-02T03:04:05Z",
                "started": "2026-01-02T03:04:06Z",
                "updated": "2026-01-02T03:04:07Z",
            },
        });
        let operation: BackupOperation = serde_json::from_value(record.clone()).unwrap();
        assert_eq!(operation.status.phase(), &OperationPhase::InProgress);
        assert_eq!(serde_json::to_value(&operation).unwrap(), record);
    }

    #[test]
    fn an_operation_without_items_to_store_again_keeps_gos_null() {
        let spec = serde_json::to_value(BackupOperationSpec::default()).unwrap();
        assert_eq!(spec["postOperationItems"], json!(null));
        let read: BackupOperationSpec = serde_json::from_value(spec).unwrap();
        assert!(read.post_operation_items.is_empty());
    }

    #[test]
    fn the_spelling_of_the_first_design_is_read_and_not_written() {
        let record = json!({
            "spec": { "backupName": "b1", "itemsToUpdate": [identifier("data")] },
            "status": {
                "operationPhase": "Completed",
                "Created": "2022-12-14T12:00:00Z",
                "Started": "2022-12-14T12:01:00Z",
                "Updated": "2022-12-14T12:11:02Z",
            },
        });
        let operation: BackupOperation = serde_json::from_value(record).unwrap();
        assert_eq!(operation.spec.post_operation_items[0].name, "data");
        let written = serde_json::to_value(&operation).unwrap();
        assert_eq!(
            written["status"],
            json!({
                "phase": "Completed",
                "created": "2022-12-14T12:00:00Z",
                "started": "2022-12-14T12:01:00Z",
                "updated": "2022-12-14T12:11:02Z",
            })
        );
        assert!(written["spec"].get("itemsToUpdate").is_none());
    }

    #[test]
    fn an_operation_of_a_restore_is_written_as_it_was_read() {
        let record = json!({
            "spec": {
                "restoreName": "r1",
                "restoreUID": "u1",
                "restoreItemAction": "velero.io/csi-pvc-restorer",
                "resourceIdentifier": identifier("data"),
                "operationID": "dd-1",
            },
            "status": { "phase": "Failed", "error": "timed out" },
        });
        let operation: RestoreOperation = serde_json::from_value(record.clone()).unwrap();
        assert!(operation.status.phase().is_terminal());
        assert_eq!(serde_json::to_value(&operation).unwrap(), record);
    }
}

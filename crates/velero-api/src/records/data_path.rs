//! What a pod that moves the data of a volume tells the node agent that started it: Events on its custom resource while it
//! runs, and the termination message of its container at the end.

use serde::{Deserialize, Serialize};

use crate::wire::{UnknownFields, is_zero};

/// The reason of the Event that tells that data begins to move.
pub const DATA_PATH_STARTED: &str = "Data-Path-Started";
/// The reason of the Event that tells that all data was moved; its message is the result.
pub const DATA_PATH_COMPLETED: &str = "Data-Path-Completed";
/// The reason of the Event that tells that an error ended it.
pub const DATA_PATH_FAILED: &str = "Data-Path-Failed";
/// The reason of the Event that tells that a cancel ended it.
pub const DATA_PATH_CANCELED: &str = "Data-Path-Canceled";
/// The reason of the Event that tells that a cancel was seen.
pub const DATA_PATH_CANCELING: &str = "Data-Path-Canceling";
/// The reason of the Events whose message is a [`DataPathProgress`].
pub const DATA_PATH_PROGRESS: &str = "Data-Path-Progress";
/// The reason of the last Event, however it ended.
pub const DATA_PATH_STOPPED: &str = "Data-Path-Stopped";

/// How the message of a pod ends that was cancelled.
pub const CANCELED_ENDING: &str = "data path is canceled";

/// A volume with a file system, in a [`DataPathEndpoint`].
pub const VOLUME_MODE_FILESYSTEM: &str = "Filesystem";
/// A volume that is a device, in a [`DataPathEndpoint`].
pub const VOLUME_MODE_BLOCK: &str = "Block";

/// A volume as the pod that moves its data sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataPathEndpoint {
    /// The path of its folder or device.
    pub by_path: String,

    /// `Filesystem` or `Block`.
    pub volume_mode: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The termination message of a pod that has backed up a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupResult {
    /// The snapshot in the repository.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,

    /// Whether there was nothing to save, so that there is no snapshot.
    pub empty_snapshot: bool,

    /// What was backed up.
    pub source: DataPathEndpoint,

    /// Bytes of the snapshot.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_bytes: i64,

    /// Bytes that are not those of the snapshot before.
    #[serde(skip_serializing_if = "is_zero")]
    pub incremental_bytes: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The termination message of a pod that has restored a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreResult {
    /// What was filled.
    pub target: DataPathEndpoint,

    /// Bytes that were restored.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_bytes: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// How far a pod is that moves the data of a volume: the message of an Event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataPathProgress {
    /// Bytes to move, as far as known.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_bytes: i64,

    /// Bytes moved so far.
    #[serde(rename = "doneBytes", skip_serializing_if = "is_zero")]
    pub bytes_done: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    fn read_and_written<T: DeserializeOwned + Serialize>(text: &str) -> T {
        let record: T = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        record
    }

    #[test]
    fn results_and_progress_are_written_as_velero_writes_them() {
        let backup: BackupResult = read_and_written(concat!(
            r#"{"snapshotID":"af0d","emptySnapshot":false,"source":{"byPath":"/7a","volumeMode":"Filesystem"},"#,
            r#""totalBytes":4096,"incrementalBytes":-3}"#,
        ));
        assert_eq!((backup.snapshot_id.as_str(), backup.incremental_bytes), ("af0d", -3));
        let restore: RestoreResult =
            read_and_written(r#"{"target":{"byPath":"/dev/7a","volumeMode":"Block"},"totalBytes":4096}"#);
        assert_eq!(restore.target.volume_mode, VOLUME_MODE_BLOCK);
        let progress: DataPathProgress = read_and_written(r#"{"totalBytes":10,"doneBytes":7}"#);
        assert_eq!((progress.total_bytes, progress.bytes_done), (10, 7));
    }

    #[test]
    fn numbers_that_are_zero_are_left_out() {
        assert_eq!(serde_json::to_string(&DataPathProgress::default()).unwrap(), "{}");
        assert_eq!(
            serde_json::to_string(&BackupResult::default()).unwrap(),
            r#"{"snapshotID":"","emptySnapshot":false,"source":{"byPath":"","volumeMode":""}}"#
        );
    }
}

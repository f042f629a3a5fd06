//! A volume snapshotter. A volume is a PersistentVolume of the CSI driver `example.velero.io`; a snapshot is a file.
//! Config: `path`, the folder of the snapshots; `upload`, how long the upload of a snapshot takes, such as `3s`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use velero_plugin::{Error, OperationProgress, Result, VolumeInfo, VolumeSnapshotter};

use crate::behaviour::duration;

/// The CSI driver whose volumes it knows.
const DRIVER: &str = "example.velero.io";

/// Keeps snapshots as files.
#[derive(Default)]
pub struct Snapshotter {
    settings: Mutex<Option<Settings>>,
}

#[derive(Clone)]
struct Settings {
    folder: PathBuf,
    upload: Duration,
}

impl Snapshotter {
    fn settings(&self) -> Result<Settings> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        settings.ok_or_else(|| Error::Failed("called before Init".to_owned()))
    }

    fn file(&self, snapshot_id: &str) -> Result<PathBuf> {
        if snapshot_id.is_empty() || snapshot_id.contains(['/', '.']) {
            return Err(self.invalid(snapshot_id));
        }
        Ok(self.settings()?.folder.join(snapshot_id))
    }

    fn read(&self, snapshot_id: &str) -> Result<Value> {
        let text = std::fs::read(self.file(snapshot_id)?).map_err(|_| self.invalid(snapshot_id))?;
        serde_json::from_slice(&text).map_err(|error| Error::Failed(format!("snapshot {snapshot_id}: {error}")))
    }

    fn write(&self, snapshot_id: &str, snapshot: &Value) -> Result<()> {
        let failed = |error| Error::Failed(format!("snapshot {snapshot_id}: {error}"));
        std::fs::write(self.file(snapshot_id)?, snapshot.to_string()).map_err(failed)
    }

    fn invalid(&self, snapshot_id: &str) -> Error {
        Error::InvalidOperationId { action: self.name().to_owned(), operation_id: snapshot_id.to_owned() }
    }
}

#[async_trait]
impl VolumeSnapshotter for Snapshotter {
    fn name(&self) -> &str {
        "example.velero.io/volumes"
    }

    async fn init(&self, config: &BTreeMap<String, String>) -> Result<()> {
        let folder = config.get("path").filter(|path| path.starts_with('/')).map(PathBuf::from);
        let folder = folder.ok_or_else(|| Error::Failed("config path: name an absolute folder".to_owned()))?;
        let upload = config.get("upload").map_or(Some(Duration::ZERO), |text| duration(text));
        let upload = upload.ok_or_else(|| Error::Failed("config upload: name a time such as 3s".to_owned()))?;
        std::fs::create_dir_all(&folder).map_err(|error| Error::Failed(format!("config path: {error}")))?;
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = Some(Settings { folder, upload });
        Ok(())
    }

    async fn create_volume_from_snapshot(&self, snapshot_id: &str, _: &VolumeInfo, _: &str) -> Result<String> {
        let snapshot = self.read(snapshot_id)?;
        Ok(format!("{}-from-{snapshot_id}", snapshot["volume"].as_str().unwrap_or_default()))
    }

    async fn get_volume_info(&self, _: &str, _: &str) -> Result<VolumeInfo> {
        Ok(VolumeInfo { volume_type: "file".to_owned(), iops: None })
    }

    async fn create_snapshot(&self, volume_id: &str, _: &str, tags: &BTreeMap<String, String>) -> Result<String> {
        let snapshot_id = format!("snapshot-{}", uuid::Uuid::new_v4());
        let taken = Timestamp::now().to_string();
        self.write(&snapshot_id, &json!({"volume": volume_id, "tags": tags, "taken": taken, "cancelled": false}))?;
        Ok(snapshot_id)
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<()> {
        match std::fs::remove_file(self.file(snapshot_id)?) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::Failed(format!("snapshot {snapshot_id}: {error}")))
            }
            _ => Ok(()),
        }
    }

    async fn get_volume_id(&self, persistent_volume: &Value) -> Result<Option<String>> {
        let csi = &persistent_volume["spec"]["csi"];
        let handle = csi["volumeHandle"].as_str().filter(|_| csi["driver"] == DRIVER);
        Ok(handle.map(str::to_owned))
    }

    async fn set_volume_id(&self, persistent_volume: &Value, volume_id: &str) -> Result<Value> {
        let mut volume = persistent_volume.clone();
        let handle = volume.pointer_mut("/spec/csi/volumeHandle");
        *handle.ok_or_else(|| Error::Item("the volume is not of CSI".to_owned()))? = json!(volume_id);
        Ok(volume)
    }

    async fn progress(&self, snapshot_id: &str) -> Result<OperationProgress> {
        let (snapshot, upload) = (self.read(snapshot_id)?, self.settings()?.upload);
        let taken: Timestamp = snapshot["taken"].as_str().unwrap_or_default().parse().unwrap_or(Timestamp::UNIX_EPOCH);
        let now = Timestamp::now();
        let passed = Duration::try_from(now.duration_since(taken)).unwrap_or_default();
        let (ended, cancelled) = (passed >= upload, snapshot["cancelled"] == true);
        let error = if cancelled && !ended { "the upload was cancelled" } else { "" };
        Ok(OperationProgress {
            completed: ended || cancelled,
            error: error.to_owned(),
            n_completed: passed.min(upload).as_millis().try_into().unwrap_or(i64::MAX),
            n_total: upload.as_millis().try_into().unwrap_or(i64::MAX),
            operation_units: "Bytes".to_owned(),
            description: "uploading the snapshot".to_owned(),
            started: Some(taken),
            updated: Some(now),
        })
    }

    async fn cancel(&self, snapshot_id: &str) -> Result<()> {
        let mut snapshot = self.read(snapshot_id)?;
        snapshot["cancelled"] = json!(true);
        self.write(snapshot_id, &snapshot)
    }
}

//! A volume snapshotter that keeps snapshots in a folder.
//!
//! A volume is a folder of the host (`hostPath`), whose files are copied, or a PersistentVolume of the CSI driver
//! `example.velero.io`, of which nothing is copied. Config: `path`, the folder of the snapshots and of volumes made from
//! them; `upload`, how long the upload of a snapshot takes, such as `3s`.
//!
//! Annotations of the PersistentVolume steer it: `example.velero.io/snapshot` what happens when the snapshot is taken
//! ([`crate::behaviour`]), `example.velero.io/upload` how its upload goes ([`crate::operations`]). Both become a part of
//! the ID of the volume, since the calls that follow get nothing else.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use velero_plugin::{Error, OperationProgress, Result, VolumeInfo, VolumeSnapshotter};

use crate::behaviour::{annotate, annotation, behave, duration};
use crate::operations;

/// The CSI driver whose volumes it knows.
const DRIVER: &str = "example.velero.io";

/// What stands between the parts of the ID of a volume that is steered.
const SEPARATOR: char = '|';

/// Keeps snapshots in a folder.
pub struct Snapshotter {
    name: &'static str,
    settings: Mutex<Option<Settings>>,
}

#[derive(Clone)]
struct Settings {
    folder: PathBuf,
    upload: Duration,
}

impl Snapshotter {
    /// A snapshotter of that name, not prepared yet.
    pub fn new(name: &'static str) -> Self {
        Self { name, settings: Mutex::default() }
    }

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

    /// Where the files of a volume are kept that a snapshot was taken of.
    fn data(&self, snapshot_id: &str) -> Result<PathBuf> {
        Ok(self.file(snapshot_id)?.with_extension("data"))
    }

    fn invalid(&self, snapshot_id: &str) -> Error {
        Error::InvalidOperationId { action: self.name().to_owned(), operation_id: snapshot_id.to_owned() }
    }
}

#[async_trait]
impl VolumeSnapshotter for Snapshotter {
    fn name(&self) -> &str {
        self.name
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
        let volume = snapshot["volume"].as_str().unwrap_or_default();
        if !volume.starts_with('/') {
            return Ok(format!("{volume}-from-{snapshot_id}"));
        }
        let folder = self.settings()?.folder.join(format!("volume-{}", uuid::Uuid::new_v4()));
        copy(&self.data(snapshot_id)?, &folder).map_err(|error| failed(&folder, &error))?;
        Ok(folder.display().to_string())
    }

    async fn get_volume_info(&self, _: &str, _: &str) -> Result<VolumeInfo> {
        Ok(VolumeInfo { volume_type: "file".to_owned(), iops: None })
    }

    async fn create_snapshot(&self, volume_id: &str, zone: &str, tags: &BTreeMap<String, String>) -> Result<String> {
        let mut parts = volume_id.split(SEPARATOR);
        let volume = parts.next().unwrap_or_default();
        if let Some(behaviour) = parts.next().filter(|behaviour| !behaviour.is_empty()) {
            let mut item = json!({"metadata": {}});
            annotate(&mut item, "snapshot", behaviour);
            behave(&item, "snapshot").await?;
        }
        let usual = format!("takes={}ms", self.settings()?.upload.as_millis());
        let course = parts.next().filter(|course| !course.is_empty());
        let upload = operations::begin(course.unwrap_or(&usual))?;
        let snapshot_id = format!("snapshot-{}", uuid::Uuid::new_v4());
        if volume.starts_with('/') {
            copy(Path::new(volume), &self.data(&snapshot_id)?).map_err(|error| failed(Path::new(volume), &error))?;
        }
        let snapshot = json!({"volume": volume, "zone": zone, "tags": tags, "upload": upload, "cancelled": false});
        self.write(&snapshot_id, &snapshot)?;
        Ok(snapshot_id)
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<()> {
        let (file, data) = (self.file(snapshot_id)?, self.data(snapshot_id)?);
        unless_gone(std::fs::remove_dir_all(&data)).map_err(|error| failed(&data, &error))?;
        unless_gone(std::fs::remove_file(&file)).map_err(|error| failed(&file, &error))
    }

    async fn get_volume_id(&self, persistent_volume: &Value) -> Result<Option<String>> {
        let spec = &persistent_volume["spec"];
        let handle = spec["csi"]["volumeHandle"].as_str().filter(|_| spec["csi"]["driver"] == DRIVER);
        let Some(volume) = handle.or_else(|| spec["hostPath"]["path"].as_str()) else { return Ok(None) };
        let steering = ["snapshot", "upload"].map(|name| annotation(persistent_volume, name).unwrap_or_default());
        Ok(Some(match steering {
            ["", ""] => volume.to_owned(),
            [snapshot, upload] => format!("{volume}{SEPARATOR}{snapshot}{SEPARATOR}{upload}"),
        }))
    }

    async fn set_volume_id(&self, persistent_volume: &Value, volume_id: &str) -> Result<Value> {
        let mut volume = persistent_volume.clone();
        let place = if volume["spec"]["csi"].is_object() { "/spec/csi/volumeHandle" } else { "/spec/hostPath/path" };
        let id = volume.pointer_mut(place);
        *id.ok_or_else(|| Error::Item("the volume is neither of CSI nor a folder".to_owned()))? = json!(volume_id);
        Ok(volume)
    }

    async fn progress(&self, snapshot_id: &str) -> Result<OperationProgress> {
        let snapshot = self.read(snapshot_id)?;
        let upload = snapshot["upload"].as_str().unwrap_or_default();
        operations::progress_of(self.name, upload, snapshot["cancelled"] == true).await
    }

    async fn cancel(&self, snapshot_id: &str) -> Result<()> {
        let mut snapshot = self.read(snapshot_id)?;
        operations::check_cancel(self.name, snapshot["upload"].as_str().unwrap_or_default())?;
        snapshot["cancelled"] = json!(true);
        self.write(snapshot_id, &snapshot)
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Failed(format!("{}: {error}", path.display()))
}

fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

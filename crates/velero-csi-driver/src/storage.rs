//! Volumes and snapshots on disk: one folder each, with its data and a record of what it is.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Where a volume's first data came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// A snapshot.
    Snapshot(String),
    /// Another volume.
    Volume(String),
}

/// What a volume is for those who use it, and so what its data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeMode {
    /// A folder, to be mounted; its data is a folder.
    Filesystem,
    /// A device; its data is a file as large as the volume, with holes where nothing was written.
    Block,
}

impl fmt::Display for VolumeMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its handle.
    pub id: String,
    /// What it is for those who use it.
    pub mode: VolumeMode,
    /// The size that was asked for; only a block volume cannot hold more.
    pub capacity_bytes: i64,
    /// Where its first data came from.
    pub source: Option<Source>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Its handle.
    pub id: String,
    /// The volume it was taken of.
    pub source_volume_id: String,
    /// The mode of that volume, and of all that become of the snapshot.
    pub mode: VolumeMode,
    /// The capacity of that volume.
    pub size_bytes: i64,
    /// When it was taken.
    pub created: Timestamp,
    /// The group it was taken with.
    pub group: Option<String>,
    /// The parameters of its class.
    pub parameters: BTreeMap<String, String>,
}

/// What a shelf keeps.
pub trait Record: Serialize + DeserializeOwned {
    /// The handle, also the name of its folder.
    fn id(&self) -> &str;
    /// What its data is.
    fn mode(&self) -> VolumeMode;
    /// How large its data is, where that is a file.
    fn size_bytes(&self) -> i64;
}

impl Record for Volume {
    fn id(&self) -> &str {
        &self.id
    }

    fn mode(&self) -> VolumeMode {
        self.mode
    }

    fn size_bytes(&self) -> i64 {
        self.capacity_bytes
    }
}

impl Record for Snapshot {
    fn id(&self) -> &str {
        &self.id
    }

    fn mode(&self) -> VolumeMode {
        self.mode
    }

    fn size_bytes(&self) -> i64 {
        self.size_bytes
    }
}

/// All that is stored. Several drivers may share one folder.
#[derive(Debug)]
pub struct Storage {
    /// The volumes.
    pub volumes: Shelf<Volume>,
    /// The snapshots.
    pub snapshots: Shelf<Snapshot>,
}

impl Storage {
    /// Opens the storage in that folder, made where missing.
    pub fn open(folder: &Path) -> Result<Self> {
        Ok(Self { volumes: Shelf::open(folder.join("volumes"))?, snapshots: Shelf::open(folder.join("snapshots"))? })
    }
}

/// A folder of records with their data.
#[derive(Debug)]
pub struct Shelf<R> {
    folder: PathBuf,
    records: PhantomData<fn() -> R>,
}

impl<R: Record> Shelf<R> {
    fn open(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self { folder, records: PhantomData })
    }

    /// The record with that handle.
    pub fn get(&self, id: &str) -> Result<Option<R>> {
        if !is_plain(id) {
            return Ok(None);
        }
        let file = self.folder.join(id).join("record.json");
        match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| format!("{} is damaged", file.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    /// All records, in the order of their handles.
    pub fn all(&self) -> Result<Vec<R>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            ids.push(entry?.file_name().to_string_lossy().into_owned());
        }
        ids.sort();
        ids.iter().filter_map(|id| self.get(id).transpose()).collect()
    }

    /// The data of that handle: a folder, or the file of a block volume.
    pub fn data(&self, id: &str) -> PathBuf {
        self.folder.join(id).join("data")
    }

    /// Keeps a record with a copy of that data, or with none yet. It appears at once and whole, or not at all.
    pub fn put(&self, record: &R, data: Option<&Path>) -> Result<()> {
        let id = record.id();
        ensure!(is_plain(id), "{id:?} cannot be a handle");
        let unfinished = self.folder.join(format!(".{id}.{}.unfinished", std::process::id()));
        let put = || {
            let _ = fs::remove_dir_all(&unfinished);
            fs::create_dir(&unfinished)?;
            let own = unfinished.join("data");
            if let Some(data) = data {
                copy(data, &own)?;
            }
            match record.mode() {
                VolumeMode::Filesystem if data.is_none() => create_open(&own)?,
                VolumeMode::Filesystem => ensure!(own.is_dir(), "the data for {id} is no folder"),
                VolumeMode::Block => set_size(&own, record.size_bytes())?,
            }
            fs::write(unfinished.join("record.json"), serde_json::to_vec_pretty(record)?)?;
            fs::rename(&unfinished, self.folder.join(id))?;
            Ok(())
        };
        put().inspect_err(|_: &anyhow::Error| {
            let _ = fs::remove_dir_all(&unfinished);
        })
    }

    /// Removes a record and its data; one that is not there is fine.
    pub fn remove(&self, id: &str) -> Result<()> {
        if !is_plain(id) {
            return Ok(());
        }
        let removed = self.folder.join(format!(".{id}.{}.removed", std::process::id()));
        match fs::rename(self.folder.join(id), &removed) {
            Ok(()) => fs::remove_dir_all(&removed).with_context(|| format!("cannot remove {}", removed.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot remove {id}")),
        }
    }
}

/// True for a text that can be a handle, and so the name of a folder.
pub fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !id.is_empty() && id.len() <= 200 && !id.starts_with('.') && id.chars().all(plain)
}

/// A folder in which any user of a pod may write.
fn create_open(folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
    Ok(())
}

/// Makes a file that large, with a hole where it had nothing.
fn set_size(file: &Path, bytes: i64) -> Result<()> {
    let resize = || -> Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(file)?;
        Ok(file.set_len(bytes.try_into()?)?)
    };
    resize().with_context(|| format!("cannot make {} {bytes} bytes large", file.display()))
}

/// Copies a folder or a file with owners, modes, times, links and holes, sharing blocks where the file system can.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let output = Command::new("cp").args(["--archive", "--reflink=auto"]).arg(from).arg(to).output()?;
    let reason = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot copy {}: {}", from.display(), reason.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    fn volume(id: &str) -> Volume {
        Volume { id: id.into(), mode: VolumeMode::Filesystem, capacity_bytes: 1, source: None }
    }

    fn block_volume(id: &str, capacity_bytes: i64) -> Volume {
        Volume { mode: VolumeMode::Block, capacity_bytes, ..volume(id) }
    }

    #[test]
    fn a_handle_is_a_plain_file_name() {
        for good in ["pvc-1", "a.b_C", &"a".repeat(128)] {
            assert!(is_plain(good), "{good:?} was refused");
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", &"a".repeat(201)] {
            assert!(!is_plain(bad), "{bad:?} was accepted");
        }
    }

    #[test]
    fn what_was_put_is_found_by_another_opener_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(folder.path()).unwrap();
        for id in ["two", "one"] {
            storage.volumes.put(&volume(id), None).unwrap();
        }
        let other = Storage::open(folder.path()).unwrap();
        assert_eq!(other.volumes.all().unwrap(), [volume("one"), volume("two")]);
        other.volumes.remove("one").unwrap();
        other.volumes.remove("one").unwrap();
        assert_eq!(storage.volumes.get("one").unwrap(), None);
        assert_eq!(fs::read_dir(folder.path().join("volumes")).unwrap().count(), 1);
    }

    #[test]
    fn a_copy_keeps_its_data_when_the_source_changes() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Storage::open(folder.path()).unwrap().volumes;
        shelf.put(&volume("source"), None).unwrap();
        fs::write(shelf.data("source").join("file"), "before").unwrap();
        shelf.put(&volume("copy"), Some(&shelf.data("source"))).unwrap();
        fs::write(shelf.data("source").join("file"), "after").unwrap();
        assert_eq!(fs::read_to_string(shelf.data("copy").join("file")).unwrap(), "before");
    }

    #[test]
    fn a_block_volume_is_a_file_with_holes_and_a_larger_copy_of_it_begins_with_its_data() {
        const SIZE: u64 = 64 << 20;
        let folder = tempfile::tempdir().unwrap();
        let shelf = Storage::open(folder.path()).unwrap().volumes;
        shelf.put(&block_volume("source", SIZE as i64), None).unwrap();
        let source = OpenOptions::new().write(true).open(shelf.data("source")).unwrap();
        source.write_all_at(b"before", SIZE - 6).unwrap();
        shelf.put(&block_volume("copy", 2 * SIZE as i64), Some(&shelf.data("source"))).unwrap();
        source.write_all_at(b"after!", SIZE - 6).unwrap();
        let copy = fs::File::open(shelf.data("copy")).unwrap();
        let mut found = [0; 8];
        copy.read_exact_at(&mut found, SIZE - 6).unwrap();
        assert_eq!(&found, b"before\0\0");
        let size = copy.metadata().unwrap();
        assert_eq!(size.len(), 2 * SIZE);
        assert!(size.blocks() * 512 < SIZE, "the copy has no holes: {} blocks", size.blocks());
        assert_eq!(shelf.get("copy").unwrap().unwrap().mode, VolumeMode::Block);
    }

    #[test]
    fn data_of_one_mode_cannot_become_a_volume_of_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Storage::open(folder.path()).unwrap().volumes;
        shelf.put(&volume("folder"), None).unwrap();
        shelf.put(&block_volume("device", 512), None).unwrap();
        shelf.put(&block_volume("copy", 512), Some(&shelf.data("folder"))).unwrap_err();
        shelf.put(&volume("copy"), Some(&shelf.data("device"))).unwrap_err();
        assert_eq!(shelf.get("copy").unwrap(), None);
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Storage::open(folder.path()).unwrap().volumes;
        let error = shelf.put(&volume("copy"), Some(&folder.path().join("missing"))).unwrap_err();
        assert!(format!("{error:#}").contains("missing"), "{error:#}");
        assert_eq!(fs::read_dir(folder.path().join("volumes")).unwrap().count(), 0);
    }
}

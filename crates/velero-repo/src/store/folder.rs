//! A repository in a folder, with kopia's own sharding: long ids are spread over folders.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{BlobInfo, BlobStore};
use crate::{Error, Result, direct, hex, lock};

const SHARDS_FILE: &str = ".shards";
const SUFFIX: &str = ".f";

/// How ids become paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shards {
    default: Vec<usize>,
    max_non_sharded_length: usize,
}

impl Shards {
    /// What kopia makes for a new repository.
    fn of_a_new_repository() -> Self {
        Self { default: vec![1, 3], max_non_sharded_length: 20 }
    }

    /// What kopia takes where the file is missing.
    fn of_an_old_repository() -> Self {
        Self { default: vec![3, 3], max_non_sharded_length: 20 }
    }

    fn path(&self, id: &str) -> PathBuf {
        let (mut path, mut rest) = (PathBuf::new(), id);
        if id.len() > self.max_non_sharded_length {
            for length in &self.default {
                let Some((shard, left)) = rest.split_at_checked(*length) else { break };
                path.push(shard);
                rest = left;
            }
        }
        path.push(format!("{rest}{SUFFIX}"));
        path
    }
}

/// A folder on this machine.
pub struct FolderStore {
    root: PathBuf,
    shards: Shards,
    /// The innermost folder that was there before the repository: the root, unless that is still to be made.
    foundation: PathBuf,
    names: Names,
}

impl FolderStore {
    /// The repository in a folder, or the folder in which one is to be made.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        let path = root.join(SHARDS_FILE);
        let shards = match fs::read(&path) {
            Ok(content) => serde_json::from_slice(&content)
                .map_err(|error| Error::malformed(format!("file {:?}", path.display()), error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_empty = fs::read_dir(&root).map_or(true, |mut entries| entries.next().is_none());
                if is_empty { Shards::of_a_new_repository() } else { Shards::of_an_old_repository() }
            }
            Err(error) => return Err(Error::file("read", path.display().to_string(), error)),
        };
        let is_there = |folder: &&Path| folder.as_os_str().is_empty() || folder.is_dir();
        let foundation = root.ancestors().find(is_there).unwrap_or(&root).to_owned();
        Ok(Self { root, shards, foundation, names: Names::default() })
    }

    fn path(&self, id: &str) -> Result<PathBuf> {
        if id.is_empty() || id.contains(['/', '\0']) || id.starts_with('.') {
            return Err(Error::malformed(format!("blob id {id:?}"), "it cannot be a file name"));
        }
        Ok(self.root.join(self.shards.path(id)))
    }

    fn write_shards(&self) -> io::Result<()> {
        let path = self.root.join(SHARDS_FILE);
        if path.exists() {
            return Ok(());
        }
        self.show(Prepared::write(&path, &serde_json::to_vec(&self.shards)?)?)
    }

    /// Gives a file its name. The folders on the way to it may be new too.
    fn show(&self, prepared: Prepared<'_>) -> io::Result<()> {
        let folders = prepared.path.ancestors().skip(1);
        let changed = folders.take_while(|folder| folder.starts_with(&self.foundation)).map(Path::to_owned).collect();
        prepared.show()?;
        self.names.note(changed);
        Ok(())
    }
}

/// The folders with names that a power cut would take back. Contents are on the disk before they get their names; the names
/// are not before their folder is written too, which takes as long for one as for many.
#[derive(Default)]
struct Names {
    unsettled: Mutex<BTreeSet<PathBuf>>,
    /// Whoever comes while others write folders waits for them: theirs may be among those.
    settling: Mutex<()>,
}

impl Names {
    fn note(&self, mut folders: BTreeSet<PathBuf>) {
        lock(&self.unsettled).append(&mut folders);
    }

    fn settle(&self) -> io::Result<()> {
        let _settling = lock(&self.settling);
        let mut folders = std::mem::take(&mut *lock(&self.unsettled));
        while let Some(folder) = folders.first() {
            if let Err(error) = write_names(folder) {
                self.note(folders);
                return Err(error);
            }
            folders.pop_first();
        }
        Ok(())
    }
}

/// Has the disk take over which names a folder has, where that can be asked for.
fn write_names(folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, Unsupported};

    if !cfg!(unix) {
        return Ok(());
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match fs::File::open(folder)?.sync_all() {
        Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
        outcome => outcome,
    }
}

/// A file that is on the disk under another name: whoever lists never sees half a blob.
struct Prepared<'a> {
    path: &'a Path,
    temporary: PathBuf,
}

impl<'a> Prepared<'a> {
    fn write(path: &'a Path, content: &[u8]) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(folder)?;
        }
        let unique = hex::encode(&crate::crypto::random::<8>());
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".tmp.{unique}"));
        let prepared = Self { path, temporary: PathBuf::from(temporary) };
        direct::write_new(&prepared.temporary, content)?;
        Ok(prepared)
    }

    /// Gives it its name.
    fn show(mut self) -> io::Result<()> {
        fs::rename(&self.temporary, self.path)?;
        self.temporary.clear();
        Ok(())
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        if !self.temporary.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn failed(action: &'static str, id: &str, source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::NotFound {
        return Error::BlobNotFound { blob: id.to_owned() };
    }
    Error::Store { action, blob: id.to_owned(), source: Box::new(source) }
}

impl BlobStore for FolderStore {
    fn place(&self) -> String {
        format!("folder {:?}", self.root.display().to_string())
    }

    fn get(&self, id: &str) -> Result<Bytes> {
        fs::read(self.path(id)?).map(Bytes::from).map_err(|error| failed("read", id, error))
    }

    fn get_range(&self, id: &str, offset: u64, length: usize) -> Result<Bytes> {
        direct::read(&self.path(id)?, offset, length).map_err(|error| failed("read", id, error))
    }

    fn put(&self, id: &str, content: Bytes) -> Result<()> {
        self.put_after(id, content, &mut || Ok(()))?;
        self.settle()
    }

    /// To wait for the disk takes longest, and can be done for several files at once.
    fn put_after(&self, id: &str, content: Bytes, before: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let path = self.path(id)?;
        let failed = |error: io::Error| Error::Store { action: "write", blob: id.to_owned(), source: Box::new(error) };
        let prepared = Prepared::write(&path, &content).map_err(failed)?;
        before()?;
        self.show(prepared).and_then(|()| self.write_shards()).map_err(failed)
    }

    fn settle(&self) -> Result<()> {
        let folder = || self.root.display().to_string();
        self.names.settle().map_err(|error| Error::file("sync", folder(), error))
    }

    fn delete(&self, id: &str) -> Result<()> {
        match fs::remove_file(self.path(id)?).map_err(|error| failed("delete", id, error)) {
            Err(error) if error.is_blob_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()> {
        list_folder(&self.root, "", prefix, visit)
    }
}

/// Lists a shard; `before` are the first letters of all ids in it.
fn list_folder(folder: &Path, before: &str, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()> {
    let failed = |error| Error::Store { action: "list", blob: prefix.to_owned(), source: Box::new(error) };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let Some(name) = name.to_str().map(|name| format!("{before}{name}")) else { continue };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && (name.starts_with(prefix) || prefix.starts_with(&name)) {
            list_folder(&entry.path(), &name, prefix, visit)?;
        } else if let Some(id) = name.strip_suffix(SUFFIX).filter(|id| kind.is_file() && id.starts_with(prefix)) {
            match entry.metadata() {
                // Removed since the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                found => {
                    let found = found.map_err(failed)?;
                    let modified = found.modified().map_err(failed)?;
                    visit(BlobInfo { id: id.to_owned(), size: found.len(), modified })?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::list_all;

    #[test]
    fn ids_are_spread_as_kopia_spreads_them() {
        let shards = Shards::of_a_new_repository();
        let path = shards.path("xn0_58c1a2849da1a3700028bc1066016d55-se3f7ab6e6bf445f3147-c1");
        assert_eq!(path, Path::new("x/n0_/58c1a2849da1a3700028bc1066016d55-se3f7ab6e6bf445f3147-c1.f"));
        assert_eq!(shards.path("kopia.repository"), Path::new("kopia.repository.f"));
    }

    #[test]
    fn blobs_are_written_listed_read_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let long = "p0123456789abcdef0123456789abcdef-s1";
        for id in [long, "xe1", "kopia.repository"] {
            store.put(id, Bytes::from_static(b"0123456789")).unwrap();
        }
        let store = FolderStore::open(folder.path()).unwrap();
        let ids = |prefix| list_all(&store, prefix).unwrap().into_iter().map(|blob| blob.id).collect::<Vec<_>>();
        assert_eq!(ids(""), ["kopia.repository", long, "xe1"]);
        assert_eq!(ids("p01"), [long]);
        assert_eq!(ids("x"), ["xe1"]);
        assert_eq!(store.get_range(long, 8, 5).unwrap().as_ref(), b"89");
        assert_eq!(store.get_range(long, 80, 5).unwrap().len(), 0);
        store.delete(long).unwrap();
        store.delete(long).unwrap();
        assert!(store.get(long).unwrap_err().is_blob_not_found());
        assert!(store.get("../x").is_err() && store.get("").is_err());
    }

    #[test]
    fn a_blob_that_must_wait_is_seen_when_its_time_has_come_and_never_when_it_does_not_come() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let (long, content) = ("p0123456789abcdef0123456789abcdef-s1", Bytes::from_static(b"0123456789"));
        store.put("first", content.clone()).unwrap();
        let ids = || list_all(&store, "").unwrap().into_iter().map(|blob| blob.id).collect::<Vec<_>>();
        let never = store.put_after(long, content.clone(), &mut || Err(Error::Canceled));
        assert!(matches!(never, Err(Error::Canceled)));
        assert_eq!(fs::read_dir(folder.path().join("p/012")).unwrap().count(), 0, "nothing is left of it");
        store
            .put_after(long, content.clone(), &mut || {
                assert_eq!(ids(), ["first"]);
                store.put("second", content.clone())
            })
            .unwrap();
        assert_eq!(ids(), ["first", long, "second"]);
    }

    #[test]
    fn a_blob_is_stored_with_its_names_on_the_disk_unless_somebody_else_sees_to_that() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("new/repository");
        let store = FolderStore::open(&root).unwrap();
        let unsettled = || lock(&store.names.unsettled).iter().cloned().collect::<Vec<_>>();
        let (long, content) = ("p0123456789abcdef0123456789abcdef-s1", Bytes::from_static(b"0123456789"));
        store.put_after(long, content.clone(), &mut || Ok(())).unwrap();
        let made = [folder.path().into(), folder.path().join("new"), root.clone(), root.join("p"), root.join("p/012")];
        assert_eq!(unsettled(), made, "the folders on the way are new too");
        store.settle().unwrap();
        assert!(unsettled().is_empty());
        store.put("first", content.clone()).unwrap();
        assert!(unsettled().is_empty());
        store.put_after(long, content, &mut || Ok(())).unwrap();
        fs::remove_dir_all(&root).unwrap();
        store.settle().unwrap_err();
        assert!(unsettled().contains(&root), "what could not be written is tried again");
    }
}

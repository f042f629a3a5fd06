//! A repository in a folder, with kopia's own sharding: long ids are spread over folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{BlobInfo, BlobStore};
use crate::{Error, Result, direct, hex};

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
        Ok(Self { root, shards })
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
        Prepared::write(&path, &serde_json::to_vec(&self.shards)?)?.show()
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
        self.put_after(id, content, &mut || Ok(()))
    }

    /// To wait for the disk takes longest, and can be done for several files at once.
    fn put_after(&self, id: &str, content: Bytes, before: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let path = self.path(id)?;
        let failed = |error: io::Error| Error::Store { action: "write", blob: id.to_owned(), source: Box::new(error) };
        let prepared = Prepared::write(&path, &content).map_err(failed)?;
        before()?;
        prepared.show().and_then(|()| self.write_shards()).map_err(failed)
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
}

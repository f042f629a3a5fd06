//! An object store that keeps objects as files of a folder. Config: `path`, the folder; each bucket is a folder in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use velero_plugin::sdk::{ByteStream, ObjectStore, ObjectStoreHandle, ObjectStoreProvider, StoreError, StoreResult};
use velero_plugin::{Error, Result};

/// Unfinished uploads have names that begin with this; they are no objects.
const UNFINISHED: &str = ".unfinished-";

/// Opens buckets.
pub struct Provider;

#[async_trait]
impl ObjectStoreProvider for Provider {
    fn name(&self) -> &str {
        "example.velero.io/folder"
    }

    async fn open(&self, bucket: &str, config: &BTreeMap<String, String>) -> Result<ObjectStoreHandle> {
        let path = config.get("path").filter(|path| path.starts_with('/'));
        let path = path.ok_or_else(|| Error::Failed("config path: name an absolute folder".to_owned()))?;
        let folder = Path::new(path).join(bucket);
        let failed = |error| Error::Failed(format!("config path: {}: {error}", folder.display()));
        fs::create_dir_all(&folder).await.map_err(failed)?;
        Ok(Arc::new(FolderStore { folder }))
    }
}

struct FolderStore {
    folder: PathBuf,
}

impl FolderStore {
    fn file(&self, key: &str) -> StoreResult<PathBuf> {
        let bad = |part: &str| part.is_empty() || part == "." || part == ".." || part.starts_with(UNFINISHED);
        if key.split('/').any(bad) {
            let problem = "every part between slashes must be a file name".to_owned();
            return Err(StoreError::InvalidKey { key: key.to_owned(), problem });
        }
        Ok(self.folder.join(key))
    }

    async fn write(&self, path: &Path, mut content: ByteStream) -> std::io::Result<()> {
        let mut file = File::create(path).await?;
        while let Some(chunk) = content.next().await {
            file.write_all(&chunk?).await?;
        }
        file.sync_all().await
    }

    /// All keys below a folder.
    async fn keys(&self, folder: &str) -> std::io::Result<Vec<String>> {
        let (mut found, mut waiting) = (Vec::new(), vec![folder.to_owned()]);
        while let Some(prefix) = waiting.pop() {
            let mut entries = match fs::read_dir(self.folder.join(&prefix)).await {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            while let Some(entry) = entries.next_entry().await? {
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type().await?.is_dir() {
                    waiting.push(format!("{prefix}{name}/"));
                } else if !name.starts_with(UNFINISHED) {
                    found.push(format!("{prefix}{name}"));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn failed(action: &'static str, key: &str, error: std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::NotFound => StoreError::NotFound { key: key.to_owned() },
        _ => StoreError::Request { action, key: key.to_owned(), source: error.into() },
    }
}

#[async_trait]
impl ObjectStore for FolderStore {
    async fn put_stream(&self, key: &str, content: ByteStream) -> StoreResult<()> {
        let path = self.file(key)?;
        let folder = path.parent().unwrap_or(&self.folder);
        let unfinished = folder.join(format!("{UNFINISHED}{}", uuid::Uuid::new_v4()));
        fs::create_dir_all(folder).await.map_err(|error| failed("write", key, error))?;
        // The object appears whole or not at all, even if this call is dropped half way.
        let guard = RemoveOnDrop(unfinished.clone());
        let written = self.write(&unfinished, content).await;
        written.map_err(|error| failed("write", key, error))?;
        fs::rename(&unfinished, &path).await.map_err(|error| failed("write", key, error))?;
        drop(guard);
        Ok(())
    }

    async fn get_stream(&self, key: &str) -> StoreResult<ByteStream> {
        let file = File::open(self.file(key)?).await.map_err(|error| failed("read", key, error))?;
        let chunks = stream::try_unfold(file, |mut file| async move {
            let mut chunk = bytes::BytesMut::with_capacity(64 << 10);
            let length = file.read_buf(&mut chunk).await?;
            Ok((length > 0).then(|| (chunk.freeze(), file)))
        });
        Ok(chunks.boxed())
    }

    async fn exists(&self, key: &str) -> StoreResult<bool> {
        let path = self.file(key)?;
        fs::try_exists(path).await.map_err(|error| failed("look up", key, error))
    }

    async fn list_common_prefixes(&self, folder: &str) -> StoreResult<Vec<String>> {
        let keys = self.list_objects(folder).await?;
        let below = |key: &String| Some(format!("{folder}{}/", key[folder.len()..].split_once('/')?.0));
        let mut prefixes: Vec<_> = keys.iter().filter_map(below).collect();
        prefixes.sort();
        prefixes.dedup();
        Ok(prefixes)
    }

    async fn list_objects(&self, folder: &str) -> StoreResult<Vec<String>> {
        self.keys(folder).await.map_err(|error| failed("list", folder, error))
    }

    async fn delete_object(&self, key: &str) -> StoreResult<()> {
        match fs::remove_file(self.file(key)?).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("delete", key, error)),
            _ => Ok(()),
        }
    }

    async fn signed_url(&self, _: &str, _: Duration) -> StoreResult<String> {
        Err(StoreError::NotSupported { what: "a signed URL", reason: "a folder has no URLs".to_owned() })
    }
}

/// Removes an unfinished upload; once it is an object under its name there is nothing to remove.
struct RemoveOnDrop(PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

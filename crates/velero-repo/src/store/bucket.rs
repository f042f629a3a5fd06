//! A repository in a bucket: blobs lie flat below a folder.

use bytes::Bytes;
use futures::TryStreamExt as _;
use tokio::runtime::Handle;
use velero_store::ObjectStoreHandle;

use super::{BlobInfo, BlobStore};
use crate::{Error, Result};

/// A folder of a bucket. Its methods block and must not be called on a thread of the runtime.
pub struct BucketStore {
    store: ObjectStoreHandle,
    folder: String,
    runtime: Handle,
}

impl BucketStore {
    /// The repository below a folder, which is empty or ends in a slash; requests run on the runtime.
    pub fn new(store: ObjectStoreHandle, folder: impl Into<String>, runtime: Handle) -> Self {
        Self { store, folder: folder.into(), runtime }
    }

    fn key(&self, id: &str) -> String {
        format!("{}{id}", self.folder)
    }
}

fn failed(action: &'static str, id: &str, source: velero_store::Error) -> Error {
    match source {
        velero_store::Error::NotFound { .. } => Error::BlobNotFound { blob: id.to_owned() },
        source => Error::Store { action, blob: id.to_owned(), source: Box::new(source) },
    }
}

impl BlobStore for BucketStore {
    fn place(&self) -> String {
        format!("folder {:?} of the bucket", self.folder)
    }

    fn bytes_are_dear(&self) -> bool {
        true
    }

    fn get(&self, id: &str) -> Result<Bytes> {
        // No pack and no small blob is longer; index blobs that are get read by ranges.
        const MOST: usize = 1 << 30;
        let key = self.key(id);
        let read = async { velero_store::read_all(&key, self.store.get_stream(&key).await?, MOST).await };
        self.runtime.block_on(read).map_err(|error| failed("read", id, error))
    }

    fn get_range(&self, id: &str, offset: u64, length: usize) -> Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let key = self.key(id);
        let read = self.store.get_range(&key, offset, length);
        self.runtime.block_on(read).map_err(|error| failed("read", id, error))
    }

    fn put(&self, id: &str, content: Bytes) -> Result<()> {
        // Contents are named by their hashes, and the other blobs are sealed with theirs.
        let put = self.runtime.block_on(self.store.put_self_proving(&self.key(id), content));
        put.map_err(|error| failed("write", id, error))
    }

    fn delete(&self, id: &str) -> Result<()> {
        self.runtime.block_on(self.store.delete_object(&self.key(id))).map_err(|error| failed("delete", id, error))
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()> {
        let wrong = |error| failed("list", prefix, error);
        self.runtime.block_on(async {
            let key = self.key(prefix);
            let mut objects = self.store.list_prefix(&key).await.map_err(wrong)?;
            while let Some(object) = objects.try_next().await.map_err(wrong)? {
                // What lies in folders below is not of this repository.
                if let Some(id) = object.key.strip_prefix(&self.folder).filter(|id| !id.contains('/')) {
                    visit(BlobInfo { id: id.to_owned(), size: object.size, modified: object.modified })?;
                }
            }
            Ok(())
        })
    }
}

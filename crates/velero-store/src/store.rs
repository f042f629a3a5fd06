//! The trait every object store satisfies, built in or behind a plugin.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use crate::{Error, Result};

/// Bytes that arrive piece by piece; an error ends the stream.
pub type ByteStream = BoxStream<'static, io::Result<Bytes>>;

/// What a list says about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The full key.
    pub key: String,
    /// How many bytes it has.
    pub size: u64,
    /// When it was written, by the clock of the store.
    pub modified: SystemTime,
}

/// A shared object store.
pub type ObjectStoreHandle = Arc<dyn ObjectStore>;

/// One bucket of an object store.
///
/// Keys are full keys, the location's prefix included. A `folder` is empty or ends in a slash.
#[async_trait]
pub trait ObjectStore: Send + Sync + 'static {
    /// Stores an object from a stream and replaces one that exists.
    ///
    /// Either all bytes are stored as sent or an error is returned. A stream that fails leaves no partial object. After
    /// [`Error::Damaged`] it is not known what the store has: nothing, the object as it was, or a damaged one.
    async fn put_stream(&self, key: &str, content: ByteStream) -> Result<()>;

    /// Stores an object from memory and replaces one that exists.
    async fn put(&self, key: &str, content: Bytes) -> Result<()> {
        self.put_stream(key, stream::once(async { Ok(content) }).boxed()).await
    }

    /// Stores an object from memory whose readers know its hash, and replaces one that exists.
    ///
    /// What was sent is not hashed or read back to compare, as it is for other objects: that would double the work, or the
    /// traffic, of every volume. Its length is compared, and stores that check what is signed refuse damaged bytes.
    async fn put_self_proving(&self, key: &str, content: Bytes) -> Result<()> {
        self.put(key, content).await
    }

    /// Stores a small object unless there is one of this key already; whether it was stored.
    ///
    /// A store that cannot decide this on its side is written to, and looked at after [`SETTLING`]: of several that write
    /// within that time all see the same winner. One that needs longer from its look to its write is not protected.
    async fn put_if_absent(&self, key: &str, content: Bytes) -> Result<bool> {
        put_and_look(self, key, content).await
    }

    /// Reads an object as a stream; [`Error::NotFound`] when it does not exist.
    async fn get_stream(&self, key: &str) -> Result<ByteStream>;

    /// Reads a part of an object: fewer bytes than asked for only where the object ends.
    ///
    /// A store that has no ranges reads the object from its start.
    async fn get_range(&self, key: &str, offset: u64, length: usize) -> Result<Bytes> {
        let failed = |source: io::Error| Error::Request { action: "read", key: key.to_owned(), source: source.into() };
        let mut stream = self.get_stream(key).await?;
        let (mut skip, mut content) = (offset, BytesMut::new());
        while content.len() < length
            && let Some(mut chunk) = stream.try_next().await.map_err(failed)?
        {
            let before = skip.min(chunk.len() as u64);
            skip -= before;
            // It is no longer than the chunk.
            let _ = chunk.split_to(before as usize);
            chunk.truncate(length - content.len());
            content.extend_from_slice(&chunk);
        }
        Ok(content.freeze())
    }

    /// All objects whose keys begin with a prefix, which need not end at a slash, in no certain order.
    async fn list_prefix(&self, prefix: &str) -> Result<BoxStream<'_, Result<ObjectInfo>>> {
        let reason = format!("{prefix:?} was to be listed with sizes and times, which this store does not tell");
        Err(Error::NotSupported { what: "a list with sizes and times", reason })
    }

    /// Whether an object exists.
    async fn exists(&self, key: &str) -> Result<bool>;

    /// The folders directly below a folder, as full keys that end in a slash, in order.
    async fn list_common_prefixes(&self, folder: &str) -> Result<Vec<String>>;

    /// The keys of all objects below a folder, at any depth, in order.
    async fn list_objects(&self, folder: &str) -> Result<Vec<String>>;

    /// Removes an object; one that does not exist is no error.
    async fn delete_object(&self, key: &str) -> Result<()>;

    /// Removes several objects, trying all of them before the first error is returned.
    async fn delete_objects(&self, keys: &[String]) -> Result<()> {
        let mut outcome = Ok(());
        for key in keys {
            outcome = outcome.and(self.delete_object(key).await);
        }
        outcome
    }

    /// A URL from which anyone may read the object until its lifetime ends.
    async fn signed_url(&self, key: &str, lifetime: Duration) -> Result<String>;
}

/// How long a store that knows no conditions is given until it is looked at who was last to write.
pub const SETTLING: Duration = Duration::from_secs(2);

/// Stores an object where there seems to be none, and looks whether it is still there when others had time to do the same.
pub(crate) async fn put_and_look<S: ObjectStore + ?Sized>(store: &S, key: &str, content: Bytes) -> Result<bool> {
    if store.exists(key).await? {
        return Ok(false);
    }
    match store.put(key, content.clone()).await {
        // Another may have written in between: the look tells whose it is.
        Ok(()) | Err(Error::Damaged { .. }) => settles(store, key, &content).await,
        Err(error) => Err(error),
    }
}

/// Whether an object is what was written, once others had time to write theirs.
pub(crate) async fn settles<S: ObjectStore + ?Sized>(store: &S, key: &str, content: &Bytes) -> Result<bool> {
    tokio::time::sleep(SETTLING).await;
    match store.get_stream(key).await {
        Err(error) if error.is_not_found() => Ok(false),
        found => Ok(read_all(key, found?, content.len().max(1 << 20)).await? == content),
    }
}

/// Reads a whole stream into memory, refusing more than `limit` bytes.
pub async fn read_all(key: &str, mut stream: ByteStream, limit: usize) -> Result<Bytes> {
    let failed = |source: io::Error| Error::Request { action: "read", key: key.to_owned(), source: source.into() };
    let mut content = BytesMut::new();
    while let Some(chunk) = stream.try_next().await.map_err(failed)? {
        if content.len() + chunk.len() > limit {
            return Err(failed(io::Error::other(format!("it has more than the {limit} bytes allowed"))));
        }
        content.extend_from_slice(&chunk);
    }
    Ok(content.freeze())
}

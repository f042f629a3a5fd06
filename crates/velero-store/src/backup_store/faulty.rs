//! A store that misbehaves, for tests.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::BytesMut;
use futures::stream::{self, StreamExt};

use crate::{ByteStream, Error, ObjectStore, ObjectStoreHandle, Result, read_all};

const LARGEST: usize = 1 << 20;

/// What a store does to uploads or reads, besides what it should.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Misdeed {
    /// It keeps what it had and says that the new bytes did not arrive.
    KeepsTheOld,
    /// It keeps half of the new.
    Truncates,
    /// It takes all, and the answer is lost.
    LosesTheAnswer,
    /// What is read has a wrong byte, another each time.
    DamagesReads,
}

/// A store that misbehaves at some of its uploads or reads.
pub(super) struct Faulty {
    store: ObjectStoreHandle,
    misdeed: Misdeed,
    at: Range<usize>,
    uploads: AtomicUsize,
    reads: AtomicUsize,
}

impl Faulty {
    pub(super) fn new(store: ObjectStoreHandle, misdeed: Misdeed, at: Range<usize>) -> Self {
        Self { store, misdeed, at, uploads: AtomicUsize::new(0), reads: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_stream(&self, key: &str, content: ByteStream) -> Result<()> {
        let upload = self.uploads.fetch_add(1, Ordering::SeqCst);
        if self.misdeed == Misdeed::DamagesReads || !self.at.contains(&upload) {
            return self.store.put_stream(key, content).await;
        }
        let content = read_all(key, content, LARGEST).await?;
        let kept = match self.misdeed {
            Misdeed::KeepsTheOld | Misdeed::DamagesReads => None,
            Misdeed::Truncates => Some(content.slice(..content.len() / 2)),
            Misdeed::LosesTheAnswer => Some(content),
        };
        if let Some(kept) = kept {
            self.store.put(key, kept).await?;
        }
        Err(Error::Damaged { key: key.to_owned(), detail: format!("{:?}", self.misdeed) })
    }

    async fn get_stream(&self, key: &str) -> Result<ByteStream> {
        let found = self.store.get_stream(key).await?;
        let read = self.reads.fetch_add(1, Ordering::SeqCst);
        if self.misdeed != Misdeed::DamagesReads || !self.at.contains(&read) {
            return Ok(found);
        }
        let mut content = BytesMut::from(&read_all(key, found, LARGEST).await?[..]);
        // In the checksum, which is at the end: the bytes before it may say the same when they are wrong. Another bit each time, or
        // what was damaged twice would be whole.
        let place = content.len() - 5 - read % 3;
        content[place] ^= 1 << (read % 8);
        Ok(stream::once(async { Ok(content.freeze()) }).boxed())
    }

    async fn exists(&self, key: &str) -> Result<bool> {
        self.store.exists(key).await
    }

    async fn list_common_prefixes(&self, folder: &str) -> Result<Vec<String>> {
        self.store.list_common_prefixes(folder).await
    }

    async fn list_objects(&self, folder: &str) -> Result<Vec<String>> {
        self.store.list_objects(folder).await
    }

    async fn delete_object(&self, key: &str) -> Result<()> {
        self.store.delete_object(key).await
    }

    async fn signed_url(&self, key: &str, lifetime: Duration) -> Result<String> {
        self.store.signed_url(key, lifetime).await
    }
}

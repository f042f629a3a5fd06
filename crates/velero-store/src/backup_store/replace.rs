//! Putting another archive in the place of the only one.
//!
//! The new one is stored beside the old, verified, and only then put in its place; it goes when it has been verified there
//! too. So at any time one whole archive exists, whatever the store does. What was left off is taken up again.

use velero_archive::{ArchiveReader, BackupFile, Error as ArchiveError};

use super::BackupStore;
use crate::{ByteStream, Result, blocking_reader};

impl BackupStore {
    /// Stores another archive in the place of the one that a backup has. After an error
    /// [`Self::finish_replacement`] is to be called before the archive is used.
    pub async fn replace_contents(&self, backup: &str, contents: ByteStream) -> Result<()> {
        let next = self.keys.backup_file(backup, BackupFile::NextContents)?;
        self.store.put_stream(&next, contents).await?;
        self.put_in_place(backup, &next).await
    }

    /// Ends a replacement that was begun: an archive that waits for its place takes it if it is whole.
    pub async fn finish_replacement(&self, backup: &str) -> Result<()> {
        let next = self.keys.backup_file(backup, BackupFile::NextContents)?;
        let waiting = match self.store.get_stream(&next).await {
            Err(error) if error.is_not_found() => return Ok(()),
            waiting => waiting?,
        };
        if is_whole(waiting).await {
            return self.put_in_place(backup, &next).await;
        }
        // If neither is whole both are kept: whoever reads the archive says what is wrong.
        if is_whole(self.get_contents(backup).await?).await {
            self.store.delete_object(&next).await?;
        }
        Ok(())
    }

    async fn put_in_place(&self, backup: &str, next: &str) -> Result<()> {
        let verified = self.store.get_stream(next).await?;
        self.put_contents(backup, verified).await?;
        self.store.delete_object(next).await
    }
}

/// Whether an archive can be read to its end.
async fn is_whole(archive: ByteStream) -> bool {
    let reader = blocking_reader(archive);
    let look = move || ArchiveReader::new(reader).for_each::<ArchiveError, _>(|_| Ok(())).is_ok();
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use bytes::Bytes;
    use futures::stream::{self, StreamExt};
    use velero_archive::ArchiveWriter;

    use super::*;
    use crate::{Error, ObjectStore, ObjectStoreHandle, StoreConfig, read_all};

    /// What a store does to uploads, besides what it should.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Misdeed {
        /// It keeps what it had and says that the new bytes did not arrive.
        KeepsTheOld,
        /// It keeps half of the new.
        Truncates,
        /// It takes all, and the answer is lost.
        LosesTheAnswer,
    }

    /// A directory that misbehaves at one upload.
    struct Faulty {
        store: ObjectStoreHandle,
        misdeed: Misdeed,
        at: usize,
        uploads: AtomicUsize,
    }

    #[async_trait]
    impl ObjectStore for Faulty {
        async fn put_stream(&self, key: &str, content: ByteStream) -> Result<()> {
            if self.uploads.fetch_add(1, Ordering::SeqCst) != self.at {
                return self.store.put_stream(key, content).await;
            }
            let content = read_all(key, content, 1 << 20).await?;
            let kept = match self.misdeed {
                Misdeed::KeepsTheOld => None,
                Misdeed::Truncates => Some(content.slice(..content.len() / 2)),
                Misdeed::LosesTheAnswer => Some(content),
            };
            if let Some(kept) = kept {
                self.store.put(key, kept).await?;
            }
            Err(Error::Damaged { key: key.to_owned(), detail: format!("{:?}", self.misdeed) })
        }

        async fn get_stream(&self, key: &str) -> Result<ByteStream> {
            self.store.get_stream(key).await
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

    fn archive(body: &str) -> Bytes {
        let mut writer = ArchiveWriter::new(Vec::new(), 1).unwrap();
        writer.append("resources/configmaps/cluster/a.json", body.as_bytes()).unwrap();
        writer.finish().unwrap().into()
    }

    fn bytes(content: &Bytes) -> ByteStream {
        let content = content.clone();
        stream::once(async { Ok(content) }).boxed()
    }

    async fn held(store: &BackupStore) -> Bytes {
        read_all("b1", store.get_contents("b1").await.unwrap(), 1 << 20).await.unwrap()
    }

    #[tokio::test]
    async fn one_whole_archive_is_there_whatever_the_store_does_to_the_new_one() {
        let (old, new) = (archive("old"), archive("new"));
        for misdeed in [Misdeed::KeepsTheOld, Misdeed::Truncates, Misdeed::LosesTheAnswer] {
            for at in [0, 1] {
                let directory = tempfile::tempdir().unwrap();
                let config = StoreConfig::new("fs", directory.path().to_str().unwrap());
                let sound = config.open().await.unwrap();
                BackupStore::new(sound.clone(), "").put_contents("b1", bytes(&old)).await.unwrap();
                let faulty = Faulty { store: sound.clone(), misdeed, at, uploads: AtomicUsize::new(0) };
                let store = BackupStore::new(Arc::new(faulty), "");
                store.replace_contents("b1", bytes(&new)).await.unwrap_err();
                // The next try begins with what the last one left.
                store.finish_replacement("b1").await.unwrap();
                let found = held(&store).await;
                assert!(found == old || found == new, "{misdeed:?} at upload {at}");
                store.replace_contents("b1", bytes(&new)).await.unwrap();
                assert_eq!(held(&store).await, new);
                let left = sound.list_objects("backups/b1/").await.unwrap();
                assert_eq!(left, ["backups/b1/b1.tar.gz"], "{misdeed:?} at upload {at}");
            }
        }
    }
}

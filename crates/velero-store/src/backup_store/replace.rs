//! Putting another archive in the place of the only one.
//!
//! The new one is stored beside the old, verified, and only then put in its place; it goes when it has been verified there
//! too. So at any time one whole archive exists, whatever the store does. What was left off is taken up again.

use std::time::Duration;

use velero_archive::{ArchiveReader, BackupFile, Error as ArchiveError};

use super::BackupStore;
use crate::{ByteStream, Error, Result, blocking_reader};

/// The pauses before two archives of which neither seems to be whole are looked at again: what is read may be damaged on the way.
const LOOK_AGAIN_AFTER: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(8),
];

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
        for pause in LOOK_AGAIN_AFTER {
            let waiting = match self.store.get_stream(&next).await {
                Err(error) if error.is_not_found() => return Ok(()),
                waiting => waiting?,
            };
            if is_whole(waiting).await {
                return self.put_in_place(backup, &next).await;
            }
            if is_whole(self.get_contents(backup).await?).await {
                return self.store.delete_object(&next).await;
            }
            tokio::time::sleep(pause).await;
        }
        // If neither is whole both are kept: whoever reads the archive says what is wrong.
        Ok(())
    }

    async fn put_in_place(&self, backup: &str, next: &str) -> Result<()> {
        let verified = self.store.get_stream(next).await?;
        self.put_contents(backup, verified).await?;
        // The upload is compared with what was read, and that may have been damaged on the way here.
        if !is_whole(self.get_contents(backup).await?).await {
            let key = self.keys.backup_file(backup, BackupFile::Contents)?;
            return Err(Error::Damaged { key, detail: "it cannot be read to its end".to_owned() });
        }
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

    use bytes::Bytes;
    use futures::stream::{self, StreamExt};
    use velero_archive::ArchiveWriter;

    use super::*;
    use crate::backup_store::faulty::{Faulty, Misdeed};
    use crate::{StoreConfig, read_all};

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
                let faulty = Faulty::new(sound.clone(), misdeed, at..at + 1);
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

    #[tokio::test(start_paused = true)]
    async fn an_archive_that_was_damaged_on_its_way_into_its_place_is_put_there_again() {
        let (old, new) = (archive("old"), archive("new"));
        // The reads: what is put in place, how it lies there; what waits, what is in its place, and so on.
        for damaged in [0..1, 0..2, 0..4, 0..7, 1..3] {
            let directory = tempfile::tempdir().unwrap();
            let sound = StoreConfig::new("fs", directory.path().to_str().unwrap()).open().await.unwrap();
            BackupStore::new(sound.clone(), "").put_contents("b1", bytes(&old)).await.unwrap();
            let store =
                BackupStore::new(Arc::new(Faulty::new(sound.clone(), Misdeed::DamagesReads, damaged.clone())), "");
            store.replace_contents("b1", bytes(&new)).await.unwrap_err();
            let mut tries = 0;
            while store.finish_replacement("b1").await.is_err() {
                tries += 1;
                assert!(tries < 5, "{damaged:?}");
            }
            assert_eq!(held(&BackupStore::new(sound.clone(), "")).await, new, "{damaged:?}");
            assert_eq!(sound.list_objects("backups/b1/").await.unwrap(), ["backups/b1/b1.tar.gz"], "{damaged:?}");
        }
    }
}

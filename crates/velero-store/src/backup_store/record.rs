//! Reading compressed records. Each has a checksum of its own, so what was damaged on the way is known, and is neither taken
//! for what the store holds nor written back to it.

use std::time::Duration;

use bytes::Bytes;
use velero_archive::{Error as ArchiveError, gzjson};

use super::BackupStore;
use crate::{Error, Result, read_all};

/// The pauses before a record that came damaged is read again.
const READ_AGAIN_AFTER: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// How much of a record is looked through, unpacked.
const LOOKED_THROUGH: u64 = 1 << 30;

impl BackupStore {
    /// Reads a record as it is stored; `None` when there is none. One that comes damaged is read again: the store holds it so if
    /// it comes so twice.
    pub(super) async fn read_optional(&self, key: &str, limit: usize) -> Result<Option<Bytes>> {
        let Some(mut content) = self.read_once(key, limit).await? else { return Ok(None) };
        for pause in READ_AGAIN_AFTER {
            if is_whole(key, &content).await {
                return Ok(Some(content));
            }
            tokio::time::sleep(pause).await;
            let Some(again) = self.read_once(key, limit).await? else { return Ok(None) };
            if again == content {
                return Ok(Some(content));
            }
            content = again;
        }
        if is_whole(key, &content).await { Ok(Some(content)) } else { Err(Error::Unsteady { key: key.to_owned() }) }
    }

    async fn read_once(&self, key: &str, limit: usize) -> Result<Option<Bytes>> {
        match self.store.get_stream(key).await {
            Ok(stream) => read_all(key, stream, limit).await.map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a record can be unpacked; one that is not compressed cannot be asked.
async fn is_whole(key: &str, content: &Bytes) -> bool {
    if !key.ends_with(".gz") {
        return true;
    }
    let content = content.clone();
    let looked = tokio::task::spawn_blocking(move || gzjson::check(&content, LOOKED_THROUGH));
    matches!(looked.await, Ok(Ok(()) | Err(ArchiveError::TooLarge { .. })))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use velero_archive::BackupFile;

    use super::*;
    use crate::StoreConfig;
    use crate::backup_store::faulty::{Faulty, Misdeed};

    #[tokio::test(start_paused = true)]
    async fn a_record_that_was_damaged_on_the_way_is_read_again_and_never_believed() {
        let directory = tempfile::tempdir().unwrap();
        let sound = StoreConfig::new("fs", directory.path().to_str().unwrap()).open().await.unwrap();
        let record = Bytes::from(gzjson::encode(&["an error of a restore"]).unwrap());
        BackupStore::new(sound.clone(), "").put_file("b1", BackupFile::Results, record.clone()).await.unwrap();
        for (damaged, expected) in [(0..0, true), (0..1, true), (0..3, true), (0..4, false)] {
            let faulty = Faulty::new(sound.clone(), Misdeed::DamagesReads, damaged.clone());
            let read = BackupStore::new(Arc::new(faulty), "").get_file("b1", BackupFile::Results).await;
            match expected {
                true => assert_eq!(read.unwrap().unwrap(), record, "{damaged:?}"),
                false => assert!(matches!(read, Err(Error::Unsteady { .. })), "{damaged:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_that_is_stored_damaged_is_given_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let store = StoreConfig::new("fs", directory.path().to_str().unwrap()).open().await.unwrap();
        let store = BackupStore::new(store, "");
        let record = Bytes::from_static(b"no gzip at all");
        store.put_file("b1", BackupFile::Results, record.clone()).await.unwrap();
        assert_eq!(store.get_file("b1", BackupFile::Results).await.unwrap(), Some(record));
    }
}

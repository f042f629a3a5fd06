//! Whose backup is being written: a small object that is there before any other file of a backup.
//!
//! Two clusters may share a bucket and a prefix, and make backups of the same name at the same time. Who creates the
//! reservation writes the files; whoever comes second finds it and leaves them alone. Velero takes no notice of it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use velero_archive::BackupFile;

use super::{BackupStore, LARGEST_METADATA};
use crate::{Error, Result};

/// How often a reservation is tried while it comes and goes, or the store does not answer.
const TRIES: usize = 3;

/// Whose backup is being written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupReservation {
    /// The UID of the Backup.
    pub uid: String,
    /// The cluster: the UID of its namespace `kube-system`.
    pub cluster: String,
    /// The namespace of the Backup.
    pub namespace: String,
    /// The server that writes it.
    pub holder: String,
    /// When it was reserved, as in RFC 3339.
    pub reserved_at: String,
}

impl BackupStore {
    /// Reserves the name of a backup; gives the reservation of another if there is one.
    pub async fn reserve(&self, backup: &str, reservation: &BackupReservation) -> Result<Option<BackupReservation>> {
        let key = self.keys.backup_file(backup, BackupFile::Reservation)?;
        let document = Bytes::from(serde_json::to_vec_pretty(reservation).map_err(velero_archive::Error::Json)?);
        let mut outcome = Err(Error::AlreadyExists { key: key.clone() });
        for _ in 0..TRIES {
            outcome = self.store.put_if_absent(&key, document.clone()).await;
            if let Ok(true) = outcome {
                if self.read_optional(&key, LARGEST_METADATA).await? == Some(document.clone()) {
                    return Ok(None);
                }
                // It is ours, and damaged.
                self.store.delete_object(&key).await?;
                outcome = Err(Error::Damaged { key: key.clone(), detail: "it is not what was sent".to_owned() });
                continue;
            }
            // Also when no answer came: it may be ours.
            match self.reservation(backup).await? {
                Some(found) if found.uid == reservation.uid => return Ok(None),
                Some(found) => return Ok(Some(found)),
                None => {}
            }
        }
        outcome.and(Err(Error::AlreadyExists { key }))
    }

    /// The reservation of a backup that is being written, or was when its server ended.
    pub async fn reservation(&self, backup: &str) -> Result<Option<BackupReservation>> {
        let key = self.keys.backup_file(backup, BackupFile::Reservation)?;
        let Some(content) = self.read_optional(&key, LARGEST_METADATA).await? else { return Ok(None) };
        let read = serde_json::from_slice(&content);
        read.map(Some).map_err(|source| Error::Decode { key, source: source.into() })
    }

    /// The UID that the files of a backup carry; `None` when nothing says whose they are.
    pub async fn owner(&self, backup: &str) -> Result<Option<String>> {
        if let Some(reservation) = self.reservation(backup).await? {
            return Ok(Some(reservation.uid));
        }
        match self.get_metadata(backup).await {
            Ok(stored) => Ok(stored.metadata.uid),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the files of a backup but its reservation, unless they carry the UID of another.
    pub async fn clear(&self, backup: &str, uid: &str) -> Result<()> {
        self.refuse_foreign(backup, uid).await?;
        self.delete_all_but_reservation(backup).await
    }

    /// Gives the name of a backup back; the reservation of another is left alone.
    pub async fn release(&self, backup: &str, uid: &str) -> Result<()> {
        match self.reservation(backup).await? {
            Some(reservation) if reservation.uid == uid => {
                self.store.delete_object(&self.keys.backup_file(backup, BackupFile::Reservation)?).await
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn refuse_foreign(&self, backup: &str, uid: &str) -> Result<()> {
        match self.owner(backup).await? {
            Some(owner) if owner != uid => Err(Error::Foreign { folder: self.keys.backup_folder(backup)?, owner }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use velero_api::v1::Backup;
    use velero_archive::BackupFile;

    use super::*;
    use crate::store::put_and_look;
    use crate::{ObjectStore, StoreConfig};

    async fn location() -> (tempfile::TempDir, BackupStore) {
        let directory = tempfile::tempdir().unwrap();
        let config = StoreConfig::new("fs", directory.path().to_str().unwrap());
        (directory, BackupStore::new(config.open().await.unwrap(), "p"))
    }

    fn reservation(uid: &str) -> BackupReservation {
        BackupReservation { uid: uid.to_owned(), ..BackupReservation::default() }
    }

    fn backup(uid: &str) -> Backup {
        let mut backup = Backup::new("velero", "b1", Default::default());
        backup.metadata.uid = Some(uid.to_owned());
        backup
    }

    #[tokio::test]
    async fn the_first_to_reserve_a_name_has_it_until_its_metadata_are_stored() {
        let (directory, store) = location().await;
        assert_eq!(store.reserve("b1", &reservation("a")).await.unwrap(), None);
        assert_eq!(store.reserve("b1", &reservation("a")).await.unwrap(), None, "the answer may have been lost");
        assert_eq!(store.reserve("b1", &reservation("b")).await.unwrap(), Some(reservation("a")));
        assert!(!store.backup_exists("b1").await.unwrap());
        assert!(matches!(store.put_metadata(&backup("b")).await, Err(Error::Foreign { .. })));
        store.put_metadata(&backup("a")).await.unwrap();
        let left: Vec<_> = std::fs::read_dir(directory.path().join("p/backups/b1")).unwrap().collect();
        assert_eq!(left.len(), 1, "a complete backup needs no reservation: {left:?}");
    }

    #[tokio::test]
    async fn files_that_carry_another_uid_are_neither_removed_nor_released() {
        let (_directory, store) = location().await;
        for is_complete in [false, true] {
            store.reserve("b1", &reservation("a")).await.unwrap();
            store.put_file("b1", BackupFile::Log, Bytes::from_static(b"log")).await.unwrap();
            if is_complete {
                store.put_metadata(&backup("a")).await.unwrap();
            }
            let refused = store.clear("b1", "b").await.unwrap_err();
            assert!(refused.to_string().contains("another backup of this name (UID a)"), "{refused}");
            store.release("b1", "b").await.unwrap();
            assert_eq!(store.owner("b1").await.unwrap().as_deref(), Some("a"));
            assert!(store.get_file("b1", BackupFile::Log).await.unwrap().is_some());
            store.clear("b1", "a").await.unwrap();
            assert!(store.get_file("b1", BackupFile::Log).await.unwrap().is_none());
            let left = (!is_complete).then(|| reservation("a"));
            assert_eq!(store.reservation("b1").await.unwrap(), left, "the reservation goes last");
            store.release("b1", "a").await.unwrap();
            assert_eq!(store.owner("b1").await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn of_many_at_the_same_time_one_has_the_name() {
        let (_directory, store) = location().await;
        let uids: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let tries = uids.iter().map(|uid| async { store.reserve("b1", &reservation(uid)).await.unwrap().is_none() });
        let winners = futures::future::join_all(tries).await.into_iter().filter(|won| *won).count();
        assert_eq!(winners, 1);
    }

    #[tokio::test]
    async fn a_store_that_knows_no_conditions_shows_all_the_same_winner() {
        let (_directory, store) = location().await;
        let store: Arc<dyn ObjectStore> = store.object_store().clone();
        let tries = (0..8u8).map(|number| put_and_look(&*store, "k", Bytes::from(vec![number])));
        let won = futures::future::join_all(tries).await.into_iter().filter(|won| *won.as_ref().unwrap()).count();
        assert_eq!(won, 1);
        assert!(!put_and_look(&*store, "k", Bytes::from_static(b"late")).await.unwrap());
    }
}

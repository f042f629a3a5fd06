//! The files of restores.

use bytes::Bytes;
use serde::Serialize;
use velero_archive::{RestoreFile, gzjson};

use super::{BackupStore, LARGEST_FILE, LARGEST_LOG};
use crate::Result;

impl BackupStore {
    /// Writes one file of a restore.
    pub async fn put_restore_file(&self, restore: &str, file: RestoreFile, content: Bytes) -> Result<()> {
        self.store.put(&self.keys.restore_file(restore, file)?, content).await
    }

    /// Writes a value as one compressed JSON file of a restore.
    pub async fn put_restore_json<T: Serialize + ?Sized>(
        &self,
        restore: &str,
        file: RestoreFile,
        value: &T,
    ) -> Result<()> {
        self.put_restore_file(restore, file, gzjson::encode(value)?.into()).await
    }

    /// Reads one file of a restore as it is stored; `None` when there is none.
    pub async fn get_restore_file(&self, restore: &str, file: RestoreFile) -> Result<Option<Bytes>> {
        let limit = if file == RestoreFile::Log { LARGEST_LOG } else { LARGEST_FILE };
        self.read_optional(&self.keys.restore_file(restore, file)?, limit).await
    }

    /// Removes everything below the restore's folder and nothing else.
    pub async fn delete_restore(&self, restore: &str) -> Result<()> {
        let known = RestoreFile::ALL.iter().map(|file| self.keys.restore_file(restore, *file));
        let known = known.collect::<Result<Vec<String>, _>>()?;
        self.delete_folder(&self.keys.restore_folder(restore)?, known, |_| true).await
    }
}

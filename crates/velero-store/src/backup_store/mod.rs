//! The files of backups and restores in a location.
//!
//! A backup exists once its metadata does. It is therefore written last, once, and removed first. Until then a
//! reservation says whose backup is being written.

mod download;
#[cfg(test)]
mod faulty;
mod record;
mod replace;
mod reports;
mod reservation;
mod restore;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use futures::future::try_join_all;
use serde::de::DeserializeOwned;
use velero_api::metadata;
use velero_api::v1::Backup;
use velero_archive::keys::TOP_LEVEL_FOLDERS;
use velero_archive::{BackupFile, ObjectKeys, gzjson};

pub use download::DOWNLOAD_URL_LIFETIME;
pub use reservation::BackupReservation;

use crate::{ByteStream, Error, ObjectStoreHandle, Result, read_all};

/// The largest record read into memory, compressed.
const LARGEST_FILE: usize = 64 << 20;
/// The largest log, compressed: that of a million items must not be too large to be continued.
const LARGEST_LOG: usize = 512 << 20;
/// The largest metadata: an object that an API server has held. It is read without anybody asking for it, so whoever
/// writes to the bucket must not be able to fill the memory with it.
const LARGEST_METADATA: usize = 16 << 20;

/// The files of a backup beside its metadata and its reservation, as they are written today.
const BESIDE_METADATA: [BackupFile; 9] = [
    BackupFile::Contents,
    BackupFile::NextContents,
    BackupFile::Log,
    BackupFile::PodVolumeBackups,
    BackupFile::VolumeSnapshots,
    BackupFile::ItemOperations,
    BackupFile::ResourceList,
    BackupFile::Results,
    BackupFile::VolumeInfos,
];

/// A location seen as a set of backups and restores.
#[derive(Clone)]
pub struct BackupStore {
    store: ObjectStoreHandle,
    keys: ObjectKeys,
}

impl BackupStore {
    /// The backups below `prefix` of a store.
    pub fn new(store: ObjectStoreHandle, prefix: &str) -> Self {
        Self { store, keys: ObjectKeys::new(prefix) }
    }

    /// The object store underneath.
    pub fn object_store(&self) -> &ObjectStoreHandle {
        &self.store
    }

    /// The object keys of this location.
    pub fn keys(&self) -> &ObjectKeys {
        &self.keys
    }

    /// Checks that the location can be read and holds nothing but what Velero puts there.
    pub async fn is_valid(&self) -> Result<()> {
        let found = self.store.list_common_prefixes(self.keys.root()).await?;
        let names = found.iter().map(|folder| folder_name(self.keys.root(), folder));
        let foreign: Vec<_> = names.filter(|name| !TOP_LEVEL_FOLDERS.contains(name)).map(str::to_owned).collect();
        if foreign.is_empty() { Ok(()) } else { Err(Error::ForeignFolders { folders: foreign }) }
    }

    /// The names of all folders below `backups/`, those without metadata included.
    pub async fn list_backups(&self) -> Result<Vec<String>> {
        let folder = self.keys.backups_folder();
        let found = self.store.list_common_prefixes(&folder).await?;
        Ok(found.iter().map(|prefix| folder_name(&folder, prefix).to_owned()).collect())
    }

    /// Whether a backup's metadata exists.
    pub async fn backup_exists(&self, backup: &str) -> Result<bool> {
        self.store.exists(&self.keys.backup_file(backup, BackupFile::Metadata)?).await
    }

    /// Streams the tarball of a backup into the store.
    pub async fn put_contents(&self, backup: &str, contents: ByteStream) -> Result<()> {
        self.store.put_stream(&self.keys.backup_file(backup, BackupFile::Contents)?, contents).await
    }

    /// Writes one file of a backup; the metadata has its own method.
    pub async fn put_file(&self, backup: &str, file: BackupFile, content: Bytes) -> Result<()> {
        let key = self.keys.backup_file(backup, file)?;
        if file == BackupFile::Metadata {
            let problem = "the metadata completes a backup and is written by put_metadata".to_owned();
            return Err(Error::InvalidKey { key, problem });
        }
        self.store.put(&key, content).await
    }

    /// Writes a value as one compressed JSON file of a backup.
    pub async fn put_json<T: serde::Serialize + ?Sized>(
        &self,
        backup: &str,
        file: BackupFile,
        value: &T,
    ) -> Result<()> {
        self.put_file(backup, file, gzjson::encode(value)?.into()).await
    }

    /// Writes the metadata, which makes the backup exist; to be called last, and refused a second time. The
    /// reservation has served its purpose then; that of another backup is respected. Tells whether the name was given back: if
    /// not, that is owed ([`release`](Self::release)).
    pub async fn put_metadata(&self, backup: &Backup) -> Result<bool> {
        let name = metadata::name(backup);
        let uid = metadata::uid(backup);
        let key = self.keys.backup_file(name, BackupFile::Metadata)?;
        if self.store.exists(&key).await? {
            return Err(Error::AlreadyExists { key });
        }
        self.refuse_foreign(name, uid).await?;
        let document = serde_json::to_vec_pretty(backup).map_err(velero_archive::Error::Json)?;
        let written = self.store.put(&key, document.into()).await;
        if let Err(Error::Damaged { .. }) = &written {
            // There were none before, and half of them must not make a backup exist.
            self.store.delete_object(&key).await?;
        }
        written?;
        let released = self.release(name, uid).await;
        if let Err(error) = &released {
            tracing::warn!(backup = name, %error, "The reservation of a complete backup is left in its folder for now");
        }
        Ok(released.is_ok())
    }

    /// Reads the metadata of a backup.
    pub async fn get_metadata(&self, backup: &str) -> Result<Backup> {
        let key = self.keys.backup_file(backup, BackupFile::Metadata)?;
        let content = read_all(&key, self.store.get_stream(&key).await?, LARGEST_METADATA).await?;
        serde_json::from_slice(&content).map_err(|source| Error::Decode { key, source: source.into() })
    }

    /// Reads the tarball of a backup as a stream.
    pub async fn get_contents(&self, backup: &str) -> Result<ByteStream> {
        self.store.get_stream(&self.keys.backup_file(backup, BackupFile::Contents)?).await
    }

    /// Reads one file of a backup as it is stored; `None` when there is none.
    pub async fn get_file(&self, backup: &str, file: BackupFile) -> Result<Option<Bytes>> {
        let limit = if file == BackupFile::Log { LARGEST_LOG } else { LARGEST_FILE };
        self.read_optional(&self.keys.backup_file(backup, file)?, limit).await
    }

    /// Reads one compressed JSON file of a backup; the default value when there is none or it holds `null`.
    pub async fn get_json<T: DeserializeOwned + Default>(&self, backup: &str, file: BackupFile) -> Result<T> {
        let key = self.keys.backup_file(backup, file)?;
        let Some(content) = self.read_optional(&key, LARGEST_FILE).await? else {
            return Ok(T::default());
        };
        let decoded = gzjson::decode::<Option<T>>(&content, gzjson::DEFAULT_LIMIT);
        let decoded = decoded.map_err(|source| Error::Decode { key, source })?;
        Ok(decoded.unwrap_or_default())
    }

    /// Removes everything below the backup's folder and nothing else.
    ///
    /// The metadata goes first: a deletion that stops halfway leaves an orphan, never a backup that looks whole. A
    /// reservation goes last, so that nobody takes the name before.
    pub async fn delete_backup(&self, backup: &str) -> Result<()> {
        self.delete_all_but_reservation(backup).await?;
        self.store.delete_object(&self.keys.backup_file(backup, BackupFile::Reservation)?).await
    }

    async fn delete_all_but_reservation(&self, backup: &str) -> Result<()> {
        self.store.delete_object(&self.keys.backup_file(backup, BackupFile::Metadata)?).await?;
        let reservation = self.keys.backup_file(backup, BackupFile::Reservation)?;
        let known = BESIDE_METADATA.iter().map(|file| self.keys.backup_file(backup, *file));
        let known = known.collect::<Result<Vec<String>, _>>()?;
        self.delete_folder(&self.keys.backup_folder(backup)?, known, |key| key != reservation).await
    }

    /// Removes what lies in a folder. A list may be that of before, so it is looked for the files that are known too.
    async fn delete_folder(&self, folder: &str, known: Vec<String>, goes: impl Fn(&str) -> bool) -> Result<()> {
        let mut found = self.store.list_objects(folder).await?;
        // A store that lists by prefix in its own way must not make us delete what belongs to another.
        found.retain(|key| key.starts_with(folder) && goes(key));
        let unlisted: Vec<String> = known.into_iter().filter(|key| !found.contains(key)).collect();
        let are_there = try_join_all(unlisted.iter().map(|key| self.store.exists(key))).await?;
        found.extend(unlisted.into_iter().zip(are_there).filter_map(|(key, is_there)| is_there.then_some(key)));
        self.store.delete_objects(&found).await
    }
}

/// The name of a folder from its full prefix.
fn folder_name<'a>(parent: &str, folder: &'a str) -> &'a str {
    folder.strip_prefix(parent).unwrap_or(folder).trim_end_matches('/')
}

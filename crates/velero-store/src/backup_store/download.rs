//! The files a DownloadRequest can ask for.

use std::time::Duration;

use velero_api::v1::{DownloadTarget, DownloadTargetKind};
use velero_archive::{BackupFile, RestoreFile};

use super::BackupStore;
use crate::{ByteStream, Error, Result};

/// How long a download URL can be used.
pub const DOWNLOAD_URL_LIFETIME: Duration = Duration::from_secs(600);

/// A file of a backup or of a restore.
enum File {
    OfBackup(BackupFile),
    OfRestore(RestoreFile),
}

impl BackupStore {
    /// The key of the file a target names.
    pub fn download_key(&self, target: &DownloadTarget) -> Result<String> {
        let key = match file(&target.kind)? {
            File::OfBackup(file) => self.keys.backup_file(&target.name, file),
            File::OfRestore(file) => self.keys.restore_file(&target.name, file),
        };
        Ok(key?)
    }

    /// A URL for the file a target names, good for [`DOWNLOAD_URL_LIFETIME`].
    ///
    /// [`Error::NotSupported`] when the store has no URLs; the file is then to be read with [`Self::download`].
    pub async fn download_url(&self, target: &DownloadTarget) -> Result<String> {
        self.store.signed_url(&self.download_key(target)?, DOWNLOAD_URL_LIFETIME).await
    }

    /// The file a target names, as a stream.
    pub async fn download(&self, target: &DownloadTarget) -> Result<ByteStream> {
        self.store.get_stream(&self.download_key(target)?).await
    }
}

fn file(kind: &DownloadTargetKind) -> Result<File> {
    use DownloadTargetKind as Kind;
    Ok(match kind {
        Kind::BackupLog => File::OfBackup(BackupFile::Log),
        Kind::BackupContents => File::OfBackup(BackupFile::Contents),
        Kind::BackupVolumeSnapshots => File::OfBackup(BackupFile::VolumeSnapshots),
        Kind::BackupItemOperations => File::OfBackup(BackupFile::ItemOperations),
        Kind::BackupResourceList => File::OfBackup(BackupFile::ResourceList),
        Kind::BackupResults => File::OfBackup(BackupFile::Results),
        Kind::BackupVolumeInfos => File::OfBackup(BackupFile::VolumeInfos),
        Kind::CsiBackupVolumeSnapshots => File::OfBackup(BackupFile::CsiVolumeSnapshots),
        Kind::CsiBackupVolumeSnapshotContents => File::OfBackup(BackupFile::CsiVolumeSnapshotContents),
        Kind::RestoreLog => File::OfRestore(RestoreFile::Log),
        Kind::RestoreResults => File::OfRestore(RestoreFile::Results),
        Kind::RestoreResourceList => File::OfRestore(RestoreFile::ResourceList),
        Kind::RestoreItemOperations => File::OfRestore(RestoreFile::ItemOperations),
        Kind::RestoreVolumeInfo => File::OfRestore(RestoreFile::VolumeInfo),
        Kind::Unknown(kind) => {
            let reason = format!("download target kind {kind:?} is not known");
            return Err(Error::NotSupported { what: "the download", reason });
        }
    })
}

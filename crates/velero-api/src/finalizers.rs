//! Finalizers that keep an object until what it stands for is cleaned up.

/// On a Restore until its files are deleted from the backup storage.
pub const RESTORE_EXTERNAL_RESOURCES: &str = "restores.velero.io/external-resources-finalizer";

/// On a DataUpload or DataDownload until its transfer has ended.
pub const DATA_UPLOAD_DOWNLOAD: &str = "velero.io/data-upload-download-finalizer";

/// On a PodVolumeBackup or PodVolumeRestore until its transfer has ended.
pub const POD_VOLUME: &str = "velero.io/pod-volume-finalizer";

//! The kinds of `velero.io/v2alpha1`, one file each.

mod data_download;
mod data_upload;
mod data_upload_result;

pub use data_download::{
    DOWNLOAD_OPERATION, DataDownload, DataDownloadPhase, DataDownloadSpec, DataDownloadStatus, TargetVolumeSpec,
};
pub use data_upload::{
    CsiSnapshotSpec, DataUpload, DataUploadPhase, DataUploadSpec, DataUploadStatus, NodeOs, SNAPSHOT_TYPE_CSI,
    UPLOAD_OPERATION,
};
pub use data_upload_result::DataUploadResult;

//! What the built-in uploader is told with a transfer: the keys of `spec.uploaderSettings` and `spec.dataMoverConfig`.

/// How many files are read at once, when a backup says.
pub const PARALLEL_FILES_UPLOAD: &str = "ParallelFilesUpload";
/// How many files are written at once, when a restore says.
pub const PARALLEL_FILES_DOWNLOAD: &str = "ParallelFilesDownload";
/// Whether zeros are left out of files, when a restore says.
pub const WRITE_SPARSE_FILES: &str = "WriteSparseFiles";

//! What is to be done with a volume. Pure.

use std::collections::BTreeMap;

use velero_api::uploader_settings::{PARALLEL_FILES_DOWNLOAD, PARALLEL_FILES_UPLOAD, WRITE_SPARSE_FILES};
use velero_repo::upload::SnapshotRequest;

use crate::runtime::error::{Error, Result};

/// The most hands that read: they share a few buffers, so that only threads are to be bounded.
const MOST_READERS: usize = 32;
/// The most hands that write: each holds up to 8 MiB, and all of the process is to stay below 128.
const MOST_WRITERS: usize = 8;

/// A transfer, as its object asks for it.
#[derive(Debug)]
pub(super) struct Plan {
    /// The volume in words, for people: which one, and whose.
    pub(super) volume: String,
    /// The BackupStorageLocation of the repository.
    pub(super) location: String,
    /// The namespace whose repository it is.
    pub(super) volume_namespace: String,
    pub(super) work: Work,
}

/// What is done.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// The volume is saved.
    Backup {
        /// Under which names.
        request: SnapshotRequest,
        /// How many files are read at once; nothing means what suits the machine.
        parallel: Option<usize>,
    },
    /// The volume is filled.
    Restore {
        /// From which snapshot.
        snapshot: String,
        /// How many files are written at once; nothing means what suits the machine.
        parallel: Option<usize>,
        /// Whether zeros are left out of files.
        sparse: bool,
        /// The restore whose pod waits for its volumes.
        waiting_restore: Option<String>,
    },
}

impl Plan {
    /// Whether data goes into the repository.
    pub(super) fn is_backup(&self) -> bool {
        matches!(self.work, Work::Backup { .. })
    }

    /// That the work was not done, in words.
    pub(super) fn not_done(&self) -> String {
        let work = if self.is_backup() { "backed up" } else { "restored" };
        format!("{} was not {work}", self.volume)
    }
}

/// The settings for the uploader in a field of an object.
pub(super) struct UploaderSettings<'a> {
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) field: &'a str,
    pub(super) values: &'a BTreeMap<String, String>,
}

impl UploaderSettings<'_> {
    pub(super) fn parallel_upload(&self) -> Result<Option<usize>> {
        self.number(PARALLEL_FILES_UPLOAD, MOST_READERS)
    }

    pub(super) fn parallel_download(&self) -> Result<Option<usize>> {
        self.number(PARALLEL_FILES_DOWNLOAD, MOST_WRITERS)
    }

    /// What Go takes for a truth value.
    pub(super) fn sparse(&self) -> Result<bool> {
        match self.values.get(WRITE_SPARSE_FILES).map(String::as_str) {
            None | Some("" | "false" | "False" | "FALSE" | "f" | "F" | "0") => Ok(false),
            Some("true" | "True" | "TRUE" | "t" | "T" | "1") => Ok(true),
            Some(other) => Err(self.wrong(WRITE_SPARSE_FILES, other, "true or false")),
        }
    }

    /// A number; zero and none mean that nothing was asked for.
    fn number(&self, key: &str, most: usize) -> Result<Option<usize>> {
        let Some(text) = self.values.get(key).filter(|text| !text.is_empty()) else { return Ok(None) };
        let number: i64 = text.parse().map_err(|_| self.wrong(key, text, "a number"))?;
        Ok(usize::try_from(number).ok().filter(|number| *number > 0).map(|number| number.min(most)))
    }

    fn wrong(&self, key: &str, value: &str, wanted: &str) -> Error {
        let problem = format!("{}.{key} is {value:?}, write {wanted}", self.field);
        Error::invalid(self.kind, self.name, problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(key: &str, value: &str, look: impl FnOnce(&UploaderSettings<'_>) -> T) -> T {
        let values = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let field = "spec.uploaderSettings";
        look(&UploaderSettings { kind: "PodVolumeBackup", name: "b-1", field, values: &values })
    }

    #[test]
    fn hands_are_as_many_as_asked_for_and_never_too_many() {
        for (text, readers, writers) in [
            ("4", Some(4), Some(4)),
            ("500", Some(32), Some(8)),
            ("0", None, None),
            ("-3", None, None),
            ("", None, None),
        ] {
            let found = with("ParallelFilesUpload", text, |settings| settings.parallel_upload().unwrap());
            assert_eq!(found, readers, "{text}");
            let found = with("ParallelFilesDownload", text, |settings| settings.parallel_download().unwrap());
            assert_eq!(found, writers, "{text}");
        }
    }

    #[test]
    fn nonsense_is_named_by_object_field_and_key() {
        let error = with("ParallelFilesUpload", "many", |settings| settings.parallel_upload().unwrap_err());
        let expected = r#"PodVolumeBackup "b-1": spec.uploaderSettings.ParallelFilesUpload is "many", write a number"#;
        assert_eq!(error.to_string(), expected);
        let error = with("WriteSparseFiles", "maybe", |settings| settings.sparse().unwrap_err());
        assert!(error.to_string().contains("write true or false"), "{error}");
    }

    #[test]
    fn zeros_are_left_out_where_that_is_asked_for() {
        assert!(with("WriteSparseFiles", "true", |settings| settings.sparse().unwrap()));
        assert!(!with("WriteSparseFiles", "false", |settings| settings.sparse().unwrap()));
        assert!(!with("Other", "true", |settings| settings.sparse().unwrap()));
    }
}

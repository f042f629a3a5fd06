//! How a transfer ended, in words. Pure.

use std::error::Error as StdError;
use std::io;

use velero_api::records::CANCELED_ENDING;
use velero_repo::Error as RepositoryError;

use crate::mover::plan::Plan;
use crate::runtime::error::{Error, describe};

/// The most bytes the kubelet takes of what a container says in the end.
const MOST_BYTES: usize = 4000;

/// How a mover ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// All data was moved; the result as JSON.
    Completed(String),
    /// An error ended it; what is wrong and what to do.
    Failed(String),
    /// It was not wanted any more; why.
    Canceled(String),
}

impl Ending {
    /// An error before it was known what is to be done.
    pub(super) fn failed(error: &Error) -> Self {
        Self::Failed(describe(error))
    }

    /// What the container says in the end.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Completed(result) => result.clone(),
            Self::Failed(text) => cut(text, MOST_BYTES),
            Self::Canceled(why) => {
                format!("{}: {CANCELED_ENDING}", cut(why, MOST_BYTES - CANCELED_ENDING.len() - 2))
            }
        }
    }

    /// Whether all data was moved.
    pub(super) fn is_success(&self) -> bool {
        matches!(self, Self::Completed(_))
    }
}

fn cut(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    text[..end].to_owned()
}

/// Why the work on a repository failed: the volume, its pod, and what to do.
pub(super) fn told(plan: &Plan, error: RepositoryError) -> String {
    let remedy = remedy(plan, &error);
    let text = if is_of_volume(&error) {
        describe(&error)
    } else {
        let (namespace, location) = (plan.volume_namespace.clone(), plan.location.clone());
        describe(&Error::Repository { namespace, location, source: error })
    };
    format!("{}: {text}{remedy}", plan.not_done())
}

/// Whether an error is about a file of the volume, and not about the repository.
fn is_of_volume(error: &RepositoryError) -> bool {
    match error {
        RepositoryError::File { .. } | RepositoryError::NotSaved { .. } | RepositoryError::Refused { .. } => true,
        RepositoryError::AtPath { source, .. } => is_of_volume(source),
        _ => false,
    }
}

fn remedy(plan: &Plan, error: &RepositoryError) -> &'static str {
    if let RepositoryError::SnapshotNotFound { .. } = error {
        return "; it was deleted, or the repository is not the one it was saved in: 'velero repo ls' lists what is there";
    }
    let backup = plan.is_backup();
    let Some(cause) = file_error(error) else { return "" };
    match cause.kind() {
        io::ErrorKind::PermissionDenied if backup => {
            "; the pod that copies the volume may not read it: let root read it, leave it out with a .kopiaignore file, or \
             set privilegedFsBackup in the ConfigMap of the node agents"
        }
        io::ErrorKind::PermissionDenied => {
            "; the pod that fills the volume may not write it: let root write there, or set privilegedFsBackup in the \
             ConfigMap of the node agents"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded if backup => {
            "; there is no room for temporary files on the node"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; the volume is full: restore into a claim that asks for more storage"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; the volume is mounted read-only",
        kind if is_gone(kind, cause) => "; the volume went away meanwhile: does its pod still run?",
        _ => "",
    }
}

/// Whether something is not there any more: the file, or the device or server behind it.
fn is_gone(kind: io::ErrorKind, cause: &io::Error) -> bool {
    const GONE: [rustix::io::Errno; 4] =
        [rustix::io::Errno::NODEV, rustix::io::Errno::NXIO, rustix::io::Errno::IO, rustix::io::Errno::NOTCONN];
    let raw = cause.raw_os_error();
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle)
        || GONE.iter().any(|gone| Some(gone.raw_os_error()) == raw)
}

/// What the system said about a file.
fn file_error(error: &RepositoryError) -> Option<&io::Error> {
    if !is_of_volume(error) {
        return None;
    }
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(next) = cause {
        if let Some(found) = next.downcast_ref::<io::Error>() {
            return Some(found);
        }
        cause = next.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mover::plan::Work;

    fn plan(backup: bool) -> Plan {
        let request = velero_repo::upload::SnapshotRequest::of_velero("r", "s", Default::default());
        let restore = Work::Restore { snapshot: "s1".to_owned(), parallel: None, sparse: false, waiting_restore: None };
        Plan {
            volume: r#"volume "data" of pod "shop/web-0""#.to_owned(),
            location: "default".to_owned(),
            volume_namespace: "shop".to_owned(),
            work: if backup { Work::Backup { request, parallel: None } } else { restore },
        }
    }

    fn file(kind: io::ErrorKind) -> RepositoryError {
        let source = RepositoryError::File { action: "open", path: "a/b".to_owned(), source: kind.into() };
        RepositoryError::AtPath { path: "a/b".to_owned(), source: Box::new(source) }
    }

    #[test]
    fn an_error_names_volume_pod_file_and_remedy() {
        let beginning = r#"volume "data" of pod "shop/web-0" was not backed up: "a/b": could not open "a/b": "#;
        for (backup, kind, remedy) in [
            (true, io::ErrorKind::PermissionDenied, "privilegedFsBackup"),
            (true, io::ErrorKind::StorageFull, "temporary files"),
            (true, io::ErrorKind::NotFound, "does its pod still run?"),
            (true, io::ErrorKind::StaleNetworkFileHandle, "does its pod still run?"),
            (false, io::ErrorKind::StorageFull, "asks for more storage"),
            (false, io::ErrorKind::PermissionDenied, "let root write"),
            (false, io::ErrorKind::ReadOnlyFilesystem, "read-only"),
        ] {
            let text = told(&plan(backup), file(kind));
            assert!(text.contains(remedy), "{text}");
            assert_eq!(text.starts_with(beginning), backup, "{text}");
        }
    }

    #[test]
    fn an_error_of_the_repository_names_it() {
        let wrong = RepositoryError::WrongPassword { place: "the bucket".to_owned() };
        let text = told(&plan(true), wrong);
        assert!(text.contains(r#"repository of namespace "shop" in BackupStorageLocation "default""#), "{text}");
        assert!(text.contains("velero-repo-credentials"), "{text}");
        let text = told(&plan(false), RepositoryError::SnapshotNotFound { id: "s1".to_owned() });
        assert!(text.contains("was not restored") && text.contains("velero repo ls"), "{text}");
    }

    #[test]
    fn a_cancel_is_known_by_its_ending_however_long_the_reason() {
        let text = Ending::Canceled("ü".repeat(4000)).message();
        assert!(text.len() <= 4096 && text.ends_with(": data path is canceled"), "{}", text.len());
        assert!(Ending::Failed("ü".repeat(4000)).message().len() <= 4096);
        assert!(Ending::Completed(String::new()).is_success() && !Ending::Failed(String::new()).is_success());
    }
}

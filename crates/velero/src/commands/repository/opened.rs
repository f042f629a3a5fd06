//! A repository that is opened, and what a person is told when something is wrong with it.

use std::sync::Arc;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use tokio_util::sync::CancellationToken;
use velero_repo::browse::find_entry;
use velero_repo::directory::{DirectoryEntry, EntryKind};
use velero_repo::format::{Format, REPOSITORY_BLOB};
use velero_repo::manifest::{SNAPSHOT, Snapshot};
use velero_repo::store::BlobStore;
use velero_repo::{Error as RepositoryError, Repository};

use super::place::{self, Place};
use crate::arguments::PlaceArguments;
use crate::printer::Printer;
use crate::settings::Settings;

/// What a shell sees of a program that was ended from the keyboard.
const INTERRUPTED: i32 = 130;

/// Finds the repository that the flags name and works on it, on a thread that may block.
pub(super) async fn work<T: Send + 'static>(
    settings: &Settings,
    printer: Printer,
    arguments: &PlaceArguments,
    work: impl FnOnce(&Place) -> Result<T> + Send + 'static,
) -> Result<T> {
    let place = place::find(settings, printer, arguments).await?;
    let worked = tokio::task::spawn_blocking(move || work(&place).map_err(|error| place.explain(error)));
    worked.await.context("the work ended in a panic")?
}

/// Is cancelled by the first Ctrl-C; the second ends the process.
#[expect(clippy::disallowed_methods, reason = "whoever asks twice does not want to wait for any end")]
pub(super) fn cancelled_from_the_keyboard(printer: Printer) -> CancellationToken {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if cancelled.is_cancelled() {
                std::process::exit(INTERRUPTED);
            }
            printer.note("stopping; once more stops at once");
            cancelled.cancel();
        }
    });
    token
}

impl Place {
    /// The keys and parameters.
    pub(super) fn format(&self) -> Result<Format> {
        let content = self.store.get(REPOSITORY_BLOB).map_err(|error| match error {
            error if error.is_blob_not_found() => RepositoryError::NoRepository { place: self.name.clone() },
            error => error,
        })?;
        Ok(Format::open(&content, &self.password, &self.name)?)
    }

    /// The repository with its index.
    pub(super) fn open(&self) -> Result<Repository> {
        Ok(Repository::open_with(self.store(), self.format()?)?)
    }

    pub(super) fn store(&self) -> Arc<dyn BlobStore> {
        Arc::clone(&self.store)
    }

    /// Adds to an error what to do about it.
    fn explain(&self, error: Error) -> Error {
        let remedy = match error.downcast_ref::<RepositoryError>() {
            Some(RepositoryError::WrongPassword { .. }) => format!(
                "the password is {}; give another with --password-file or VELERO_REPO_PASSWORD. Velero keeps it in key \
                 \"repository-password\" of secret \"velero-repo-credentials\"",
                self.password_source
            ),
            Some(RepositoryError::NoRepository { .. }) => {
                "a repository lies in kopia/NAMESPACE below the prefix of its storage location; --path or --prefix names that folder"
                    .to_owned()
            }
            Some(RepositoryError::ContentNotFound { .. } | RepositoryError::DamagedBlob { .. } | RepositoryError::DamagedContent { .. }) => {
                format!("{} is damaged; 'velero repo verify' says which files are", self.name)
            }
            Some(RepositoryError::SnapshotNotFound { .. }) => "'velero repo ls' lists those that do".to_owned(),
            Some(RepositoryError::NotOwner { .. }) => {
                "only repositories made by Velero are maintained here; let its owner do it".to_owned()
            }
            _ => return error,
        };
        anyhow!("{error:#}; {remedy}")
    }
}

/// A snapshot, and the path in it that was asked for.
pub(super) struct Target {
    id: String,
    /// Without slashes around it; empty for the root.
    pub(super) path: String,
    /// What is at the path.
    pub(super) entry: DirectoryEntry,
}

impl Target {
    /// Finds `SNAPSHOT[/PATH]`.
    pub(super) fn find(repository: &Repository, text: &str) -> Result<Self> {
        let (id, path) = text.split_once('/').unwrap_or((text, ""));
        let (id, snapshot) = find_snapshot(repository, id)?;
        let root = snapshot.root().with_context(|| format!("snapshot {id}"))?;
        let entry = find_entry(repository, root, path)
            .with_context(|| format!("snapshot {id}; 'velero repo ls {id}' lists what is in it"))?;
        Ok(Self { path: path.trim_matches('/').to_owned(), entry, id })
    }

    /// What was asked for, for messages.
    pub(super) fn name(&self) -> String {
        if self.path.is_empty() { self.id.clone() } else { format!("{}/{}", self.id, self.path) }
    }

    /// Refuses what is of another kind, and says what to do with it.
    pub(super) fn expect(&self, repository: &Repository, kind: EntryKind) -> Result<()> {
        let name = self.name();
        match self.entry.kind {
            found if found == kind => Ok(()),
            EntryKind::Directory => {
                bail!("{name:?} is a folder; 'velero repo ls' lists it, 'velero repo restore' restores it")
            }
            EntryKind::File => bail!("{name:?} is a file; 'velero repo cat' writes it to stdout"),
            EntryKind::Symlink => {
                const LONGEST: usize = 64 << 10;
                let to = repository.object(self.entry.object)?.read_all(LONGEST)?;
                bail!("{name:?} is a symbolic link to {:?}; name what it points to", String::from_utf8_lossy(&to))
            }
        }
    }
}

/// The only snapshot whose id begins so.
pub(super) fn find_snapshot(repository: &Repository, beginning: &str) -> Result<(String, Snapshot)> {
    ensure!(!beginning.is_empty(), "the snapshot has no id; 'velero repo ls' lists them");
    let wanted = |manifest: &velero_repo::manifest::Manifest| {
        manifest.id.starts_with(beginning) && manifest.has_labels(&[("type", SNAPSHOT)])
    };
    let found = repository.manifests(&wanted)?;
    match found.as_slice() {
        [] => bail!("snapshot {beginning:?} does not exist in the repository; 'velero repo ls' lists those that do"),
        [one] => Ok((one.id.clone(), one.snapshot()?)),
        several => {
            if let Some(one) = several.iter().find(|one| one.id == beginning) {
                return Ok((one.id.clone(), one.snapshot()?));
            }
            let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).take(5).collect();
            bail!("{} snapshots begin with {beginning:?} ({}, …); write more of the id", several.len(), ids.join(", "))
        }
    }
}

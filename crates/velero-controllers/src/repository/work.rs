//! The maintenance itself.

use tokio_util::sync::CancellationToken;
use velero_api::v1::BackupStorageLocation;
use velero_repo::Repository;
use velero_repo::clock::system_clock;
use velero_repo::maintenance::{Action, MaintenanceOptions, MaintenanceReport, Mode, Skipped, maintain};

use crate::runtime::error::Result;
use crate::runtime::repositories::Repositories;

/// Does what is due in a repository, on a thread that may block; says in the log what that was. Who maintains a repository is
/// written in the repository itself, so of two that begin at once one does nothing.
pub(crate) async fn maintain_repository(
    repositories: &Repositories,
    location: &BackupStorageLocation,
    volume_namespace: &str,
    cancel: CancellationToken,
) -> Result<()> {
    let maintained = repositories.work(location, volume_namespace, move |store, password| {
        let repository = Repository::open(store, &password)?;
        let options = MaintenanceOptions { cancel, tell: &tell, ..MaintenanceOptions::default() };
        maintain(&repository, &options, &system_clock())
    });
    let report = maintained.await?;
    tracing::info!(namespace = volume_namespace, "{}", in_words(&report));
    Ok(())
}

fn tell(action: &Action<'_>) {
    match action {
        Action::KeepBlobs { epoch, problem } => {
            tracing::warn!(epoch, problem, "Blobs stay that should have gone");
        }
        action => tracing::debug!("{action:?}"),
    }
}

/// What a maintenance did, in words.
fn in_words(report: &MaintenanceReport) -> String {
    match (report.skipped, report.mode) {
        (Some(Skipped::NotDue), _) => "The repository needs no maintenance yet".to_owned(),
        (Some(Skipped::BegunByOthers(since)), _) => {
            format!("The repository is left to whoever began to maintain it at {since}")
        }
        (None, Some(Mode::Full)) => "The repository was maintained in full".to_owned(),
        (None, Some(Mode::Quick)) => "The repository was maintained quickly".to_owned(),
        (None, None) => "Nothing was to be done in the repository".to_owned(),
    }
}

//! Runs a backup: prepare and validate, claim, run the engine into the store, report.
//!
//! The status has one writer at any time: first the claim, then the progress, then the end. What the end says comes
//! from the journal alone, and so do the log and the results file.

mod facts;
mod prepare;
mod report;
mod transfer;

use velero_api::labels;
use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation};
use velero_engine::Journal;
use velero_engine::backup::BackupOutcome;
use velero_rules::resource_policies::ResourcePolicies;
use velero_store::BackupStore;

pub(crate) use facts::read_policies;

use crate::backup_finalizer::report as report_end;
use crate::context::{Context, SharedContext};
use crate::error::{Result, describe};
use crate::objects::{label, name};
use crate::store_message::explain;
use crate::{backup_queue, clock};

/// Why a backup failed as a whole, and what of it may be in the store.
struct Failure {
    reason: String,
    /// The store, when files of this backup may be in it.
    touched: Option<BackupStore>,
    /// Whether the store is to blame, so that nothing more is written to it.
    is_of_store: bool,
}

impl Failure {
    fn before_start(reason: String) -> Self {
        Self { reason, touched: None, is_of_store: true }
    }
}

/// Runs a backup whose turn has come, to its end.
pub(crate) async fn run(context: &SharedContext, backup: Backup) -> Result<()> {
    let facts = facts::gather(context, &backup).await?;
    let prepared = prepare::prepare(&backup, &context.settings, &facts, clock::now())?;
    let claimed = context.objects.patch(&backup, &prepared.backup).await?;
    let running = name(&claimed).to_owned();
    context.running.add(&running);
    let outcome = match (claimed.status.phase(), &prepared.location) {
        (BackupPhase::InProgress, Some(location)) => {
            execute(context, &claimed, location, facts.policies.ok().flatten()).await
        }
        _ => {
            report_end(context, &claimed);
            Ok(())
        }
    };
    context.running.remove(&running);
    if let Err(error) = backup_queue::advance(context).await {
        // The backups that wait are looked at every minute anyway.
        tracing::warn!(error = describe(&error), "The queue could not be advanced");
    }
    outcome
}

async fn execute(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
    policies: Option<ResourcePolicies>,
) -> Result<()> {
    context.metrics.count("backup_attempt_total", label(backup, labels::SCHEDULE_NAME));
    tracing::info!(backup = name(backup), location = name(location), "Running backup");
    let journal = report::journal(context, backup);
    let ended = match attempt(context, backup, location, policies, &journal).await {
        Ok(ended) => ended,
        Err(failure) => report::failed(context, backup, &journal, failure).await?,
    };
    let written = context.write_end(backup, &ended).await?;
    report_end(context, &written.unwrap_or(ended));
    Ok(())
}

/// Makes the backup and stores it whole; its metadata are the last thing that is written.
async fn attempt(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
    policies: Option<ResourcePolicies>,
    journal: &Journal,
) -> Result<Backup, Failure> {
    let opened = context.locations.open(location).await;
    let store = opened.map_err(|error| Failure::before_start(explain(&error)))?;
    refuse_taken_name(&store, name(backup), name(location)).await?;
    report::warn_of_volumes(backup, journal);
    let work = async {
        let (outcome, size) = transfer::contents(context, backup, policies, journal, &store).await?;
        context.metrics.tarball_size(label(backup, labels::SCHEDULE_NAME), size);
        store_files(backup, journal, &store, &outcome).await
    };
    tokio::select! {
        ended = work => ended,
        () = context.stop.cancelled() => Err(Failure {
            reason: "the server was stopped while the backup ran; create a new backup".to_owned(),
            touched: Some(store.clone()),
            is_of_store: false,
        }),
    }
}

async fn refuse_taken_name(store: &BackupStore, backup: &str, location: &str) -> Result<(), Failure> {
    let reason = match store.backup_exists(backup).await {
        Ok(false) => return Ok(()),
        Ok(true) => format!(
            "backup already exists in object storage: location {location:?} holds a backup {backup:?}; \
             choose another name or delete that backup first"
        ),
        Err(error) => format!("error checking if backup already exists in object storage: {}", explain(&error)),
    };
    Err(Failure::before_start(reason))
}

async fn store_files(
    backup: &Backup,
    journal: &Journal,
    store: &BackupStore,
    outcome: &BackupOutcome,
) -> Result<Backup, Failure> {
    let failed = |error: velero_store::Error| Failure {
        reason: explain(&error),
        touched: Some(store.clone()),
        is_of_store: true,
    };
    report::note_end(journal, outcome);
    transfer::side_files(store, name(backup), journal, outcome).await.map_err(failed)?;
    let ended = report::ended(backup, journal, outcome, clock::now()).map_err(|error| Failure {
        reason: describe(&error),
        touched: Some(store.clone()),
        is_of_store: false,
    })?;
    store.put_metadata(&ended).await.map_err(failed)?;
    Ok(ended)
}

//! Answers those who ask what a restore would do: with the settings, plugins and rights of this server, along the way
//! that the restore itself takes.
//!
//! The request is a Restore that nobody carries out ([`velero_api::dry_run`]). What was found is stored as its results
//! file, in reach of a DownloadRequest, and goes with it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use velero_api::GoDuration;
use velero_api::dry_run;
use velero_api::metadata::name;
use velero_api::records::{RestoreOperation, Results};
use velero_api::v1::{Restore, RestorePhase};
use velero_archive::RestoreFile;
use velero_engine::Journal;
use velero_engine::journal::Counts;
use velero_engine::recorder::Recorded;
use velero_engine::restore::ItemPreview;

use crate::lifecycle::cancel::cancel_unfinished;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::operation::Operation;
use crate::restore::error::RunError;
use crate::restore::kept_files::{keep_files, keeps_files};
use crate::restore::prepare::{PreparedRestore, prepare_restore};
use crate::restore::settle;
use crate::restore::store::open;
use crate::restore::transfer::{self, Means};
use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::driver::Next;
use crate::runtime::error::Result;

/// How long a request is kept. Who asked removes it; this is for those who did not stay.
const LIFETIME: GoDuration = GoDuration::from_hours(1);
/// How soon a request that has to wait is looked at again.
const WHILE_WAITING: Duration = Duration::from_secs(1);

/// What a restore would do: a results file that also has an entry an object.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DryRunReport {
    /// The backup.
    pub backup: String,
    /// One entry an object, in the order they would be written.
    pub items: Vec<ItemPreview>,
    /// What should be looked at.
    #[serde(default)]
    pub warnings: Results,
    /// What would go wrong.
    #[serde(default)]
    pub errors: Results,
}

/// Answers a request, and removes it when its time is over. A request that was left behind by another server is
/// answered from the beginning.
pub(super) async fn answer(context: &SharedContext, request: Restore, slots: &Semaphore) -> Result<Next> {
    let now = clock::now();
    let made = request.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let end = clock::after(made, LIFETIME);
    if end <= now {
        context.objects.delete(&request).await?;
        return Ok(Next::Change);
    }
    if request.status.phase().is_terminal() {
        return Ok(Next::After(clock::until(end, now)));
    }
    let prepared = prepare_restore(context.objects.cluster(), &context.settings, &dry_run::wanted(&request)).await?;
    let request = take(context, request, &prepared).await?;
    let Ok(_slot) = slots.try_acquire() else { return Ok(Next::After(WHILE_WAITING)) };
    let mut answered = request.clone();
    let status = &mut answered.status;
    if prepared.problems.is_empty() {
        match look(context, &request, prepared).await {
            // The next server begins anew.
            Ok(None) => return Ok(Next::Change),
            Ok(Some(counts)) => {
                status.phase = Some(RestorePhase::Completed);
                (status.warnings, status.errors) = (counts.warnings, counts.errors);
            }
            Err(reason) => {
                status.phase = Some(RestorePhase::Failed);
                status.failure_reason = reason.to_string();
            }
        }
    } else {
        status.phase = Some(RestorePhase::FailedValidation);
        status.validation_errors = prepared.problems;
    }
    status.completion_timestamp = Some(clock::now_time());
    context.objects.patch(&request, &answered).await?;
    Ok(Next::After(clock::until(end, now)))
}

/// Tells who asked that somebody answers, and stays until the files that will be stored are gone.
async fn take(context: &Context, request: Restore, prepared: &PreparedRestore) -> Result<Restore> {
    if dry_run::taken_by(&request) == Some(&context.settings.server_version) && keeps_files(&request) {
        return Ok(request);
    }
    let mut taken = request.clone();
    dry_run::take(&mut taken, &context.settings.server_version, &prepared.restore.spec.backup_name);
    if !keeps_files(&taken) {
        keep_files(&mut taken);
    }
    context.objects.patch(&request, &taken).await
}

/// Finds out what the restore would do and stores it; how many warnings and errors it would have. Nothing when the
/// server ends or nobody wants to know any more.
async fn look(context: &Context, request: &Restore, prepared: PreparedRestore) -> Result<Option<Counts>, RunError> {
    tracing::info!(
        request = name(request),
        backup = prepared.restore.spec.backup_name,
        "Looking what a restore would do"
    );
    let store = open(context, &prepared).await?;
    let restore = prepared.restore.clone();
    let journal = restore.journal(context);
    let tools = context.plugins.open_for_dry_run(&journal).await.map_err(RunError::Needs)?;
    let started = Recorded::default();
    let halt = CancellationToken::new();
    let means = Means { tools: &tools, started: &started, halt: &halt };
    let looked = tokio::select! {
        looked = transfer::look(context, prepared, &journal, &store, means) => Some(looked),
        () = context.stop.cancelled() => None,
        () = settle::deleted(context, request) => None,
    };
    let operations: Vec<RestoreOperation> = started.all();
    note_operations(&journal, &operations);
    cancel_unfinished(&operations, &tools.actions, &restore).await;
    tools.close().await;
    let Some(looked) = looked else { return Ok(None) };
    let (results, counts) = (journal.results(), journal.counts());
    let report = DryRunReport {
        backup: restore.spec.backup_name,
        items: looked?.items,
        warnings: results.warnings,
        errors: results.errors,
    };
    let storing = store.put_restore_json(name(request), RestoreFile::Results, &report);
    let Some(stored) = context.unless_stopped(storing).await else { return Ok(None) };
    stored.map_err(RunError::Report)?;
    Ok(Some(counts))
}

/// An action that starts something although it was only asked is told about: what it started is cancelled.
fn note_operations(journal: &Journal, operations: &[RestoreOperation]) {
    for operation in operations {
        let (action, id) = (operation.action(), operation.id());
        journal.warning().message(&format!(
            "the action {action} started operation {id} although nothing is restored; the operation was cancelled"
        ));
    }
}

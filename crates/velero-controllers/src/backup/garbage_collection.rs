//! Asks for the deletion of backups whose time has run out.

use std::time::Duration;

use jiff::Timestamp;
use velero_api::labels;
use velero_api::metadata::{label, name, uid};
use velero_api::v1::{Backup, BackupStorageLocation, DeleteBackupRequest, DeleteBackupRequestPhase};
use velero_rules::retention::{LocationState, RetentionDecision, decide, is_expired};

use crate::backup::deletion::inspect::obstacle;
use crate::backup::deletion::requests::{deletion_of, selector};
use crate::location::state::location_state;
use crate::restore::of_backup::running_restores;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::driver::Next;
use crate::runtime::error::Result;

/// How soon a backup is looked at again that restores run from.
const WHILE_RESTORED: Duration = Duration::from_secs(60);
/// The value of the label on a backup that owns what this server cannot delete.
const NOT_DELETABLE: &str = "NotDeletable";

/// When to look at a backup whose time has not run out; nothing for one whose time has.
pub(crate) fn rest(backup: &Backup, now: Timestamp) -> Option<Next> {
    let Some(expiration) = expiration(backup) else { return Some(Next::Change) };
    let is_due = is_expired(Some(expiration), now);
    (!is_due).then(|| Next::After(clock::until(expiration, now)))
}

fn expiration(backup: &Backup) -> Option<Timestamp> {
    backup.status.expiration.as_ref().map(|time| time.0)
}

/// Looks at a backup and says when to look again.
pub(crate) async fn collect(context: &Context, backup: &Backup) -> Result<Next> {
    let now = clock::now();
    if let Some(next) = rest(backup, now) {
        return Ok(next);
    }
    let location = context.objects.get::<BackupStorageLocation>(&backup.spec.storage_location).await;
    let state = match &location {
        Err(_) => LocationState::CannotGet,
        Ok(None) => LocationState::NotFound,
        Ok(Some(location)) => location_state(location),
    };
    let pending = deletion_is_pending(context, backup).await?;
    let restores = running_restores(context, name(backup)).await?;
    let again = Next::After(context.settings.garbage_collection_period().to_std());
    match decide(expiration(backup), now, state, pending, !restores.is_empty()) {
        RetentionDecision::Keep => {}
        RetentionDecision::Postponed => {
            tracing::info!(backup = name(backup), "An expired backup waits until its location is available");
        }
        RetentionDecision::Restored => {
            let restores = restores.iter().map(name).collect::<Vec<_>>().join(", ");
            tracing::info!(backup = name(backup), restores, "An expired backup waits for restores that run from it");
            return Ok(Next::After(WHILE_RESTORED));
        }
        RetentionDecision::Blocked { reason, .. } => {
            tracing::warn!(backup = name(backup), reason, "An expired backup cannot be garbage-collected");
            mark(context, backup, Some(reason)).await?;
        }
        RetentionDecision::AlreadyRequested => mark(context, backup, None).await?,
        RetentionDecision::Delete => request_deletion(context, backup, location.ok().flatten().as_ref()).await?,
    }
    Ok(again)
}

/// Requests the deletion of a backup, unless it is known to be refused.
async fn request_deletion(context: &Context, backup: &Backup, location: Option<&BackupStorageLocation>) -> Result<()> {
    if let Some(location) = location {
        let store = context.locations.open_briefly(location).await?;
        if let Some(problem) = obstacle(context, backup, &store).await? {
            tracing::warn!(backup = name(backup), problem, "An expired backup cannot be garbage-collected");
            return mark(context, backup, Some(NOT_DELETABLE)).await;
        }
    }
    mark(context, backup, None).await?;
    tracing::info!(backup = name(backup), "Backup has expired, requesting its deletion");
    context.objects.create(&deletion_of(backup)).await?;
    Ok(())
}

async fn deletion_is_pending(context: &Context, backup: &Backup) -> Result<bool> {
    let requests = context.objects.list::<DeleteBackupRequest>(&selector(name(backup), uid(backup))).await?;
    Ok(requests.iter().any(|request| *request.status.phase() != DeleteBackupRequestPhase::Processed))
}

async fn mark(context: &Context, backup: &Backup, reason: Option<&str>) -> Result<()> {
    if label(backup, labels::GC_FAILURE) == reason.unwrap_or_default() {
        return Ok(());
    }
    let mut marked = backup.clone();
    let marks = marked.metadata.labels.get_or_insert_default();
    match reason {
        Some(reason) => drop(marks.insert(labels::GC_FAILURE.to_owned(), reason.to_owned())),
        None => drop(marks.remove(labels::GC_FAILURE)),
    }
    context.objects.force(backup, &marked).await?;
    Ok(())
}

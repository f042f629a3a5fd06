//! Asks for the deletion of backups whose time has run out.

use std::time::Duration;

use kube::api::ObjectMeta;
use velero_api::labels;
use velero_api::v1::{
    Backup, BackupStorageLocation, DeleteBackupRequest, DeleteBackupRequestPhase, DeleteBackupRequestSpec,
};
use velero_rules::retention::{LocationState, RetentionDecision, decide, is_expired};

use crate::backup_deletion::{obstacle, running_restores};
use crate::clock;
use crate::context::Context;
use crate::driver::Next;
use crate::error::Result;
use crate::objects::{label, name, uid};

/// How soon a backup is looked at again that restores run from.
const WHILE_RESTORED: Duration = Duration::from_secs(60);
/// The value of the label on a backup that owns what this server cannot delete.
const NOT_DELETABLE: &str = "NotDeletable";

/// Looks at a backup and says when to look again.
pub(crate) async fn collect(context: &Context, backup: &Backup) -> Result<Next> {
    let now = clock::now();
    let Some(expiration) = backup.status.expiration.as_ref().map(|time| time.0) else { return Ok(Next::Change) };
    if !is_expired(Some(expiration), now) {
        return Ok(Next::After(clock::until(expiration, now)));
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
    match decide(Some(expiration), now, state, pending, !restores.is_empty()) {
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
        let store = context.locations.open_for_a_look(location).await?;
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

/// What the state of a location means for the deletion of its backups.
pub(crate) fn location_state(location: &BackupStorageLocation) -> LocationState {
    match () {
        () if !location.is_available() => LocationState::Unavailable,
        () if location.is_read_only() => LocationState::ReadOnly,
        () => LocationState::Ready,
    }
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

/// The selector of the requests to delete a backup.
pub(crate) fn selector(backup: &str, uid: &str) -> String {
    let backup = labels::valid_value(backup);
    format!("{}={backup},{}={uid}", labels::BACKUP_NAME, labels::BACKUP_UID)
}

fn deletion_of(backup: &Backup) -> DeleteBackupRequest {
    let marks = [
        (labels::BACKUP_NAME.to_owned(), labels::valid_value(name(backup))),
        (labels::BACKUP_UID.to_owned(), uid(backup).to_owned()),
    ];
    DeleteBackupRequest {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", name(backup))),
            namespace: backup.metadata.namespace.clone(),
            labels: Some(marks.into()),
            ..ObjectMeta::default()
        },
        spec: DeleteBackupRequestSpec { backup_name: name(backup).to_owned(), ..Default::default() },
        status: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_carries_the_labels_it_is_found_by() {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.uid = Some("u-1".to_owned());
        let request = deletion_of(&backup);
        assert_eq!(request.spec.backup_name, "b");
        assert_eq!(request.metadata.generate_name.as_deref(), Some("b-"));
        let marks = [label(&request, labels::BACKUP_NAME), label(&request, labels::BACKUP_UID)];
        assert_eq!(marks, ["b", "u-1"]);
        assert_eq!(selector("b", "u-1"), "velero.io/backup-name=b,velero.io/backup-uid=u-1");
    }
}

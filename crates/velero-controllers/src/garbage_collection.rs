//! Asks for the deletion of backups whose time has run out.

use kube::api::ObjectMeta;
use velero_api::labels;
use velero_api::v1::{
    Backup, BackupStorageLocation, DeleteBackupRequest, DeleteBackupRequestPhase, DeleteBackupRequestSpec,
};
use velero_rules::retention::{LocationState, RetentionDecision, decide, is_expired};

use crate::clock;
use crate::context::Context;
use crate::driver::Next;
use crate::error::Result;
use crate::objects::{label, name, uid};

/// Looks at a backup and says when to look again.
pub(crate) async fn collect(context: &Context, backup: &Backup) -> Result<Next> {
    let now = clock::now();
    let Some(expiration) = backup.status.expiration.as_ref().map(|time| time.0) else { return Ok(Next::Change) };
    if !is_expired(Some(expiration), now) {
        return Ok(Next::After(clock::until(expiration, now)));
    }
    let location = location_state(context, backup).await;
    let pending = deletion_is_pending(context, backup).await?;
    let again = Next::After(context.settings.garbage_collection_period().to_std());
    match decide(Some(expiration), now, location, pending) {
        RetentionDecision::Keep => {}
        RetentionDecision::Postponed => {
            tracing::info!(backup = name(backup), "An expired backup waits until its location is available");
        }
        RetentionDecision::Blocked { reason, .. } => {
            tracing::warn!(backup = name(backup), reason, "An expired backup cannot be garbage-collected");
            mark(context, backup, Some(reason)).await?;
        }
        RetentionDecision::AlreadyRequested => mark(context, backup, None).await?,
        RetentionDecision::Delete => {
            mark(context, backup, None).await?;
            tracing::info!(backup = name(backup), "Backup has expired, requesting its deletion");
            context.objects.create(&deletion_of(backup)).await?;
        }
    }
    Ok(again)
}

async fn location_state(context: &Context, backup: &Backup) -> LocationState {
    match context.objects.get::<BackupStorageLocation>(&backup.spec.storage_location).await {
        Err(_) => LocationState::CannotGet,
        Ok(None) => LocationState::NotFound,
        Ok(Some(location)) if !location.is_available() => LocationState::Unavailable,
        Ok(Some(location)) if location.is_read_only() => LocationState::ReadOnly,
        Ok(Some(_)) => LocationState::Ready,
    }
}

async fn deletion_is_pending(context: &Context, backup: &Backup) -> Result<bool> {
    let requests = context.objects.list::<DeleteBackupRequest>(&selector(backup)).await?;
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
pub(crate) fn selector(backup: &Backup) -> String {
    let backup_name = labels::valid_value(name(backup));
    format!("{}={backup_name},{}={}", labels::BACKUP_NAME, labels::BACKUP_UID, uid(backup))
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
        assert_eq!(selector(&backup), "velero.io/backup-name=b,velero.io/backup-uid=u-1");
    }
}

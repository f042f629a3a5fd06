//! Deletes a backup with its snapshots, files and restores.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{DeleteParams, ListParams};
use velero_api::labels;
use velero_api::records::{BackupVolumeInfo, VolumeMethod};
use velero_api::v1::{
    Backup, BackupPhase, BackupStorageLocation, DeleteBackupRequest, DeleteBackupRequestPhase, Restore,
};
use velero_archive::BackupFile;
use velero_engine::Journal;
use velero_engine::delete::DeleteError;
use velero_plugin::DeleteItemAction;
use velero_store::{BackupStore, blocking_reader};

use crate::backup::owns_files;
use crate::backup_phase::move_to;
use crate::clock;
use crate::context::{Context, SharedContext};
use crate::driver::{Next, Reconciler};
use crate::error::{Error, Result, describe};
use crate::garbage_collection::selector;
use crate::objects::{label, name, uid};
use crate::restore_deletion::disclaim;
use crate::{backup_operations, backup_snapshots, csi_snapshots, restore_operations};

/// How long a request that was dealt with is kept.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long restores may take to go away.
const RESTORES_DEADLINE: Duration = Duration::from_secs(60);
/// How long a backup or restore that runs may take to end when it is deleted.
const END_DEADLINE: Duration = Duration::from_secs(90);

/// Watches DeleteBackupRequests.
pub(crate) struct BackupDeletionReconciler {
    pub(crate) context: SharedContext,
}

impl Reconciler for BackupDeletionReconciler {
    type Kind = DeleteBackupRequest;
    const NAME: &'static str = "backup-deletion";

    async fn reconcile(&self, request: DeleteBackupRequest) -> Result<Next> {
        let context = &self.context;
        if *request.status.phase() != DeleteBackupRequestPhase::New {
            return expire(context, &request).await;
        }
        if request.spec.backup_name.is_empty() {
            return refuse(context, &request, "spec.backupName is required".to_owned()).await;
        }
        remove_siblings(context, &request).await?;
        match admit(context, &request).await? {
            Err(problem) => refuse(context, &request, problem).await,
            Ok((backup, location)) => match context.busy_backups.take_over(name(&backup), END_DEADLINE).await {
                None => refuse(context, &request, "backup is still in progress".to_owned()).await,
                // Its run may have ended only now, and said so.
                Some(_hold) => match context.objects.get(name(&backup)).await? {
                    None => refuse(context, &request, "backup not found".to_owned()).await,
                    Some(backup) => delete(context, &request, backup, &location).await,
                },
            },
        }
    }
}

async fn expire(context: &Context, request: &DeleteBackupRequest) -> Result<Next> {
    let now = clock::now();
    let created = request.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let age = clock::until(now, created);
    if age < LONGEST_LIFE {
        return Ok(Next::After(LONGEST_LIFE - age));
    }
    context.objects.delete::<DeleteBackupRequest>(name(request)).await?;
    Ok(Next::Change)
}

async fn refuse(context: &Context, request: &DeleteBackupRequest, problem: String) -> Result<Next> {
    tracing::warn!(request = name(request), backup = request.spec.backup_name, problem, "The backup is not deleted");
    finish(context, request, vec![problem]).await?;
    Ok(Next::After(LONGEST_LIFE))
}

async fn finish(context: &Context, request: &DeleteBackupRequest, errors: Vec<String>) -> Result<()> {
    let mut finished = request.clone();
    finished.status.phase = Some(DeleteBackupRequestPhase::Processed);
    finished.status.errors = errors;
    context.objects.force(request, &finished).await?;
    Ok(())
}

/// One request for a backup is enough.
async fn remove_siblings(context: &Context, request: &DeleteBackupRequest) -> Result<()> {
    let selector = format!("{}={}", labels::BACKUP_NAME, labels::valid_value(&request.spec.backup_name));
    for sibling in context.objects.list::<DeleteBackupRequest>(&selector).await? {
        if name(&sibling) != name(request) {
            context.objects.delete::<DeleteBackupRequest>(name(&sibling)).await?;
        }
    }
    Ok(())
}

/// The backup and its location, or why the backup cannot be deleted.
async fn admit(
    context: &Context,
    request: &DeleteBackupRequest,
) -> Result<Result<(Backup, BackupStorageLocation), String>> {
    let wanted = &request.spec.backup_name;
    let Some(backup) = context.objects.get::<Backup>(wanted).await? else {
        return Ok(Err("backup not found".to_owned()));
    };
    let place = &backup.spec.storage_location;
    let Some(location) = context.objects.get::<BackupStorageLocation>(place).await? else {
        return Ok(Err(format!("backup storage location {place} not found")));
    };
    Ok(match () {
        () if location.is_read_only() => {
            Err(format!("cannot delete backup because backup storage location {place} is currently in read-only mode"))
        }
        () if !location.is_available() => Err(format!(
            "cannot delete backup because backup storage location {place} is currently in Unavailable state"
        )),
        () => Ok((backup, location)),
    })
}

async fn delete(
    context: &Context,
    request: &DeleteBackupRequest,
    backup: Backup,
    location: &BackupStorageLocation,
) -> Result<Next> {
    let mut begun = request.clone();
    begun.status.phase = Some(DeleteBackupRequestPhase::InProgress);
    let marks = begun.metadata.labels.get_or_insert_default();
    marks.entry(labels::BACKUP_NAME.to_owned()).or_insert_with(|| labels::valid_value(name(&backup)));
    marks.entry(labels::BACKUP_UID.to_owned()).or_insert_with(|| uid(&backup).to_owned());
    let request = context.objects.force(request, &begun).await?;
    let backup = mark_deleting(context, backup).await?;
    let schedule = label(&backup, labels::SCHEDULE_NAME).to_owned();
    context.metrics.count("backup_deletion_attempt_total", &schedule);

    let errors = carry_out(context, &backup, location).await;
    let counter = if errors.is_empty() { "backup_deletion_success_total" } else { "backup_deletion_failure_total" };
    context.metrics.count(counter, &schedule);
    let succeeded = errors.is_empty();
    finish(context, &request, errors).await?;
    if !succeeded {
        return Ok(Next::After(LONGEST_LIFE));
    }
    tracing::info!(backup = name(&backup), "Backup deleted");
    let requests = ListParams::default().labels(&selector(&backup));
    let api = context.objects.api::<DeleteBackupRequest>();
    if let Err(error) = api.delete_collection(&DeleteParams::default(), &requests).await {
        tracing::warn!(backup = name(&backup), %error, "The requests to delete the backup could not be removed");
    }
    Ok(Next::Change)
}

async fn mark_deleting(context: &Context, backup: Backup) -> Result<Backup> {
    let mut deleting = backup.clone();
    if *deleting.status.phase() != BackupPhase::Deleting {
        move_to(&mut deleting, BackupPhase::Deleting)?;
    }
    context.objects.patch(&backup, &deleting).await
}

/// Removes everything a backup owns, the object last; what cannot be removed is told.
async fn carry_out(context: &Context, backup: &Backup, location: &BackupStorageLocation) -> Vec<String> {
    let mut errors = Vec::new();
    match context.locations.open(location).await {
        Err(error) => errors.push(format!("error getting the backup store: {}", describe(&error))),
        // What lies under its name belongs to another cluster, and so do the snapshots it tells of.
        Ok(store) if matches!(owns_files(&store, backup).await, Ok(false)) => {
            tracing::info!(backup = name(backup), "The files of this name are those of another backup and stay");
        }
        Ok(store) => {
            backup_operations::cancel(context, backup, Some(&store)).await;
            if let Err(error) = run_delete_actions(context, backup, &store).await {
                errors.push(format!("error running delete item actions: {}", describe(&error)));
                return errors;
            }
            errors = csi_snapshots::delete(context, backup, &store).await;
            errors.extend(backup_snapshots::delete_stored(context, backup, &store).await);
            // While snapshots are left, the files are all that is known of them.
            if errors.is_empty()
                && let Err(error) = delete_files(&store, backup).await
            {
                errors.push(describe(&error));
            }
            if let Err(error) = delete_restores(context, backup, &store).await {
                errors.push(format!("error deleting restores of the backup: {}", describe(&error)));
            }
        }
    }
    if errors.is_empty()
        && let Err(error) = context.objects.delete::<Backup>(name(backup)).await
    {
        errors.push(format!("error deleting backup {}: {}", name(backup), describe(&error)));
    }
    errors
}

/// Lets the delete item actions see the items of a backup; what one of them cannot do is told in the log only. An
/// archive that is not there has no items, and a damaged one must not keep its backup from being deleted.
async fn run_delete_actions(context: &Context, backup: &Backup, store: &BackupStore) -> Result<()> {
    let is_needed = |action: &Arc<dyn DeleteItemAction>| {
        !action.name().starts_with("velero.io/csi-") || backup.status.csi_volume_snapshots_attempted > 0
    };
    if !context.plugins.for_questions()?.actions.delete_item().iter().any(is_needed) {
        return Ok(());
    }
    let archive = match store.get_contents(name(backup)).await {
        Err(error) if error.is_not_found() => return Ok(()),
        archive => archive?,
    };
    let (format, level) = context.settings.journal_form();
    let journal = Journal::for_backup(context.objects.namespace(), name(backup), format, level);
    let reader = blocking_reader(archive);
    let tools = context.plugins.open(Some(&journal)).await?;
    let seen = velero_engine::delete::run(backup, reader, &tools.actions, &tools.discovery, &journal).await;
    tools.put_away().await;
    match seen {
        Err(DeleteError::Action(error)) => Err(error.into()),
        Err(error) => {
            tracing::warn!(
                backup = name(backup),
                error = describe(&error),
                "Delete item actions did not see all items"
            );
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Removes the files of a backup unless they are all that is known of volume data kept elsewhere.
async fn delete_files(store: &BackupStore, backup: &Backup) -> Result<()> {
    if owns_volume_data(store, name(backup)).await? {
        let problem = "it owns copies of volume data, whose deletion this server does not support yet; \
                       delete it with the server that made it";
        return Err(Error::invalid("Backup", name(backup), problem));
    }
    Ok(store.delete_backup(name(backup)).await?)
}

async fn owns_volume_data(store: &BackupStore, backup: &str) -> Result<bool> {
    let copies: Vec<serde_json::Value> = store.get_json(backup, BackupFile::PodVolumeBackups).await?;
    if !copies.is_empty() {
        return Ok(true);
    }
    let volumes: Vec<BackupVolumeInfo> = store.get_json(backup, BackupFile::VolumeInfos).await?;
    let snapshot = |volume: &BackupVolumeInfo| {
        let by_snapshot = [Some(VolumeMethod::NativeSnapshot), Some(VolumeMethod::CsiSnapshot)];
        by_snapshot.contains(&volume.backup_method) && !volume.snapshot_data_moved
    };
    Ok(volumes.iter().any(|volume| !volume.skipped && !snapshot(volume)))
}

/// Deletes the restores of a backup with their files, and waits until they are gone.
async fn delete_restores(context: &Context, backup: &Backup, store: &BackupStore) -> Result<()> {
    for restore in restores_of(context, backup).await? {
        let _hold = context.busy_restores.take_over(&restore, END_DEADLINE).await;
        if let Some(held) = context.objects.get::<Restore>(&restore).await? {
            restore_operations::cancel(context, &held, Some(store)).await;
        }
        store.delete_restore(&restore).await?;
        if let Some(held) = context.objects.get::<Restore>(&restore).await? {
            disclaim(context, &held).await?;
        }
        context.objects.delete::<Restore>(&restore).await?;
    }
    let deadline = tokio::time::Instant::now() + RESTORES_DEADLINE;
    loop {
        let left = restores_of(context, backup).await?;
        let Some(restore) = left.first() else { return Ok(()) };
        if tokio::time::Instant::now() >= deadline {
            return Err(Error::invalid("Restore", restore, "it is still there after a minute; look at its finalizers"));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn restores_of(context: &Context, backup: &Backup) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let visitor = |restore: Restore| {
        if restore.spec.backup_name == name(backup) {
            names.push(name(&restore).to_owned());
        }
    };
    context.objects.visit("", visitor).await?;
    Ok(names)
}

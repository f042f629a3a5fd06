//! What a backup has saved of volumes, after its run: reads and writes what its files say, and leaves the rest to
//! [`velero_engine::volumes`].

use velero_api::metadata::name;
use velero_api::records::BackupOperation;
use velero_api::v1::Backup;
use velero_api::v2alpha1::DataUpload;
use velero_archive::BackupFile;
use velero_engine::volumes::{AfterRun, SavedVolumes};
use velero_plugin::Actions;
use velero_store::BackupStore;

use crate::lifecycle::kind::Kind;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};

/// Writes how what a backup saved of volumes ended, by its operations and DataUploads; gives what its files say then.
pub(super) async fn settle(
    store: &BackupStore,
    backup: &str,
    operations: &[BackupOperation],
    uploads: Vec<DataUpload>,
) -> Result<SavedVolumes> {
    let mut saved = SavedVolumes { uploads, ..stored(store, backup).await? };
    if saved.settle(operations) {
        store.put_json(backup, BackupFile::VolumeInfos, &saved.infos).await?;
        if !saved.snapshots.is_empty() {
            store.put_json(backup, BackupFile::VolumeSnapshots, &saved.snapshots).await?;
        }
    }
    Ok(saved)
}

/// What the files of a backup say.
pub(super) async fn stored(store: &BackupStore, backup: &str) -> Result<SavedVolumes> {
    Ok(SavedVolumes {
        infos: store.get_json(backup, BackupFile::VolumeInfos).await?,
        snapshots: store.get_json(backup, BackupFile::VolumeSnapshots).await?,
        copies: store.get_json(backup, BackupFile::PodVolumeBackups).await?,
        ..SavedVolumes::default()
    })
}

/// Frees the cluster of what the files of a backup hold now, which say this.
pub(super) async fn release(context: &Context, backup: &Backup, saved: &SavedVolumes) -> Result<()> {
    let questions = context.plugins.for_questions()?;
    Ok(after_run(context, backup, &questions.actions).release(saved).await?)
}

/// Removes what a backup that failed has saved: nobody can restore from it. Gives what may be left, in words; `saved`
/// lists the snapshots that are left. They are removed when the backup is deleted.
pub(super) async fn discard(
    context: &Context,
    backup: &Backup,
    actions: &Actions,
    saved: &mut SavedVolumes,
) -> Vec<String> {
    after_run(context, backup, actions).discard(saved).await
}

/// Why something is removed.
#[derive(Clone, Copy)]
pub(super) enum Why {
    Failed,
    Deleted,
}

/// Removes what the files of a backup name, and what is known of it in the cluster; gives what is left, in words.
pub(super) async fn remove(context: &Context, backup: &Backup, store: &BackupStore, why: Why) -> Vec<String> {
    let mut saved = match stored(store, name(backup)).await {
        Ok(saved) => saved,
        Err(error) => return vec![format!("error getting backup's volume snapshots: {}", describe(&error))],
    };
    // Snapshotters run in processes of their own; who looks after the rest runs in this one.
    if saved.snapshots.is_empty() {
        return match context.plugins.for_questions() {
            Ok(questions) => remove_by(context, backup, &questions.actions, &mut saved, why).await,
            Err(error) => vec![format!("error getting the actions that remove volumes: {}", describe(&error))],
        };
    }
    match context.plugins.open(Some(&backup.journal(context))).await {
        Err(error) => vec![format!("error starting the plugins that delete volume snapshots: {}", describe(&error))],
        Ok(tools) => {
            let left = remove_by(context, backup, &tools.actions, &mut saved, why).await;
            tools.close().await;
            left
        }
    }
}

async fn remove_by(
    context: &Context,
    backup: &Backup,
    actions: &Actions,
    saved: &mut SavedVolumes,
    why: Why,
) -> Vec<String> {
    let after_run = after_run(context, backup, actions);
    match why {
        Why::Failed => after_run.discard(saved).await,
        Why::Deleted => after_run.delete(saved).await,
    }
}

fn after_run<'a>(context: &'a Context, backup: &'a Backup, actions: &'a Actions) -> AfterRun<'a> {
    AfterRun { backup, actions, features: &context.settings.features }
}

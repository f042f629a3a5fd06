//! The objects that move data for a backup: they go with it, whoever should have let go of them.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use velero_api::finalizers::{DATA_UPLOAD_DOWNLOAD, POD_VOLUME};
use velero_api::labels;
use velero_api::metadata::{label, name, uid};
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, PodVolumeBackup};
use velero_api::v2alpha1::DataUpload;

use crate::lifecycle::movers::try_cancel_of_backup;
use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result};

/// How long transfers may take to end that were told to.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long their agents may take to clean up after those that were deleted.
const CLEAN_UP_PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two looks at them.
const PAUSE: Duration = Duration::from_secs(1);

/// The transfers of a backup that are in the cluster.
pub(super) async fn transfers_of(
    context: &Context,
    backup: &Backup,
) -> Result<(Vec<PodVolumeBackup>, Vec<DataUpload>)> {
    Ok((of_kind(context, backup).await?, of_kind(context, backup).await?))
}

async fn of_kind<K: VeleroResource>(context: &Context, backup: &Backup) -> Result<Vec<K>> {
    let selector = format!("{}={}", labels::BACKUP_NAME, labels::valid_value(name(backup)));
    let mut found = context.objects.list::<K>(&selector).await?;
    // One of an earlier backup of the same name is not ours.
    found.retain(|transfer| {
        let owner = label(transfer, labels::BACKUP_UID);
        owner.is_empty() || owner == uid(backup)
    });
    Ok(found)
}

/// Tells the transfers of a backup to stop, and waits a while until they have.
pub(super) async fn end_transfers(context: &Context, backup: &Backup) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    let mut told = false;
    loop {
        let (copies, uploads) = transfers_of(context, backup).await?;
        let running_copies = copies.iter().filter(|copy| !copy.status.phase().is_terminal()).map(name);
        let running_uploads = uploads.iter().filter(|upload| !upload.status.phase().is_terminal()).map(name);
        let running: Vec<&str> = running_copies.chain(running_uploads).collect();
        if running.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            tracing::warn!(
                backup = name(backup),
                transfers = running.join(", "),
                "Transfers did not end when told to and are removed; their pods go with them"
            );
            return Ok(());
        }
        if !told {
            // Who could not be told is told at the next look.
            told = try_cancel_of_backup(context, backup, "the backup is being deleted").await.is_ok();
        }
        pause(context, backup).await?;
    }
}

/// Removes the transfers of a backup.
pub(super) async fn remove_transfers(context: &Context, backup: &Backup) -> Result<()> {
    let (copies, uploads) = transfers_of(context, backup).await?;
    for copy in &copies {
        context.objects.delete(copy).await?;
    }
    for upload in &uploads {
        context.objects.delete(upload).await?;
    }
    // Their agents remove what they made for them first, and let them go then.
    let end = Instant::now() + CLEAN_UP_PATIENCE;
    while Instant::now() < end {
        let (copies, uploads) = transfers_of(context, backup).await?;
        if copies.is_empty() && uploads.is_empty() {
            return Ok(());
        }
        pause(context, backup).await?;
    }
    for copy in &copies {
        let_go(context, copy, POD_VOLUME).await?;
    }
    for upload in &uploads {
        let_go(context, upload, DATA_UPLOAD_DOWNLOAD).await?;
    }
    Ok(())
}

/// Takes the finalizer off a transfer that was deleted: it is that of a node agent, which may be gone for good.
async fn let_go<K: VeleroResource>(context: &Context, transfer: &K, finalizer: &str) -> Result<()> {
    let Some(left) = context.objects.get::<K>(name(transfer)).await? else { return Ok(()) };
    if uid(&left) != uid(transfer) {
        return Ok(());
    }
    let mut released = left.clone();
    if let Some(finalizers) = &mut released.meta_mut().finalizers {
        finalizers.retain(|found| found != finalizer);
    }
    match context.objects.force(&left, &released).await {
        Err(Error::Cluster(error)) if error.is_not_found() => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Waits a moment; a server that is told to end leaves the rest of the deletion to the next one.
async fn pause(context: &Context, backup: &Backup) -> Result<()> {
    tokio::select! {
        () = sleep(PAUSE) => Ok(()),
        () = context.stop.cancelled() => {
            let problem = "the server is told to end; its deletion goes on when a server starts";
            Err(Error::unmet("Backup", name(backup), problem))
        }
    }
}

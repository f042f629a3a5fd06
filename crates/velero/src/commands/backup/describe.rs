//! `velero backup describe`

use anyhow::{Result, bail};
use futures::join;
use velero_api::labels;
use velero_api::metadata;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, DeleteBackupRequest, DownloadTargetKind, PodVolumeBackup};

use crate::arguments::BackupDescribeArguments;
use crate::download::Downloader;
use crate::output::Clock;
use crate::output::describe::{BackupFiles, FetchError, Manner, describe_backup, describe_backup_as_json};
use crate::session::Session;

/// Describes backups.
pub(crate) async fn describe(session: &Session, arguments: &BackupDescribeArguments) -> Result<()> {
    let format = arguments.output.as_str();
    if !matches!(format, "plaintext" | "json") {
        bail!("invalid output format '{format}'. valid value are 'plaintext, json'");
    }
    let list = &arguments.describe.list;
    let backups = session.select::<Backup>(&list.names, &list.selector).await?.items;
    let manner = Manner { clock: Clock::system(), style: session.printer.style, details: arguments.describe.details };
    let as_json = format == "json" && backups.len() == 1;
    for (position, backup) in backups.iter().enumerate() {
        let uid = metadata::uid(backup);
        let of_backup = format!("{}={}", labels::BACKUP_NAME, labels::valid_value(metadata::name(backup)));
        let deletions: Vec<DeleteBackupRequest> =
            related(session, backup, &format!("{of_backup},{}={uid}", labels::BACKUP_UID), "DeleteBackupRequests")
                .await;
        let pod_volumes: Vec<PodVolumeBackup> = related(session, backup, &of_backup, "PodVolumeBackups").await;
        let files = fetch(session, arguments, backup).await?;
        if as_json {
            return session.printer.print(describe_backup_as_json(backup, &deletions, &pod_volumes, &files, &manner)?);
        }
        let separator = if position == 0 { "" } else { "\n\n" };
        let text = describe_backup(backup, &deletions, &pod_volumes, &files, &manner);
        session.printer.print(format_args!("{separator}{text}"))?;
    }
    Ok(())
}

/// Objects that belong to a backup; that they cannot be listed does not keep the backup from being described.
async fn related<K: VeleroResource>(session: &Session, backup: &Backup, selector: &str, what: &str) -> Vec<K> {
    match session.list(selector).await {
        Ok(listed) => listed.items,
        Err(error) => {
            session.printer.note(format_args!("error getting {what} for backup {}: {error:#}", metadata::name(backup)));
            Vec::new()
        }
    }
}

/// Fetches the files the description needs, at the same time.
async fn fetch(session: &Session, arguments: &BackupDescribeArguments, backup: &Backup) -> Result<BackupFiles> {
    let (status, name) = (&backup.status, metadata::name(backup));
    let details = arguments.describe.details;
    let downloader = Downloader::new(session, &arguments.describe.download, &backup.spec.storage_location).await?;
    let (results, operations, resource_list, volume_infos) = join!(
        wanted(status.errors > 0 || status.warnings > 0, downloader.fetch(DownloadTargetKind::BackupResults, name)),
        wanted(
            details && status.backup_item_operations_attempted > 0,
            downloader.fetch(DownloadTargetKind::BackupItemOperations, name)
        ),
        wanted(details, downloader.fetch(DownloadTargetKind::BackupResourceList, name)),
        downloader.fetch(DownloadTargetKind::BackupVolumeInfos, name),
    );
    let mut files =
        BackupFiles { results, operations, resource_list, volume_infos: Some(volume_infos), ..BackupFiles::default() };
    // Backups of old versions tell about their volumes in other files.
    if matches!(files.volume_infos, Some(Err(FetchError::NotFound))) {
        if status.volume_snapshots_attempted > 0 {
            files.native_snapshots = Some(downloader.fetch(DownloadTargetKind::BackupVolumeSnapshots, name).await);
        }
        if status.csi_volume_snapshots_attempted > 0 {
            let (snapshots, contents) = join!(
                downloader.fetch(DownloadTargetKind::CsiBackupVolumeSnapshots, name),
                downloader.fetch(DownloadTargetKind::CsiBackupVolumeSnapshotContents, name),
            );
            files.csi_snapshots = Some(snapshots.and_then(|snapshots| Ok((snapshots, contents?))));
        }
    }
    Ok(files)
}

/// Does the work only if its result is wanted.
pub(crate) async fn wanted<T>(is_wanted: bool, work: impl Future<Output = T>) -> Option<T> {
    if is_wanted { Some(work.await) } else { None }
}

//! `velero restore describe`

use anyhow::Result;
use futures::join;
use velero_api::labels;
use velero_api::metadata;
use velero_api::v1::{DownloadTargetKind, PodVolumeRestore, Restore};

use crate::arguments::DescribeArguments;
use crate::commands::backup::wanted;
use crate::download::{Downloader, location_of_restore};
use crate::output::Clock;
use crate::output::describe::{Manner, RestoreFiles, describe_restore};
use crate::session::Session;

/// Describes restores.
pub(crate) async fn describe(session: &Session, arguments: &DescribeArguments) -> Result<()> {
    let restores = session.select::<Restore>(&arguments.list.names, &arguments.list.selector).await?.items;
    let manner = Manner { clock: Clock::system(), style: session.printer.style, details: arguments.details };
    for (position, restore) in restores.iter().enumerate() {
        let name = metadata::name(restore);
        let selector = format!("{}={}", labels::RESTORE_NAME, labels::valid_value(name));
        let pod_volumes =
            session.list::<PodVolumeRestore>(&selector).await.map(|listed| listed.items).unwrap_or_else(|error| {
                session.printer.note(format_args!("error getting PodVolumeRestores for restore {name}: {error:#}"));
                Vec::new()
            });
        let files = fetch(session, arguments, restore).await?;
        let separator = if position == 0 { "" } else { "\n\n" };
        let text = describe_restore(restore, &pod_volumes, &files, &manner);
        session.printer.print(format_args!("{separator}{text}"))?;
    }
    Ok(())
}

/// Fetches the files the description needs, at the same time.
async fn fetch(session: &Session, arguments: &DescribeArguments, restore: &Restore) -> Result<RestoreFiles> {
    let (status, name, details) = (&restore.status, metadata::name(restore), arguments.details);
    let location = location_of_restore(session, restore).await?;
    let downloader = Downloader::new(session, &arguments.download, &location).await?;
    let (results, operations, resource_list, volume_infos) = join!(
        wanted(status.errors > 0 || status.warnings > 0, downloader.fetch(DownloadTargetKind::RestoreResults, name)),
        wanted(
            details && status.restore_item_operations_attempted > 0,
            downloader.fetch(DownloadTargetKind::RestoreItemOperations, name)
        ),
        wanted(details, downloader.fetch(DownloadTargetKind::RestoreResourceList, name)),
        downloader.fetch(DownloadTargetKind::RestoreVolumeInfo, name),
    );
    Ok(RestoreFiles { results, operations, resource_list, volume_infos: Some(volume_infos) })
}

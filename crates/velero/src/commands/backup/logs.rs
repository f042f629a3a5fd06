//! `velero backup logs`

use std::io;

use anyhow::{Result, anyhow, bail};
use velero_api::v1::{Backup, DownloadTargetKind};

use crate::arguments::LogsArguments;
use crate::download::Downloader;
use crate::session::Session;

/// Prints the log of a backup.
pub(crate) async fn logs(session: &Session, arguments: &LogsArguments) -> Result<()> {
    let name = &arguments.name;
    let found = session.find::<Backup>(name).await;
    let found = found.map_err(|error| anyhow!("error checking for backup {name:?}: {error:#}"))?;
    let backup = found.ok_or_else(|| anyhow!("backup {name:?} does not exist"))?;
    if !backup.status.phase().stage().has_log() {
        bail!(
            "logs for backup {name:?} are not available until it's finished processing, please wait until the backup has a \
             phase of Completed or Failed and try again"
        );
    }
    let downloader = Downloader::new(session, &arguments.download, &backup.spec.storage_location).await?;
    let patience = arguments.timeout.to_std();
    let sent = downloader.stream(DownloadTargetKind::BackupLog, name, patience, &mut io::stdout()).await;
    let status = &backup.status;
    sent.map_err(|error| error.of_log(&format!("backup {name:?}"), status.phase().as_str(), &status.failure_reason))
}

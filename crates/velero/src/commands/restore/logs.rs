//! `velero restore logs`

use std::io;

use anyhow::{Result, anyhow, bail};
use velero_api::v1::{DownloadTargetKind, Restore};

use crate::arguments::LogsArguments;
use crate::download::{Downloader, location_of_restore};
use crate::session::Session;

/// Prints the log of a restore.
pub(crate) async fn logs(session: &Session, arguments: &LogsArguments) -> Result<()> {
    let name = &arguments.name;
    let found = session.find::<Restore>(name).await;
    let found = found.map_err(|error| anyhow!("error checking for restore {name:?}: {error:#}"))?;
    let restore = found.ok_or_else(|| anyhow!("restore {name:?} does not exist"))?;
    if !restore.status.phase().stage().has_log() {
        bail!(
            "logs for restore {name:?} are not available until it's finished processing, please wait until the restore has \
             a phase of Completed or Failed and try again"
        );
    }
    let location = location_of_restore(session, &restore).await?;
    let downloader = Downloader::new(session, &arguments.download, &location).await?;
    let patience = arguments.timeout.to_std();
    let sent = downloader.stream(DownloadTargetKind::RestoreLog, name, patience, &mut io::stdout()).await;
    let status = &restore.status;
    sent.map_err(|error| error.of_log(&format!("restore {name:?}"), status.phase().as_str(), &status.failure_reason))
}

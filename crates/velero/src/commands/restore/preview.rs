//! `velero restore create --dry-run`
//!
//! What the server would do, found out here: the files of the backup are fetched as for a description, the cluster is
//! asked as the person who runs the command may ask it, and nothing is restored.

use anyhow::{Result, bail, ensure};
use velero_api::v1::{DownloadTargetKind, Restore};
use velero_controllers::server::Settings;
use velero_controllers::{PreparedRestore, prepare_restore};
use velero_engine::Journal;
use velero_engine::journal::{Level, LogFormat};
use velero_engine::restore::preview;

use crate::arguments::{DownloadArguments, OutputArguments};
use crate::commands::select::name_of;
use crate::download::Downloader;
use crate::output::describe::FetchError;
use crate::output::{Format, RestorePreview, print_value};
use crate::session::Session;

/// How long the archive may take to begin.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Shows what a restore would do; an error when it would not do all of it.
pub(super) async fn show(session: &Session, restore: &Restore, output: &OutputArguments) -> Result<()> {
    let format = Format::parse(output.output.as_deref())?.unwrap_or(Format::Table);
    let settings = Settings {
        namespace: session.namespace().to_owned(),
        features: session.settings.features.clone(),
        ..Settings::default()
    };
    let prepared = prepare_restore(&session.cluster, &settings, restore).await?;
    if !prepared.problems.is_empty() {
        bail!("the restore would be refused: {}", prepared.problems.join("; "));
    }
    let location = prepared.location.as_ref().map(name_of).unwrap_or_default();
    let downloader = Downloader::new(session, &DownloadArguments::default(), location).await?;
    let found = look(session, &settings, prepared, &downloader).await;
    downloader.remove_requests().await;
    let found = found?;
    match format {
        Format::Table => session.printer.print(found.table())?,
        format => print_value(session.printer, &found, format)?,
    }
    if format == Format::Table {
        found.messages().iter().for_each(|message| session.printer.note(message));
    }
    ensure!(found.failures() == 0, "{} objects would not be restored", found.failures());
    Ok(())
}

async fn look(
    session: &Session,
    settings: &Settings,
    prepared: PreparedRestore,
    downloader: &Downloader<'_>,
) -> Result<RestorePreview> {
    let backup = prepared.restore.spec.backup_name.clone();
    let volumes = match downloader.fetch(DownloadTargetKind::BackupVolumeInfos, &backup).await {
        Ok(volumes) => volumes,
        // Backups of old versions have no such file.
        Err(FetchError::NotFound) => Vec::new(),
        Err(error) => bail!("cannot read what backup {backup:?} did with volumes: {error}"),
    };
    let archive = downloader.reader(DownloadTargetKind::BackupContents, &backup, PATIENCE).await?;
    let restore = name_of(&prepared.restore).to_owned();
    let journal = Journal::for_restore(session.namespace(), &restore, LogFormat::Text, Level::Warning);
    let request = prepared.request(&session.cluster, settings, volumes).await?;
    let preview = preview(request, archive, &journal).await?;
    Ok(RestorePreview::new(&backup, preview, journal.results()))
}

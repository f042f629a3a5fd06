//! What a restore would do, found out without the server: the files of the backup are fetched as for a description, the
//! cluster is asked as the person who runs the command may ask it, and nothing is restored.

use anyhow::{Result, bail};
use velero_api::metadata;
use velero_api::v1::{DownloadTargetKind, Restore};
use velero_controllers::server::Settings;
use velero_controllers::{PreparedRestore, prepare_restore};
use velero_engine::Journal;
use velero_engine::journal::{Level, LogFormat};
use velero_engine::restore::preview;

use super::Found;
use crate::arguments::DownloadArguments;
use crate::download::Downloader;
use crate::output::RestorePreview;
use crate::output::describe::FetchError;
use crate::session::Session;

/// How long the archive may take to begin.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// What a restore would do, as far as can be told from here.
pub(super) async fn look(session: &Session, restore: &Restore) -> Result<Found> {
    let settings = Settings {
        namespace: session.namespace().to_owned(),
        features: session.settings.features.clone(),
        ..Settings::default()
    };
    let prepared = prepare_restore(&session.cluster, &settings, restore).await?;
    if !prepared.problems.is_empty() {
        return Ok(Found::Refused(prepared.problems));
    }
    let location = prepared.location.as_ref().map(metadata::name).unwrap_or_default();
    let downloader = Downloader::new(session, &DownloadArguments::default(), location).await?;
    let found = look_with(session, &settings, prepared, &downloader).await;
    downloader.remove_requests().await;
    found.map(|plan| Found::Plan(Box::new(plan)))
}

async fn look_with(
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
    let restore = metadata::name(&prepared.restore).to_owned();
    let journal = Journal::for_restore(session.namespace(), &restore, LogFormat::Text, Level::Warning);
    let request = prepared.request(&session.cluster, settings, volumes).await?;
    let preview = preview(request, archive, &journal).await?;
    let results = journal.results();
    Ok(RestorePreview::new(&backup, preview, results.warnings, results.errors))
}

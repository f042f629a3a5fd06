//! What is said of a backup or restore that was waited for, and how the command ends then.

use anyhow::Result;
use velero_api::metadata;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, DownloadTargetKind, Ending, Restore};

use crate::arguments::DownloadArguments;
use crate::commands::backup::wanted;
use crate::download::{Downloader, location_of_restore};
use crate::exit_status::NotCompleted;
use crate::output::describe::FetchError;
use crate::output::{Outcome, ending};
use crate::session::Session;

/// How a backup or restore ended, whichever it was.
pub(crate) struct End<'a> {
    word: &'static str,
    name: &'a str,
    phase: &'a str,
    ending: Option<Ending>,
    counts: (i64, i64),
    reasons: Vec<&'a str>,
    results: DownloadTargetKind,
    /// The location of its files.
    location: Result<String>,
}

impl<'a> End<'a> {
    /// How a backup ended.
    pub(crate) fn of_backup(backup: &'a Backup) -> Self {
        let status = &backup.status;
        Self {
            word: "backup",
            name: metadata::name(backup),
            phase: status.phase().as_str(),
            ending: status.phase().ending(),
            counts: (status.errors, status.warnings),
            reasons: reasons(&status.validation_errors, &status.failure_reason),
            results: DownloadTargetKind::BackupResults,
            location: Ok(backup.spec.storage_location.clone()),
        }
    }

    /// How a restore ended.
    pub(crate) async fn of_restore(session: &Session, restore: &'a Restore) -> Self {
        let status = &restore.status;
        Self {
            word: "restore",
            name: metadata::name(restore),
            phase: status.phase().as_str(),
            ending: status.phase().ending(),
            counts: (status.errors, status.warnings),
            reasons: reasons(&status.validation_errors, &status.failure_reason),
            results: DownloadTargetKind::RestoreResults,
            location: location_of_restore(session, restore).await,
        }
    }

    /// Says how it ended and what went wrong. With `exit_status`, a command that waited for what did not complete ends with
    /// the code of its phase.
    pub(crate) async fn tell(self, session: &Session, exit_status: bool) -> Result<()> {
        let Self { word, name, phase, ending: end, counts, reasons, results, location } = self;
        let kind = if word == "backup" { Backup::KIND } else { Restore::KIND };
        session.printer.line(format_args!(
            "\n{kind} completed with status: {phase}. You may check for more information using the commands `velero {word} describe {name}` and `velero {word} logs {name}`."
        ))?;
        let fetch = async {
            let failed = |error| FetchError::Failed(format!("{error:#}"));
            let downloader = Downloader::new(session, &DownloadArguments::default(), &location.map_err(failed)?).await;
            downloader.map_err(failed)?.fetch(results, name).await
        };
        let results = wanted(counts.0 + counts.1 > 0, fetch).await;
        let describe = format!("velero {word} describe {name}");
        let outcome = Outcome { counts, reasons: &reasons, results: results.as_ref(), describe: &describe };
        session.printer.line(ending(&outcome))?;
        match NotCompleted::of(end).filter(|_| exit_status) {
            Some(not_completed) => Err(not_completed.into()),
            None => Ok(()),
        }
    }
}

fn reasons<'a>(validation_errors: &'a [String], failure_reason: &'a str) -> Vec<&'a str> {
    let failure = Some(failure_reason).filter(|reason| !reason.is_empty());
    validation_errors.iter().map(String::as_str).chain(failure).collect()
}

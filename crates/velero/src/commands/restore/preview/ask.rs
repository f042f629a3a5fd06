//! Asks the server what a restore would do, by a Restore that no server carries out ([`velero_api::dry_run`]).

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use kube::api::PostParams;
use tokio::time::{Instant, sleep};
use velero_api::dry_run;
use velero_api::metadata;
use velero_api::v1::{Backup, DownloadTargetKind, Ending, Restore};
use velero_controllers::DryRunReport;
use velero_engine::restore::Preview;

use super::Found;
use crate::arguments::DownloadArguments;
use crate::download::Downloader;
use crate::output::RestorePreview;
use crate::session::{Session, api_error};

/// A server that has not taken the request by then does not know what it means, or does not run.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// How long the answer may take once a server works on it. It removes the request itself after that.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3600);
/// How long the request may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// What the server says about a restore.
pub(super) async fn server(session: &Session, restore: &Restore) -> Result<Found> {
    let name = format!("dry-run-{}", uuid::Uuid::new_v4().simple());
    let request = dry_run::ask(restore, &name);
    match session.api::<Restore>().create(&PostParams::default(), &request).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Ok(Found::NoAnswer(format!("the server cannot be asked: {}", status.message)));
        }
        Err(error) => return Err(api_error(error)),
    }
    let found = wait(session, &name).await;
    let gone = remove(session, &name).await;
    let found = found?;
    if let Err(error) = gone {
        session.printer.note(format_args!("warning: the request {name} for the dry run is left: {error:#}"));
    }
    Ok(found)
}

async fn wait(session: &Session, name: &str) -> Result<Found> {
    let begin = Instant::now();
    loop {
        let request: Restore = session.get(name).await?;
        let is_taken = dry_run::taken_by(&request).is_some();
        match request.status.phase().ending() {
            None => {}
            Some(_) if !is_taken => {
                return Ok(Found::NoAnswer("the Velero server does not know dry runs".to_owned()));
            }
            Some(Ending::Completed) => return report(session, &request).await,
            Some(Ending::FailedValidation) => return Ok(Found::Refused(request.status.validation_errors)),
            Some(Ending::PartiallyFailed | Ending::Failed) => {
                bail!("the server cannot say what the restore would do: {}", request.status.failure_reason)
            }
        }
        if !is_taken && begin.elapsed() > TAKEN_WITHIN {
            let seconds = TAKEN_WITHIN.as_secs();
            return Ok(Found::NoAnswer(format!("no Velero server has taken the question within {seconds} seconds")));
        }
        if begin.elapsed() > ANSWERED_WITHIN {
            bail!("the server has not said within {ANSWERED_WITHIN:?} what the restore would do; see its log");
        }
        sleep(POLL).await;
    }
}

async fn report(session: &Session, request: &Restore) -> Result<Found> {
    let backup: Backup = session.get(&request.spec.backup_name).await?;
    let downloader = Downloader::new(session, &DownloadArguments::default(), &backup.spec.storage_location).await?;
    let report = downloader.fetch::<DryRunReport>(DownloadTargetKind::RestoreResults, metadata::name(request)).await;
    downloader.remove_requests().await;
    let DryRunReport { backup, items, warnings, errors } =
        report.map_err(|error| anyhow!("cannot read what the server found out: {error}"))?;
    Ok(Found::Plan(Box::new(RestorePreview::new(&backup, Preview { items }, warnings, errors))))
}

/// Removes the request; the server removes what it stored.
async fn remove(session: &Session, name: &str) -> Result<()> {
    session.delete::<Restore>(name).await?;
    let begin = Instant::now();
    while session.find::<Restore>(name).await?.is_some() {
        if begin.elapsed() > GONE_WITHIN {
            bail!("it has not gone within {GONE_WITHIN:?}; the server removes it when its location can be reached");
        }
        sleep(POLL).await;
    }
    Ok(())
}

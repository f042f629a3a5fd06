//! Lets repositories be maintained: by Jobs where the server runs in a Deployment, else in this process.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::Semaphore;
use velero_api::metadata::name;
use velero_api::v1::{
    BackupRepository, BackupRepositoryMaintenanceResult, BackupRepositoryMaintenanceStatus, BackupStorageLocation,
};
use velero_rules::repository_config::JobConfig;
use velero_rules::repository_maintenance::{self as rules, Due, JobState, MaintenanceJob};

use crate::repository::job_template::{LogForm, job};
use crate::repository::jobs;
use crate::repository::settings::job_config;
use crate::repository::state::{PERIOD, RE_ESTABLISH, write_not_ready};
use crate::repository::work::maintain_repository;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::driver::Next;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::store_message::explain;

/// How soon a Job that works is looked at again.
const WHILE_RUNNING: Duration = Duration::from_secs(5);

/// Writes down what Jobs did, lets old ones go, and begins the next maintenance when it is due.
pub(super) async fn maintain_if_due(
    context: &Context,
    repository: &BackupRepository,
    in_process: &Semaphore,
) -> Result<Next> {
    let place = &repository.spec.backup_storage_location;
    let Some(location) = context.objects.get::<BackupStorageLocation>(place).await? else {
        write_not_ready(context, repository, RE_ESTABLISH.to_owned()).await?;
        return Ok(Next::After(PERIOD));
    };
    if location.is_read_only() {
        return Ok(Next::After(PERIOD));
    }
    let found = jobs::list(context, repository).await?;
    let repository = &end_stuck(context, repository, &found).await?;
    let repository = &record_ended(context, repository, &found).await?;
    let config = job_config(context, repository).await;
    let keep = config.keep_latest_maintenance_jobs.unwrap_or(rules::KEPT_JOBS);
    for job in rules::superfluous(&found, keep) {
        jobs::let_go(context, job).await;
    }
    let (now, status) = (clock::now(), &repository.status);
    let last = status.last_maintenance_time.as_ref().map(|time| time.0);
    let frequency = repository.spec.maintenance_frequency.or(context.settings.repositories.maintenance_frequency());
    match rules::due(&found, &status.recent_maintenance, last, frequency, now) {
        Due::Running(_) => Ok(Next::After(WHILE_RUNNING)),
        Due::At(moment) => Ok(Next::After(clock::until(moment, now).min(PERIOD))),
        // What is away cannot be maintained, and says so itself.
        Due::Now if !location.is_available() => Ok(Next::After(PERIOD)),
        Due::Now => match jobs::server_deployment(context).await? {
            Some(deployment) => begin_job(context, repository, &deployment, &config).await,
            None => maintain_here(context, repository, &location, in_process).await,
        },
    }
}

/// Writes down the Jobs whose pods do not come to start, each once, and ends them: the next may be luckier. Their pods go with
/// them, and what these said: so it is written first.
async fn end_stuck(
    context: &Context,
    repository: &BackupRepository,
    found: &[MaintenanceJob],
) -> Result<BackupRepository> {
    let (mut recorded, now) = (repository.clone(), clock::now());
    for job in rules::overdue(found, now) {
        let Some(obstacle) = jobs::obstacle(context, &job.name).await else { continue };
        if !rules::is_recorded(job, &recorded.status.recent_maintenance) {
            let message = format!(
                "Failed to start maintenance job, err: Job {} has not started within {} minutes and is ended, {obstacle}",
                job.name,
                rules::STARTS_WITHIN.as_mins()
            );
            recorded = record(context, &recorded, vec![ended_run(false, job.created, Some(now), message)]).await?;
        }
        jobs::end(context, &job.name).await;
    }
    Ok(recorded)
}

/// Writes down the Jobs that have ended since; each once.
async fn record_ended(
    context: &Context,
    repository: &BackupRepository,
    found: &[MaintenanceJob],
) -> Result<BackupRepository> {
    let mut further = Vec::new();
    for job in rules::unrecorded(found, &repository.status.recent_maintenance) {
        further.push(result_of(context, job).await);
    }
    if further.is_empty() {
        return Ok(repository.clone());
    }
    record(context, repository, further).await
}

async fn result_of(context: &Context, job: &MaintenanceJob) -> BackupRepositoryMaintenanceStatus {
    let (is_success, ended, message) = match job.state {
        JobState::Succeeded(ended) => (true, ended.or(Some(clock::now())), String::new()),
        JobState::Failed(ended) => (false, ended, jobs::failure(context, &job.name).await),
        JobState::Running => (false, None, String::new()),
    };
    ended_run(is_success, job.created, ended, message)
}

fn ended_run(
    is_success: bool,
    start: Timestamp,
    end: Option<Timestamp>,
    message: String,
) -> BackupRepositoryMaintenanceStatus {
    let result = match is_success {
        true => BackupRepositoryMaintenanceResult::Succeeded,
        false => BackupRepositoryMaintenanceResult::Failed,
    };
    BackupRepositoryMaintenanceStatus {
        result: Some(result),
        start_timestamp: Some(Time(start)),
        complete_timestamp: end.map(Time),
        message,
        ..BackupRepositoryMaintenanceStatus::default()
    }
}

/// Writes down how maintenance ended, and counts it.
async fn record(
    context: &Context,
    repository: &BackupRepository,
    further: Vec<BackupRepositoryMaintenanceStatus>,
) -> Result<BackupRepository> {
    let mut recorded = repository.clone();
    let status = &mut recorded.status;
    if let Some(success) = rules::last_success(&further)
        && status.last_maintenance_time.as_ref().is_none_or(|last| last.0 < success)
    {
        status.last_maintenance_time = Some(Time(success));
    }
    status.recent_maintenance = rules::with_results(&status.recent_maintenance, further.clone());
    let recorded = context.objects.patch(repository, &recorded).await?;
    // Counted once it is written: who lost a race for the object has nothing to tell.
    for run in &further {
        report(context, repository, run);
    }
    Ok(recorded)
}

fn report(context: &Context, repository: &BackupRepository, run: &BackupRepositoryMaintenanceStatus) {
    let is_success = run.result == Some(BackupRepositoryMaintenanceResult::Succeeded);
    let times = run.start_timestamp.as_ref().zip(run.complete_timestamp.as_ref());
    let seconds = times.map(|(start, end)| end.0.duration_since(start.0).as_secs_f64());
    context.metrics.maintenance_ended(name(repository), is_success, seconds);
    match is_success {
        true => tracing::info!(repository = name(repository), "The repository was maintained"),
        false => {
            tracing::warn!(repository = name(repository), message = run.message, "The maintenance failed");
        }
    }
}

/// Begins a Job; one that cannot be begun is told of like one that failed.
async fn begin_job(
    context: &Context,
    repository: &BackupRepository,
    deployment: &Deployment,
    config: &JobConfig,
) -> Result<Next> {
    let settings = &context.settings;
    let log = LogForm { level: &settings.log.log_level, format: settings.log.log_format.as_str() };
    let start = clock::now();
    let problem = match job(repository, deployment, config, &log, Timestamp::now().as_millisecond()) {
        Err(problem) => problem.0,
        Ok(job) => match jobs::create(context, &job).await {
            Ok(()) => {
                tracing::info!(repository = name(repository), job = name(&job), "A maintenance Job was begun");
                return Ok(Next::After(WHILE_RUNNING));
            }
            // It may have been made: the next look tells.
            Err(error) if error.is_unanswered() => return Err(Error::Cluster(error)),
            Err(error) => describe(&error),
        },
    };
    let message = format!("Failed to start maintenance job, err: {problem}");
    record(context, repository, vec![ended_run(false, start, None, message)]).await?;
    Ok(Next::After(PERIOD))
}

/// Maintains a repository in this process: a server that runs in no Deployment has no pod to make a Job of. One at a time, so
/// that the memory of the server has a bound.
async fn maintain_here(
    context: &Context,
    repository: &BackupRepository,
    location: &BackupStorageLocation,
    in_process: &Semaphore,
) -> Result<Next> {
    let Ok(_permit) = in_process.acquire().await else { return Ok(Next::Change) };
    let start = clock::now();
    let namespace = &repository.spec.volume_namespace;
    let outcome = maintain_repository(&context.repositories, location, namespace, context.stop.child_token()).await;
    if context.stop.is_cancelled() && outcome.is_err() {
        return Ok(Next::Change);
    }
    let message = outcome.err().map(|error| explain(&error));
    let run = ended_run(message.is_none(), start, Some(clock::now()), message.unwrap_or_default());
    // It may have changed meanwhile; what was done is true of it all the same.
    let Some(current) = context.objects.get::<BackupRepository>(name(repository)).await? else {
        return Ok(Next::Change);
    };
    record(context, &current, vec![run]).await?;
    Ok(Next::After(PERIOD))
}

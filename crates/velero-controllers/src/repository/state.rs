//! What the status of a BackupRepository says of its readiness.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::metadata::name;
use velero_api::v1::{BackupRepository, BackupRepositoryPhase};

use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::error::Result;

/// How often a repository that is not ready is tried again, and one that is looked at.
pub(super) const PERIOD: Duration = Duration::from_secs(5 * 60);
/// What Velero writes into repositories whose location has changed.
pub(super) const RE_ESTABLISH: &str = "re-establish on BSL change, create or delete";

/// Says that a repository can be used.
pub(super) async fn write_ready(context: &Context, repository: &BackupRepository) -> Result<BackupRepository> {
    let mut ready = repository.clone();
    ready.status.phase = Some(BackupRepositoryPhase::Ready);
    ready.status.message.clear();
    ready.status.last_maintenance_time.get_or_insert_with(|| Time(clock::now()));
    let ready = context.objects.patch(repository, &ready).await?;
    tracing::info!(repository = name(repository), "The repository is ready");
    Ok(ready)
}

/// Says why a repository cannot be used.
pub(super) async fn write_not_ready(context: &Context, repository: &BackupRepository, problem: String) -> Result<()> {
    tracing::warn!(repository = name(repository), problem, "The repository is not ready");
    let mut not_ready = repository.clone();
    not_ready.status.phase = Some(BackupRepositoryPhase::NotReady);
    not_ready.status.message = problem;
    context.objects.patch(repository, &not_ready).await?;
    Ok(())
}

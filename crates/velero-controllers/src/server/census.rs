//! Figures that only a look at all objects gives.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use velero_api::metadata::name;
use velero_api::v1::{Backup, BackupRepository, BackupStorageLocation, Restore, Schedule};
use velero_cluster::{ListedMetadata, list_metadata_kept};

use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::error::{Result, describe};
use crate::server::standing::Standing;

/// The time between two looks, and until the first one of a server that waits.
const PERIODS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(5)];
/// How soon a look follows another at the least, when something has ended.
const SOONEST: Duration = Duration::from_secs(5);
/// How many times longer than a look the pause after it is at the least, so that thousands of backups are not read all the time.
const REST: u32 = 20;

/// Keeps the figures up to date that only a look at all objects gives: once a minute, and when a backup or restore has ended.
pub(crate) async fn count_all(context: SharedContext) {
    let [period, mut pause] = PERIODS;
    let mut rest = SOONEST;
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
            () = told(&context, rest) => {}
        }
        let is_first = std::mem::replace(&mut pause, period) != period;
        // Who leads has begun with it.
        if is_first && context.leadership.may_write() {
            continue;
        }
        let begun = Instant::now();
        if let Err(error) = count_once(&context).await {
            tracing::warn!(error = describe(&error), "The backups could not be counted");
        }
        rest = SOONEST.max(begun.elapsed().saturating_mul(REST));
    }
}

/// Waits until something has changed that is counted, and no shorter than the rest.
async fn told(context: &Context, rest: Duration) {
    tokio::time::sleep(rest).await;
    context.to_count.notified().await;
}

/// Reads these figures; the server begins with it, so that nobody sees others than those of the objects.
pub(crate) async fn count_once(context: &Context) -> Result<()> {
    let (objects, metrics) = (&context.objects, &context.metrics);
    let counted = metrics.counted_schedules();
    let mut standing = Standing::default();
    let visitor = |backup: Backup| {
        metrics.backup_seen(&backup);
        standing.see_backup(&backup);
    };
    objects.visit("", visitor).await?;
    objects.visit("", |restore: Restore| standing.see_restore(&restore)).await?;
    let now = clock::now();
    objects.visit("", |schedule: Schedule| standing.see_schedule(&schedule, now)).await?;
    see_repositories(context, &mut standing).await?;
    counted.iter().filter(|schedule| !standing.has_schedule(schedule)).for_each(|gone| metrics.end_schedule(gone));
    let namespaces = namespaces(context).await;
    metrics.put(&standing.figures(namespaces.as_deref()));
    Ok(())
}

/// Looks at repositories; those in locations that nobody writes to are not maintained.
async fn see_repositories(context: &Context, standing: &mut Standing) -> Result<()> {
    let repositories: Vec<BackupRepository> = context.objects.list("").await?;
    if repositories.is_empty() {
        return Ok(());
    }
    let locations: Vec<BackupStorageLocation> = context.objects.list("").await?;
    let is_read_only = |repository: &BackupRepository| {
        let mut found = locations.iter().filter(|found| name(*found) == repository.spec.backup_storage_location);
        found.any(BackupStorageLocation::is_read_only)
    };
    let usual = context.settings.repositories.maintenance_frequency();
    for repository in repositories.iter().filter(|repository| !is_read_only(repository)) {
        standing.see_repository(repository, repository.spec.maintenance_frequency.or(usual));
    }
    Ok(())
}

/// The namespaces of the cluster; nothing where the server may not list them, or is not answered.
async fn namespaces(context: &Context) -> Option<Vec<String>> {
    let keep = |metadata: ListedMetadata| Some(metadata.name);
    match list_metadata_kept::<Namespace, _>(context.objects.cluster().client(), keep).await {
        Ok(names) => Some(names),
        Err(error) => {
            tracing::debug!(error = describe(&error), "The namespaces cannot be listed, so none is counted");
            None
        }
    }
}

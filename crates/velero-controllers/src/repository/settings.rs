//! What the ConfigMaps say that flags of the server name. They are checked when it starts, and read again whenever they count.

use std::collections::BTreeMap;

use velero_api::metadata::name;
use velero_api::repository;
use velero_api::v1::BackupRepository;
use velero_rules::Unusable;
use velero_rules::repository_config::{self, JobConfig};

use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result, describe};

const REPOSITORY_FLAG: &str = "backup-repository-configmap";
const JOB_FLAG: &str = "repo-maintenance-job-configmap";

/// Refuses ConfigMaps that cannot be used, as Velero does, and resources of Jobs that contradict each other.
pub(crate) async fn check_config_maps(context: &Context) -> Result<()> {
    let settings = &context.settings.repositories;
    let refused = |flag| move |problem: Unusable| Error::Setting { flag, problem: problem.0 };
    if let Some(data) = read(context, &settings.backup_repository_configmap).await.map_err(refused(REPOSITORY_FLAG))? {
        repository_config::repository_settings(&data).map_err(refused(REPOSITORY_FLAG))?;
    }
    if let Some(data) = read(context, &settings.repo_maintenance_job_configmap).await.map_err(refused(JOB_FLAG))? {
        JobConfig::check(&data).map_err(refused(JOB_FLAG))?;
        let config_map = &settings.repo_maintenance_job_configmap;
        for key in &JobConfig::ignored(&data) {
            tracing::warn!(config_map, key, "The ConfigMap for maintenance has a setting that has no effect");
        }
    }
    let by_flags = JobConfig { pod_resources: Some(settings.job_resources()), ..JobConfig::default() };
    by_flags.resources().map(|_| ()).map_err(refused("maintenance-job-*"))
}

/// What a ConfigMap holds; `None` when none is named.
async fn read(context: &Context, config_map: &str) -> Result<Option<BTreeMap<String, String>>, Unusable> {
    if config_map.is_empty() {
        return Ok(None);
    }
    let found = context.objects.config_map(config_map).await.map_err(|error| Unusable(describe(&error)))?;
    let namespace = context.objects.namespace();
    let missing = || Unusable(format!("configmap {config_map:?} does not exist in namespace {namespace:?}; create it"));
    Ok(Some(found.ok_or_else(missing)?.data.unwrap_or_default()))
}

/// The settings for a new repository; `None` when there are none. Those that cannot be used are ignored, as in Velero, and
/// the log says so.
pub(super) async fn repository_settings(context: &Context) -> Result<Option<BTreeMap<String, String>>> {
    let config_map = &context.settings.repositories.backup_repository_configmap;
    let found = read(context, config_map).await;
    let found = found.and_then(|data| data.as_ref().map(repository_config::repository_settings).transpose());
    match found {
        Ok(None) => Ok(None),
        Ok(Some(found)) => {
            for key in &found.ignored {
                tracing::warn!(config_map, key, "The ConfigMap has a key for repositories that means nothing");
            }
            Ok(Some(found.settings))
        }
        Err(problem) => {
            tracing::warn!(config_map, %problem, "The ConfigMap for repositories cannot be used and is ignored");
            Ok(None)
        }
    }
}

/// How the maintenance Jobs of a repository are run. A ConfigMap that cannot be used is ignored, as in Velero, and the log
/// says so.
pub(super) async fn job_config(context: &Context, wanted: &BackupRepository) -> JobConfig {
    let settings = &context.settings.repositories;
    let config_map = &settings.repo_maintenance_job_configmap;
    let spec = &wanted.spec;
    let key = repository::name(&spec.volume_namespace, &spec.backup_storage_location, &spec.repository_type);
    let found = read(context, config_map).await;
    let found = found.and_then(|data| data.map(|data| JobConfig::read(&data, &key)).transpose());
    let mut config = found.unwrap_or_else(|problem| {
        tracing::warn!(repository = name(wanted), config_map, %problem, "The ConfigMap for maintenance is ignored");
        None
    });
    let config = config.get_or_insert_default();
    config.pod_resources.get_or_insert_with(|| settings.job_resources());
    config.keep_latest_maintenance_jobs.get_or_insert(settings.keep_latest_maintenance_jobs);
    std::mem::take(config)
}

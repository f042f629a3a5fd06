//! The flags of `velero server` about repositories of volume data.

use clap::Args;
use velero_api::GoDuration;
use velero_rules::repository_config::PodResources;
use velero_rules::repository_maintenance::KEPT_JOBS;

/// How often kopia repositories are maintained unless somebody says otherwise, as in Velero.
const FREQUENCY: GoDuration = GoDuration::from_hours(1);

/// How repositories are made and maintained.
#[derive(Args, Clone, Debug)]
pub struct RepositorySettings {
    /// How often backup repositories are maintained by default; 0s means every hour
    #[arg(long, default_value = "0s")]
    pub default_repo_maintain_frequency: GoDuration,

    /// ConfigMap with backup repository configurations
    #[arg(long, default_value = "", hide_default_value = true)]
    pub backup_repository_configmap: String,

    /// ConfigMap with repository maintenance Job configurations
    #[arg(long, default_value = "", hide_default_value = true)]
    pub repo_maintenance_job_configmap: String,

    /// Number of latest maintenance Jobs to keep for each repository, unless the ConfigMap says
    #[arg(long, default_value_t = KEPT_JOBS)]
    pub keep_latest_maintenance_jobs: u32,

    /// CPU request of maintenance Jobs, unless the ConfigMap says; empty means none
    #[arg(long, default_value = "", hide_default_value = true)]
    pub maintenance_job_cpu_request: String,

    /// Memory request of maintenance Jobs, unless the ConfigMap says; empty means none
    #[arg(long, default_value = "", hide_default_value = true)]
    pub maintenance_job_mem_request: String,

    /// CPU limit of maintenance Jobs, unless the ConfigMap says; empty means none
    #[arg(long, default_value = "", hide_default_value = true)]
    pub maintenance_job_cpu_limit: String,

    /// Memory limit of maintenance Jobs, unless the ConfigMap says; empty means none
    #[arg(long, default_value = "", hide_default_value = true)]
    pub maintenance_job_mem_limit: String,
}

impl RepositorySettings {
    /// How often a repository is maintained that does not say.
    pub(crate) fn maintenance_frequency(&self) -> GoDuration {
        let given = self.default_repo_maintain_frequency;
        if given.is_zero() || given.is_negative() { FREQUENCY } else { given }
    }

    /// What maintenance Jobs ask for and may use where their ConfigMap says nothing.
    pub(crate) fn job_resources(&self) -> PodResources {
        PodResources {
            cpu_request: self.maintenance_job_cpu_request.clone(),
            cpu_limit: self.maintenance_job_cpu_limit.clone(),
            memory_request: self.maintenance_job_mem_request.clone(),
            memory_limit: self.maintenance_job_mem_limit.clone(),
            ..PodResources::default()
        }
    }
}

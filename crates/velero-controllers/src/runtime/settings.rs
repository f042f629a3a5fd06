//! The flags of `velero server`: what each is called, means and is when nobody gives it, said here and nowhere else.
//!
//! The command line is made from this, `velero install` takes the flags in [`INSTALL_FLAGS`] from here, and tests hold the
//! chart and the documentation to it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser};
use reqwest::Url;
use velero_api::{DEFAULT_NAMESPACE, FeatureFlags, GoDuration, labels};
use velero_archive::Limits;
use velero_engine::journal;
use velero_plugin_openshift::Switch as OpenShift;
use velero_report::Period;
use velero_rules::cron::CronSchedule;
use velero_rules::lease::{LONGEST, SHORTEST, Terms};
use velero_rules::ordering::{OrderingError, Priorities};
use velero_rules::pairs::{self, PairsError};

use crate::runtime::controller::Controller;
use crate::runtime::error::{Error, Result};
use crate::runtime::log_format::{LogFormat, LogSettings};
use crate::runtime::repository_settings::RepositorySettings;
use crate::runtime::shared_settings::{MetricsSettings, PatienceSettings};
use crate::runtime::traces::Endpoint;
use crate::runtime::web_settings::WebSettings;

/// The flags that `velero install` takes too and hands on, in the order in which Velero writes them into the Deployment.
pub const INSTALL_FLAGS: [&str; 19] = [
    "default-volumes-to-fs-backup",
    "default-snapshot-move-data",
    "disable-informer-cache",
    "schedule-skip-immediately",
    "uploader-type",
    "restore-only",
    "default-repo-maintain-frequency",
    "garbage-collection-frequency",
    "fs-backup-timeout",
    "keep-latest-maintenance-jobs",
    "maintenance-job-cpu-request",
    "maintenance-job-mem-request",
    "maintenance-job-cpu-limit",
    "maintenance-job-mem-limit",
    "backup-repository-configmap",
    "repo-maintenance-job-configmap",
    "item-block-worker-count",
    "concurrent-backups",
    "default-resource-modifier-configmap",
];

/// How a server is set up: one field for each flag, whose help is the text of the field, and what else it must know.
#[derive(Clone, Debug, Parser)]
pub struct Settings {
    /// The namespace of the server and of all its objects.
    #[arg(skip = DEFAULT_NAMESPACE.to_owned())]
    pub namespace: String,

    /// The kubeconfig file; nothing means `$KUBECONFIG`, `~/.kube/config` or the service account.
    #[arg(skip)]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig file; nothing means its current one.
    #[arg(skip)]
    pub context: Option<String>,

    /// The features that are switched on.
    #[arg(skip)]
    pub features: FeatureFlags,

    /// The version the server reports.
    #[arg(skip = concat!("v", env!("CARGO_PKG_VERSION")).to_owned())]
    pub server_version: String,

    /// Flags of every command that were given and do nothing for the server.
    #[arg(skip)]
    pub global_flags_without_effect: Vec<&'static str>,

    /// How it logs.
    #[command(flatten)]
    pub log: LogSettings,

    /// Directory containing Velero plugins
    #[arg(long, default_value = "/plugins")]
    pub plugin_dir: PathBuf,

    /// Whether to add the actions for OpenShift: auto (where the cluster is OpenShift), on or off
    #[arg(long, default_value = "auto")]
    pub openshift: OpenShift,

    /// Where it says how it fares.
    #[command(flatten)]
    pub metrics: MetricsSettings,

    /// The address to serve the page on, as in :8086; nothing means that there is none
    #[arg(long, default_value = "", hide_default_value = true)]
    pub web_address: String,

    /// The address of an OpenTelemetry collector that gets traces of backups and restores over HTTP, as in http://collector:4318;
    /// nothing means that there are none
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        default_value = "",
        hide_default_value = true,
        hide_env_values = true
    )]
    pub trace_endpoint: String,

    /// How long a server that is not heard of keeps its Lease, and so its work, before another one takes over: 5s to 5m
    #[arg(long, default_value = "10s")]
    pub lease_duration: GoDuration,

    /// How often backups in object storage are brought into the cluster, unless the location says
    #[arg(long, default_value = "1m0s")]
    pub backup_sync_period: GoDuration,

    /// Deprecated: only restores are allowed. Use read-only backup storage locations
    #[arg(long)]
    pub restore_only: bool,

    /// Controllers to disable on startup
    #[arg(long, action = ArgAction::Append, value_delimiter = ',')]
    pub disable_controllers: Vec<Controller>,

    /// Order of resource restores: high priorities, '-', low priorities; empty means the built-in order
    #[arg(long, default_value = "", hide_default_value = true)]
    pub restore_resource_priorities: String,

    /// Deprecated: name of the default backup storage location
    #[arg(long, default_value = "default")]
    pub default_backup_storage_location: String,

    /// How often to verify if the storage is valid; 0s disables it
    #[arg(long, default_value = "1m0s")]
    pub store_validation_frequency: GoDuration,

    /// Requests a second to the Kubernetes API once the burst is used up; not set means no fixed rate
    #[arg(long)]
    pub client_qps: Option<f32>,

    /// Requests to the Kubernetes API that may go out at once
    #[arg(long)]
    pub client_burst: Option<u32>,

    /// Page size when listing objects during a backup; 0 disables paging
    #[arg(long, default_value = "500")]
    pub client_page_size: u32,

    /// How long a restore waits for volumes and namespaces to terminate
    #[arg(long, default_value = "10m0s")]
    pub terminating_resource_timeout: GoDuration,

    /// The most entries the archive of a backup may have, two for each object: more are neither backed up nor restored
    #[arg(long, default_value_t = Limits::default().entries)]
    pub max_archive_entries: u64,

    /// How long backups are kept by default
    #[arg(long, default_value = "720h0m0s")]
    pub default_backup_ttl: GoDuration,

    /// Label key for grouping PVCs into VolumeGroupSnapshot
    #[arg(long, default_value = labels::DEFAULT_VOLUME_GROUP)]
    pub volume_group_snapshot_label_key: String,

    /// How often garbage collection is run for expired backups; 0s means every hour
    #[arg(long, default_value = "0s")]
    pub garbage_collection_frequency: GoDuration,

    /// How often to check on asynchronous operations; 0s means every ten seconds
    #[arg(long, default_value = "0s")]
    pub item_operation_sync_frequency: GoDuration,

    /// Backup all volumes with pod volume file system backup by default
    #[arg(long)]
    pub default_volumes_to_fs_backup: bool,

    /// Type of uploader to handle the transfer of data of pod volumes
    #[arg(long, default_value = "kopia")]
    pub uploader_type: String,

    /// How long pod volume file system backups and restores may run, all of a backup or restore together
    #[arg(long, default_value = "4h0m0s")]
    pub fs_backup_timeout: GoDuration,

    /// How long asynchronous operations may take
    #[arg(long, default_value = "4h0m0s")]
    pub default_item_operation_timeout: GoDuration,

    /// How long it waits for others.
    #[command(flatten)]
    pub patience: PatienceSettings,

    /// Move data by default for all snapshots supporting data movement
    #[arg(long)]
    pub default_snapshot_move_data: bool,

    /// Skip the first scheduled backup immediately after creating a schedule
    #[arg(long)]
    pub schedule_skip_immediately: bool,

    /// Default volume snapshot location of each provider: provider1:location-01,provider2:location-02
    #[arg(long, action = ArgAction::Append, value_parser = locations_by_provider)]
    pub default_volume_snapshot_locations: Vec<BTreeMap<String, String>>,

    /// Number of workers to process ItemBlocks
    #[arg(long, default_value = "1")]
    pub item_block_worker_count: u32,

    /// Number of backups to process concurrently
    #[arg(long, default_value = "1")]
    pub concurrent_backups: u32,

    /// ConfigMap with volume policies that are merged into every backup
    #[arg(long, default_value = "", hide_default_value = true)]
    pub global_backup_volume_policies_configmap: String,

    /// ConfigMap with changes to objects that count for every restore that names none of its own
    #[arg(long, default_value = "", hide_default_value = true)]
    pub default_resource_modifier_configmap: String,

    /// When a report is written into the default location, as a cron expression; empty means never
    #[arg(long, default_value = "", hide_default_value = true)]
    pub report_schedule: String,

    /// How far back such a report looks: 7d, 2w or 36h
    #[arg(long, default_value = "7d")]
    pub report_period: Period,

    /// How the page is encrypted, and which proxy is believed.
    #[command(flatten)]
    pub web: WebSettings,

    /// How repositories are made and maintained.
    #[command(flatten)]
    pub repositories: RepositorySettings,

    /// Flags that are accepted and do nothing.
    #[command(flatten)]
    pub without_effect: FlagsWithoutEffect,
}

/// Flags of Velero that are accepted, so that its Deployments start, and do nothing here.
#[derive(Args, Clone, Debug, Default)]
pub struct FlagsWithoutEffect {
    /// The address to expose profiles; without effect
    #[arg(long)]
    pub profiler_address: Option<String>,

    /// Max concurrent connections to the Kubernetes API; without effect, the server finds out how many it takes
    #[arg(long = "max-concurrent-k8s-connections")]
    pub max_concurrent_k8s_connections: Option<u32>,

    /// Disable informer cache for Get calls on restore; without effect, nothing is cached
    #[arg(long)]
    pub disable_informer_cache: bool,
}

impl FlagsWithoutEffect {
    /// Those that were given.
    fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("profiler-address", is_set(self.profiler_address.as_deref())),
            ("max-concurrent-k8s-connections", self.max_concurrent_k8s_connections.is_some()),
            ("disable-informer-cache", self.disable_informer_cache),
        ];
        flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }
}

fn is_set(value: Option<&str>) -> bool {
    value.is_some_and(|value| !value.is_empty())
}

/// Reads `provider1:location-01,provider2:location-02`.
fn locations_by_provider(text: &str) -> Result<BTreeMap<String, String>, PairsError> {
    pairs::parse(text, ':')
}

impl Default for Settings {
    /// What a server has that is given no flags.
    fn default() -> Self {
        Self::parse_from(["server"])
    }
}

impl Settings {
    /// Refuses settings that cannot work, naming the flag.
    pub fn validate(&self) -> Result<()> {
        if self.uploader_type != "kopia" {
            return Err(setting("uploader-type", format!("{:?} is not supported, use kopia", self.uploader_type)));
        }
        if self.client_qps.is_some_and(|qps| qps < 0.0) {
            return Err(setting("client-qps", "it must not be negative".to_owned()));
        }
        if self.client_burst == Some(0) {
            return Err(setting("client-burst", "it must be positive".to_owned()));
        }
        if self.concurrent_backups == 0 {
            return Err(setting("concurrent-backups", "it must be at least 1".to_owned()));
        }
        self.web.validate(&self.web_address)?;
        self.lease_terms()?;
        self.report_cron()?;
        self.trace_url()?;
        self.priorities()?;
        self.log.level()?;
        Ok(())
    }

    /// How the Lease of the server is held.
    pub(crate) fn lease_terms(&self) -> Result<Terms> {
        Terms::new(self.lease_duration.to_std()).ok_or_else(|| {
            let problem =
                format!("{} is not a number of whole seconds from {SHORTEST:?} to {LONGEST:?}", self.lease_duration);
            setting("lease-duration", problem)
        })
    }

    /// When reports are written, if they are.
    pub(crate) fn report_cron(&self) -> Result<Option<CronSchedule>> {
        match self.report_schedule.as_str() {
            "" => Ok(None),
            expression => CronSchedule::parse(expression)
                .map(Some)
                .map_err(|error| setting("report-schedule", format!("{error}; write for example '0 6 * * 1'"))),
        }
    }

    /// Where traces go, if there are any.
    pub(crate) fn trace_url(&self) -> Result<Option<Url>> {
        Endpoint::read(&self.trace_endpoint).map_err(|error| setting("trace-endpoint", error.to_string()))
    }

    /// The flags that were given and do nothing.
    pub fn flags_without_effect(&self) -> Vec<&'static str> {
        self.without_effect.given().into_iter().chain(self.global_flags_without_effect.iter().copied()).collect()
    }

    /// The snapshot location to use for each provider.
    pub(crate) fn snapshot_locations(&self) -> BTreeMap<String, String> {
        self.default_volume_snapshot_locations.iter().flat_map(Clone::clone).collect()
    }

    /// How much the archive of a backup may hold, to be written or read.
    pub(crate) fn archive_limits(&self) -> Limits {
        Limits { entries: self.max_archive_entries, ..Limits::default() }
    }

    /// Where files may be put that are too large for memory; the installation names its scratch volume by a variable.
    pub(crate) fn scratch_folder(&self) -> PathBuf {
        let named = std::env::var_os("VELERO_SCRATCH_DIR").map(PathBuf::from);
        named.filter(|folder| folder.is_dir()).unwrap_or_else(std::env::temp_dir)
    }

    /// Whether a controller runs.
    pub(crate) fn is_enabled(&self, controller: Controller) -> bool {
        let off = self.restore_only && controller.is_off_when_restore_only();
        !off && !self.disable_controllers.contains(&controller)
    }

    /// The form and the lowest level of the logs of backups and restores.
    pub(crate) fn journal_form(&self) -> (journal::LogFormat, journal::Level) {
        let format = match self.log.log_format {
            LogFormat::Text => journal::LogFormat::Text,
            LogFormat::Json => journal::LogFormat::Json,
        };
        let level = match self.log.log_level.to_ascii_lowercase().as_str() {
            "trace" | "debug" => journal::Level::Debug,
            "warn" | "warning" => journal::Level::Warning,
            "error" | "fatal" | "panic" => journal::Level::Error,
            _ => journal::Level::Info,
        };
        (format, level)
    }

    /// The order in which types are restored.
    pub(crate) fn priorities(&self) -> Result<Priorities> {
        if self.restore_resource_priorities.is_empty() {
            return Ok(Priorities::default());
        }
        let parsed = self.restore_resource_priorities.parse();
        parsed.map_err(|error: OrderingError| setting("restore-resource-priorities", error.to_string()))
    }

    /// How often backups that could not be collected are looked at again.
    pub(crate) fn garbage_collection_period(&self) -> GoDuration {
        positive_or(self.garbage_collection_frequency, GoDuration::from_hours(1))
    }

    /// How often asynchronous operations are asked about.
    pub(crate) fn item_operation_period(&self) -> GoDuration {
        positive_or(self.item_operation_sync_frequency, GoDuration::from_secs(10))
    }

    /// How often a location that says nothing else is synchronised.
    pub(crate) fn sync_period(&self) -> GoDuration {
        positive_or(self.backup_sync_period, GoDuration::from_mins(1))
    }
}

fn positive_or(duration: GoDuration, default: GoDuration) -> GoDuration {
    if duration.is_zero() || duration.is_negative() { default } else { duration }
}

fn setting(flag: &'static str, problem: String) -> Error {
    Error::Setting { flag, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        Settings::default().validate().unwrap();
    }

    #[test]
    fn the_defaults_are_those_of_velero() {
        let settings = Settings::default();
        assert_eq!((settings.namespace.as_str(), settings.log.log_level.as_str()), (DEFAULT_NAMESPACE, "info"));
        assert_eq!(settings.backup_sync_period, GoDuration::from_mins(1));
        assert_eq!(settings.store_validation_frequency, GoDuration::from_mins(1));
        assert_eq!(settings.terminating_resource_timeout, GoDuration::from_mins(10));
        assert_eq!(settings.patience.resource_timeout, GoDuration::from_mins(10));
        assert_eq!(settings.default_backup_ttl, GoDuration::from_hours(720));
        assert_eq!(settings.default_item_operation_timeout, GoDuration::from_hours(4));
        assert_eq!(settings.fs_backup_timeout, GoDuration::from_hours(4));
        assert_eq!((settings.client_page_size, settings.client_qps, settings.client_burst), (500, None, None));
        assert_eq!((settings.item_block_worker_count, settings.concurrent_backups), (1, 1));
    }

    #[test]
    fn a_later_snapshot_location_of_a_provider_replaces_an_earlier_one() {
        let flag = "--default-volume-snapshot-locations";
        let settings = Settings::parse_from(["server", flag, "aws:a,gcp:b", flag, "aws:c"]);
        let expected = [("aws", "c"), ("gcp", "b")].map(|(provider, name)| (provider.to_owned(), name.to_owned()));
        assert_eq!(settings.snapshot_locations(), expected.into());
        assert!(Settings::try_parse_from(["server", flag, "aws"]).is_err());
    }

    #[test]
    fn a_setting_that_cannot_work_is_named() {
        let cases: [(Settings, &str); 8] = [
            (Settings { uploader_type: "restic".to_owned(), ..Settings::default() }, "uploader-type"),
            (Settings { client_burst: Some(0), ..Settings::default() }, "client-burst"),
            (Settings { lease_duration: GoDuration::from_secs(4), ..Settings::default() }, "lease-duration"),
            (Settings { report_schedule: "sometimes".to_owned(), ..Settings::default() }, "report-schedule"),
            (Settings { trace_endpoint: "collector".to_owned(), ..Settings::default() }, "trace-endpoint"),
            (Settings { concurrent_backups: 0, ..Settings::default() }, "concurrent-backups"),
            (
                Settings { restore_resource_priorities: "a,-,b,-,c".to_owned(), ..Settings::default() },
                "restore-resource-priorities",
            ),
            (
                Settings {
                    log: LogSettings { log_level: "loud".to_owned(), ..LogSettings::default() },
                    ..Settings::default()
                },
                "log-level",
            ),
        ];
        for (settings, flag) in cases {
            let text = settings.validate().unwrap_err().to_string();
            assert!(text.contains(&format!("--{flag}")), "{text}");
        }
    }

    #[test]
    fn restore_only_switches_backups_off_but_not_the_sync() {
        let settings = Settings { restore_only: true, ..Settings::default() };
        assert!(!settings.is_enabled(Controller::Backup) && !settings.is_enabled(Controller::GarbageCollection));
        assert!(settings.is_enabled(Controller::BackupSync) && settings.is_enabled(Controller::DownloadRequest));
    }

    #[test]
    fn a_period_of_zero_means_the_default() {
        let settings = Settings { backup_sync_period: GoDuration::ZERO, ..Settings::default() };
        assert_eq!(settings.sync_period(), GoDuration::from_mins(1));
        assert_eq!(settings.garbage_collection_period(), GoDuration::from_hours(1));
        assert_eq!(settings.item_operation_period(), GoDuration::from_secs(10));
    }
}

//! How a server is set up: one field for each flag of `velero server`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr;

use tracing::Level;
use velero_api::{DEFAULT_NAMESPACE, FeatureFlags, GoDuration, labels};
use velero_archive::Limits;
use velero_engine::journal;
use velero_plugin_openshift::Switch as OpenShift;
use velero_rules::ordering::{OrderingError, Priorities};

use crate::runtime::controller::Controller;
use crate::runtime::error::{Error, Result};

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `time="…" level=info msg="…"`.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The form as the flag writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("invalid log format {other:?}, use text or json")),
        }
    }
}

/// Reads a level by its logrus name; those above error do not exist here and mean error.
pub(crate) fn level(name: &str) -> Result<Level, String> {
    match name.to_ascii_lowercase().as_str() {
        "trace" => Ok(Level::TRACE),
        "debug" => Ok(Level::DEBUG),
        "info" => Ok(Level::INFO),
        "warn" | "warning" => Ok(Level::WARN),
        "error" | "fatal" | "panic" => Ok(Level::ERROR),
        other => Err(format!("{other:?} is not a level, use trace, debug, info, warning, error, fatal or panic")),
    }
}

/// How a server is set up. The defaults are those of the flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the server and of all its objects.
    pub namespace: String,
    /// The kubeconfig file; nothing means `$KUBECONFIG`, `~/.kube/config` or the service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file; nothing means its current one.
    pub context: Option<String>,
    /// The features that are switched on.
    pub features: FeatureFlags,
    /// The least severe level that is logged: trace, debug, info, warning, error, fatal or panic.
    pub log_level: String,
    /// The form of log lines, in the server's log and in those of backups.
    pub log_format: LogFormat,
    /// Where plugin binaries are.
    pub plugin_dir: PathBuf,
    /// Whether the actions for OpenShift are part of the server.
    pub openshift: OpenShift,
    /// Where metrics, health and downloads are served, as in `:8085`; empty switches it off.
    pub metrics_address: String,
    /// How often locations that say nothing else are synchronised.
    pub backup_sync_period: GoDuration,
    /// Deprecated: only restores are served.
    pub restore_only: bool,
    /// Controllers that do not run.
    pub disabled_controllers: BTreeSet<Controller>,
    /// The order in which types are restored; empty means the built-in one.
    pub restore_resource_priorities: String,
    /// Deprecated: the location of backups that name none when no location is marked as default.
    pub default_backup_storage_location: String,
    /// How often locations that say nothing else are validated.
    pub store_validation_frequency: GoDuration,
    /// Requests a second to the API server; nothing means no fixed rate.
    pub client_qps: Option<f32>,
    /// Requests that may go out at once when there is a rate.
    pub client_burst: Option<u32>,
    /// Items in a page of a list; zero means everything at once.
    pub client_page_size: u32,
    /// How long a restore waits for a namespace or volume that is going away.
    pub terminating_resource_timeout: GoDuration,
    /// The most entries the archive of a backup may have, to be written or read.
    pub max_archive_entries: u64,
    /// How long backups are kept that say nothing else.
    pub default_backup_ttl: GoDuration,
    /// The label that groups volumes for a common snapshot.
    pub volume_group_snapshot_label_key: String,
    /// How often expired backups that could not be deleted are tried again; zero means an hour.
    pub garbage_collection_frequency: GoDuration,
    /// How often asynchronous operations are polled; zero means ten seconds.
    pub item_operation_sync_frequency: GoDuration,
    /// Whether pod volumes are backed up through the file system unless said otherwise.
    pub default_volumes_to_fs_backup: bool,
    /// The uploader of volume data; `kopia` is the only one.
    pub uploader_type: String,
    /// How long asynchronous operations may take.
    pub default_item_operation_timeout: GoDuration,
    /// How long to wait for a single object to change; also how long a request to an object store is repeated at most.
    pub resource_timeout: GoDuration,
    /// Whether snapshot data is moved to the object store unless said otherwise.
    pub default_snapshot_move_data: bool,
    /// Whether new schedules leave out a backup that is due at once.
    pub schedule_skip_immediately: bool,
    /// The snapshot location to use for each provider.
    pub default_volume_snapshot_locations: BTreeMap<String, String>,
    /// The ConfigMap with volume policies that count for every backup, behind its own; empty means none.
    pub global_backup_volume_policies_configmap: String,
    /// How many groups of items one backup works on at the same time.
    pub item_block_worker_count: u32,
    /// How many backups may run at the same time.
    pub concurrent_backups: u32,
    /// Flags that were given and do nothing; the log says so.
    pub flags_without_effect: Vec<String>,
    /// The version the server reports.
    pub server_version: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            kubeconfig: None,
            context: None,
            features: FeatureFlags::default(),
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
            plugin_dir: "/plugins".into(),
            openshift: OpenShift::Auto,
            metrics_address: ":8085".to_owned(),
            backup_sync_period: GoDuration::from_mins(1),
            restore_only: false,
            disabled_controllers: BTreeSet::new(),
            restore_resource_priorities: String::new(),
            default_backup_storage_location: "default".to_owned(),
            store_validation_frequency: GoDuration::from_mins(1),
            client_qps: None,
            client_burst: None,
            client_page_size: 500,
            terminating_resource_timeout: GoDuration::from_mins(10),
            max_archive_entries: Limits::default().entries,
            default_backup_ttl: GoDuration::from_hours(720),
            volume_group_snapshot_label_key: labels::DEFAULT_VOLUME_GROUP.to_owned(),
            garbage_collection_frequency: GoDuration::ZERO,
            item_operation_sync_frequency: GoDuration::ZERO,
            default_volumes_to_fs_backup: false,
            uploader_type: "kopia".to_owned(),
            default_item_operation_timeout: GoDuration::from_hours(4),
            resource_timeout: GoDuration::from_mins(10),
            default_snapshot_move_data: false,
            schedule_skip_immediately: false,
            default_volume_snapshot_locations: BTreeMap::new(),
            global_backup_volume_policies_configmap: String::new(),
            item_block_worker_count: 1,
            concurrent_backups: 1,
            flags_without_effect: Vec::new(),
            server_version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
        }
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
        self.priorities()?;
        level(&self.log_level).map_err(|problem| setting("log-level", problem))?;
        Ok(())
    }

    /// How much the archive of a backup may hold, to be written or read.
    pub(crate) fn archive_limits(&self) -> Limits {
        Limits { entries: self.max_archive_entries, ..Limits::default() }
    }

    /// Whether a controller runs.
    pub(crate) fn is_enabled(&self, controller: Controller) -> bool {
        let off = self.restore_only && controller.is_off_when_restore_only();
        !off && !self.disabled_controllers.contains(&controller)
    }

    /// The form and the lowest level of the logs of backups and restores.
    pub(crate) fn journal_form(&self) -> (journal::LogFormat, journal::Level) {
        let format = match self.log_format {
            LogFormat::Text => journal::LogFormat::Text,
            LogFormat::Json => journal::LogFormat::Json,
        };
        let level = match self.log_level.to_ascii_lowercase().as_str() {
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
    fn the_levels_of_logrus_are_known() {
        for (name, expected) in [("warning", Level::WARN), ("panic", Level::ERROR), ("Debug", Level::DEBUG)] {
            assert_eq!(level(name).unwrap(), expected);
        }
        assert!(level("loud").unwrap_err().contains("warning"));
    }

    #[test]
    fn the_defaults_are_valid() {
        Settings::default().validate().unwrap();
    }

    #[test]
    fn a_setting_that_cannot_work_is_named() {
        let cases: [(Settings, &str); 5] = [
            (Settings { uploader_type: "restic".to_owned(), ..Settings::default() }, "uploader-type"),
            (Settings { client_burst: Some(0), ..Settings::default() }, "client-burst"),
            (Settings { concurrent_backups: 0, ..Settings::default() }, "concurrent-backups"),
            (
                Settings { restore_resource_priorities: "a,-,b,-,c".to_owned(), ..Settings::default() },
                "restore-resource-priorities",
            ),
            (Settings { log_level: "loud".to_owned(), ..Settings::default() }, "log-level"),
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

//! The server: rooms of reconcilers, and [`server`] that wires them into one process.
//!
//! A reconciler fetches its object, validates, plans, acts and reports. Plans are made in `velero-rules`, work is done
//! in `velero-engine`; what is left here is the order of steps and every word of the status.
//!
//! | room | watches | does |
//! |---|---|---|
//! | `node_agent` | PodVolumeBackups, PodVolumeRestores, DataUploads, DataDownloads | a process of its own on each node: has the data of volumes moved |
//! | `server` | | wires the process: startup, controllers, http, web, log |
//! | `mover` | its own PodVolumeBackup, PodVolumeRestore, DataUpload or DataDownload | moves the data of one volume, in a pod of its own |
//! | `status` | BackupStorageLocations, ServerStatusRequests | says version, plugins and readiness |
//! | `download` | DownloadRequests | hands out files |
//! | `schedule` | Schedules | makes backups when due |
//! | `repository` | BackupRepositories, BackupStorageLocations | makes, connects and maintains repositories of volume data |
//! | `backup` | Backups, DeleteBackupRequests, BackupStorageLocations | queues, runs, finishes, deletes and synchronises backups |
//! | `restore` | Restores | runs, finishes and removes restores, and says what one would do |
//! | `location` | BackupStorageLocations | says whether they can be used |
//! | `lifecycle` | | what backups and restores share: phases, operations, files, ends, debts |
//! | `runtime` | | what carries them all: driver, objects, stores, plugins, metrics, settings |
//!
//! A room uses those below it in this table and none above; `cargo xtask layers` checks it.

mod backup;
mod download;
mod lifecycle;
mod location;
#[cfg(target_os = "linux")]
pub mod mover;
pub mod node_agent;
mod repository;
mod restore;
mod runtime;
mod schedule;
pub mod server;
mod status;

pub use download::{DOWNLOAD_TOKEN_ANNOTATION, SERVER_URL_SCHEME};
pub use repository::command::{MaintenanceError, MaintenanceSettings, run_maintenance};
pub use restore::{DryRunReport, PreparedRestore, prepare_restore};
pub use runtime::error::{Error, Result};
pub use runtime::metrics::server_metrics_table;

//! The server: one module a reconciler, and [`server`] that wires them into one process.
//!
//! A reconciler fetches its object, validates, plans, acts and reports. Plans are made in `velero-rules`, work is done
//! in `velero-engine`; what is left here is the order of steps and every word of the status.
//!
//! | module | on | does |
//! |---|---|---|
//! | `backup_storage_location` | BackupStorageLocations | says whether they can be used |
//! | `backups` | Backups | hands each to the module of its phase |
//! | `backup_queue`, `backup`, `backup_operations`, `backup_finalizer` | | let it wait, run it, follow its operations, end it |
//! | `ownership`, `owed_hooks` | Backups and Restores | say in whose hands they are, and what they owe to pods |
//! | `garbage_collection` | | asks for its deletion when its time is over |
//! | `backup_deletion` | DeleteBackupRequests | deletes it with all it owns |
//! | `backup_sync`, `orphans` | BackupStorageLocations | bring backups of the bucket into the cluster, report what is none |
//! | `restores` | Restores | hands each to the module of its phase |
//! | `restore::dry_run` | | says what it would do, if that is all it asks |
//! | `restore`, `restore_operations`, `restore_finalizer`, `restore_deletion` | | run it, follow its operations, end it, remove its files |
//! | `debts` | Backups, Restores | does the clean-up that an interrupted run owes, when the store is back |
//! | `schedule` | Schedules | makes backups when due |
//! | `download_request` | DownloadRequests | hands out files |
//! | `server_status_request` | ServerStatusRequests | tells those who ask version and plugins |
//! | `server_status` | BackupStorageLocations, one ServerStatusRequest | keeps it true: version, plugins, readiness |

mod backup;
mod backup_deletion;
mod backup_finalizer;
mod backup_operations;
mod backup_phase;
mod backup_queue;
mod backup_snapshots;
mod backup_storage_location;
mod backup_sync;
mod backup_threads;
mod backups;
mod busy;
mod clock;
mod context;
mod credential_files;
mod csi_snapshots;
mod debts;
mod download_request;
mod driver;
mod error;
mod events;
mod garbage_collection;
mod http;
mod locations;
mod logging;
mod metrics;
mod movers;
mod objects;
mod operation_records;
mod operations;
mod orphans;
mod owed_hooks;
mod ownership;
mod plugins;
mod progress;
mod restore;
mod restore_deletion;
mod restore_finalizer;
mod restore_operations;
mod restore_phase;
mod restores;
mod schedule;
pub mod server;
mod server_status;
mod server_status_request;
mod settings;
mod snapshot_locations;
mod startup;
mod store_message;

pub use download_request::{DOWNLOAD_TOKEN_ANNOTATION, SERVER_URL_SCHEME};
pub use error::{Error, Result};
pub use restore::{DryRunReport, PreparedRestore, prepare_restore};

//! What carries every reconciler: the driver that calls them, what they share, and the ways to the cluster, to stores and
//! to plugins. It knows kinds of objects, but not what becomes of them.
//!
//! ```text
//! settings, shared_settings, log_format, logging, signals, error, clock, controller, lock, process ── what is known before
//!                                                                                                      anything runs
//! traces ── stages of backups and restores, for a collector
//! leadership ── whether this process may write
//! named, objects, events, metrics ── Velero's own objects, and what is told about them
//! locations, repositories, snapshot_locations, plugins ── from an object to its store, its repository, its snapshotter, its
//!                                                         actions
//! busy, kept, parked, holder, backup_threads ── what this process has in hand
//! context ── all of it, shared
//! work_queue, work, driver ── which object is due, looking at it, calling the reconciler
//! ownership, progress, retry ── writing what it did
//! ```

pub(crate) mod backup_threads;
pub(crate) mod busy;
pub(crate) mod clock;
pub(crate) mod context;
pub(crate) mod controller;
mod credential_files;
pub(crate) mod driver;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod holder;
pub(crate) mod kept;
pub(crate) mod leadership;
pub(crate) mod locations;
pub(crate) mod lock;
pub(crate) mod log_format;
pub(crate) mod logging;
pub(crate) mod metrics;
mod named;
pub(crate) mod objects;
pub(crate) mod ownership;
pub(crate) mod parked;
pub(crate) mod plugins;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod repositories;
pub(crate) mod repository_settings;
pub(crate) mod retry;
pub(crate) mod settings;
pub(crate) mod shared_settings;
pub(crate) mod signals;
pub(crate) mod snapshot_locations;
pub(crate) mod store_message;
pub(crate) mod traces;
pub(crate) mod web_settings;
mod work;
mod work_queue;

//! Kopia repositories, read and written: the volume data of Velero. No Kubernetes in it.
//!
//! From the bottom up, pure unless said otherwise: [`crypto`] and [`format`] (keys), [`content_id`], [`index`] (which
//! content lies where), [`pack`] (how contents lie in a blob), [`epoch`] (which indexes count), [`splitter`], [`object`]
//! (contents that make one stream), [`manifest`] and [`directory`] (what snapshots are). [`store`] does the input and
//! output, [`Repository`] puts it together, [`restore`] writes files, [`maintenance`] removes what nobody needs, [`verify`]
//! looks for damage. What is saved and restored are files with the owners, links and devices of Linux: [`upload`] and
//! [`restore`] are there alone, everything else on every system.

mod bitmap;
pub mod blob_name;
pub mod browse;
pub mod clock;
pub mod compression;
mod compressor;
pub mod content_id;
pub mod crypto;
#[cfg_attr(not(target_os = "linux"), path = "direct_elsewhere.rs")]
mod direct;
pub mod directory;
mod entry_path;
pub mod epoch;
mod error;
mod forget;
pub mod format;
mod go_json;
mod hex;
pub mod index;
mod json_stream;
pub mod maintenance;
pub mod manifest;
pub mod object;
mod object_writer;
pub mod pack;
mod parallel;
mod repository;
#[cfg(target_os = "linux")]
pub mod restore;
pub mod splitter;
pub mod store;
mod subfolders;
#[cfg(test)]
mod testing;
#[cfg(target_os = "linux")]
pub mod upload;
pub mod verify;
pub mod writer;

pub use clock::Clock;
pub use content_id::ContentId;
pub use error::{Error, Result};
pub use forget::forget;
pub use object::ObjectId;
pub use repository::{
    INITIALISED_BLOB, LoadedIndex, LogRetention, MAINTENANCE, MaintenanceCycle, MaintenanceParameters, Repository,
    RepositoryState, repository_state,
};

/// What a mutex guards, also when somebody panicked who held it.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

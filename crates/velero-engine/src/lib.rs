//! The pipelines: what a backup does from the first list call to the last byte of the archive, and a restore on the
//! way back.
//!
//! The engine moves objects from the cluster through filters, actions and hooks into an archive, and reports what
//! happened. It writes no status and knows no object store: its caller gives it a place to write to and makes of the
//! outcome what it wants.
//!
//! | module | for |
//! |---|---|
//! | [`backup`] | the backup pipeline |
//! | [`restore`] | the restore pipeline, and the preview of one |
//! | [`delete`] | actions on the items of a backup that goes away |
//! | [`journal`] | [`Journal`]: the one record of what happened; log, results and counts derive from it |
//! | `fault` | panics in work beside a restore, told as errors |
//! | `hooks` | commands in pods, before and after they are stored |
//! | `volumes` | the data of volumes: one file a way to save it |
//! | [`recorder`] | what a run sets going: operations and snapshots |
//! | `items` | items by namespace and name in little memory, and the list that a run leaves of them ([`ItemList`]) |
//! | [`stage`] | what took how long, for traces |
//! | `type_names` | names of types as users write them, and what they mean on a cluster |

pub mod backup;
pub mod delete;
mod fault;
mod hooks;
mod items;
pub mod journal;
pub mod recorder;
pub mod restore;
pub mod stage;
mod type_names;
pub mod volumes;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use items::ItemList;
pub use journal::Journal;

/// What a mutex guards, also when somebody panicked who held it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

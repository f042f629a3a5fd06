//! Plugins: the code that takes part in backups and restores, built in or in a binary of its own.
//!
//! The engine knows actions only through the traits of this crate. It asks each one once a run what it applies to
//! ([`ResourceSelector`]), and calls it for the items that match. It cannot tell whether an action runs in process or
//! in a plugin binary.
//!
//! | module | for |
//! |---|---|
//! | `actions`, `volume_snapshotter` | the traits and what they return |
//! | `registry` | [`Actions`]: all actions of a server, in the order they run |
//! | `resolve` | [`Resolved`]: an action whose selector was matched with what the cluster serves |
//! | [`item`] | what actions do with items again and again: for those built in, and for vendors |
//! | `kind` | the kinds of plugins and the form of their names |
//! | `error` | failures by meaning |
//! | `wire` | the messages of the plugin protocol |
//! | [`host`] | runs plugin binaries: [`host::PluginDirectory`] finds them, [`host::PluginManager`] calls them |
//! | [`sdk`] | makes a plugin binary: [`sdk::serve`] |

// What speaks the protocol from the other side is there with the sdk alone.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod actions;
mod error;
pub mod host;
pub mod item;
mod kind;
mod registry;
mod resolve;
pub mod sdk;
mod volume_snapshotter;
mod wire;

pub use actions::{
    BackupItemAction, BackupItemOutcome, DeleteItemAction, ItemBlockAction, OperationProgress, RestoreItemAction,
    RestoreItemInput, RestoreItemOutcome, VolumeKeeper,
};
pub use error::{Error, Result};
pub use kind::{PluginIdentifier, PluginKind, UnknownKind};
pub use registry::{ActionSource, Actions};
pub use resolve::{Resolved, ResourceSelector, resolve};
pub use volume_snapshotter::{SnapshotterSource, VolumeInfo, VolumeSnapshotter};

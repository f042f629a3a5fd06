//! Actions: the code that takes part in the backup and restore of an item, built in or from elsewhere.
//!
//! The engine knows actions only through the traits of this crate. It asks each one once a run what it applies to
//! ([`ResourceSelector`]), and calls it for the items that match.
//!
//! | module | for |
//! |---|---|
//! | `actions` | the traits and what they return |
//! | `registry` | [`Actions`]: all actions of a server, in the order they run |
//! | `resolve` | [`Resolved`]: an action whose selector was matched with what the cluster serves |
//! | `error` | failures by meaning |

mod actions;
mod error;
mod registry;
mod resolve;

pub use actions::{
    BackupItemAction, BackupItemOutcome, DeleteItemAction, ItemBlockAction, OperationProgress, RestoreItemAction,
    RestoreItemInput, RestoreItemOutcome,
};
pub use error::{Error, Result};
pub use registry::{ActionSource, Actions};
pub use resolve::{Resolved, ResourceSelector, resolve};
pub use velero_rules::restore_hooks;

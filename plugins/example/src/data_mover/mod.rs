//! A data mover: an action that lets a controller of its own do the work.
//!
//! ```text
//! Execute ── creates a DataMove and gives its name as the ID of the operation
//! the controller (data-mover-example) ── moves the data, writes how far it is into the status
//! Progress ── reads the status          Cancel ── sets spec.cancel
//! ```
//!
//! Everything there is to know is in the object, so the plugin, its host and the controller may all be restarted. After
//! the operation the object is stored once more (items to update), so that the backup holds its final state.
//!
//! The actions are called for claims with the label `example.velero.io/data-mover`. The annotation
//! `example.velero.io/move` says how the move goes: `takes=3s` or `fails-after=3s`.

mod actions;
mod controller;

pub use actions::{BackupAction, RestoreAction};
pub use controller::control;
use velero_cluster::ResourceType;

/// The definition of the custom resource, to be installed in the cluster.
pub const DEFINITION: &str = include_str!("../../config/datamoves.example.velero.io.json");

/// The type of the custom resource.
pub fn data_moves() -> ResourceType {
    ResourceType::new("example.velero.io/v1", "DataMove", "datamoves", true)
}

//! The node agent: a process on each node that has the data of volumes moved by pods.
//!
//! ```text
//! wiring ── everything that runs in it, in one place
//! startup, taken_up, http ── what happens once before; what the agent before this one left; metrics
//! reconcile ── one object of any of the four kinds, a step further; carry_out does the step
//! kinds/ ── what differs between PodVolumeBackup, PodVolumeRestore, DataUpload and DataDownload
//! expose/ ── making data reachable for a pod, and taking that back
//! pod/ ── the pod that moves the data
//! transfer ── what the kinds have in common
//! follow, triggers ── what movers report, and what wakes the reconcilers
//! diagnosis ── why data does not become reachable, as Kubernetes says it
//! agent, slots, preparing, notes, metrics, settings, resources ── what all of them share
//! ```
//!
//! What to do with an object is decided in `velero_rules::data_move`; nothing that matters is kept in memory, so a
//! restarted agent goes on where the one before it stopped.

mod agent;
mod carry_out;
mod diagnosis;
mod expose;
mod follow;
mod http;
mod kinds;
mod metrics;
mod notes;
mod pod;
mod preparing;
mod reconcile;
mod resources;
mod settings;
mod slots;
mod startup;
mod taken_up;
mod transfer;
mod triggers;
mod wiring;

pub use metrics::node_agent_metrics_table;
pub use settings::Settings;
pub use wiring::{run, run_until};

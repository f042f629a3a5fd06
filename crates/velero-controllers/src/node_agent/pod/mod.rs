//! The pod that moves the data of a volume.
//!
//! ```text
//! template ── from what a transfer needs to the pod
//! rights ── what the pod may do, as little as it can with
//! inherited ── what the pod has from the DaemonSet of the agents
//! affinity ── on which nodes it may run
//! ```

pub(crate) mod affinity;
pub(crate) mod inherited;
pub(crate) mod rights;
pub(crate) mod template;

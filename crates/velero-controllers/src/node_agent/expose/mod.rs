//! Making the data of a volume reachable for the pod that moves it, and taking that back.
//!
//! Everything here can be called again at any time: it looks what is there already and goes on from that. So a restarted
//! agent needs to know nothing of what the one before it did, and a cancel never has to wait.
//!
//! ```text
//! pod_volume ── the volume of a pod on this node, by its folder; host_path finds that
//! csi_snapshot ── a claim made from a CSI snapshot; snapshot_objects hands the snapshot over
//! generic_restore ── a claim that is filled; rebind gives its volume to the claim that is restored
//! claims, copies ── claims made for movers; Secrets and ConfigMaps their drivers need
//! ```

pub(crate) mod claims;
pub(crate) mod copies;
pub(crate) mod csi_snapshot;
pub(crate) mod generic_restore;
mod host_path;
pub(crate) mod pod_volume;
pub(crate) mod rebind;
mod snapshot_objects;

//! Copies of volumes through the file systems of pods: the objects that ask for them, and which copies a restore puts back.
//!
//! The objects are those that Velero's server makes, so that any node agent can do the work.

mod copies;
mod transfers;
mod wait_container;

pub use copies::{CopyObstacle, copies_of_pod, copy_obstacle, is_wait_container, wait_containers};
pub use transfers::{
    CopiedVolume, FilledVolume, RunningPod, fill_for_earlier, pod_volume_backup, pod_volume_restore, transfer_name,
    volume_restore_info,
};
pub use wait_container::{WaitContainer, WaitContainerError, remove_wait_containers};

#[cfg(test)]
mod tests;

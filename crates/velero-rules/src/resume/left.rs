//! Pods and claims that an earlier restore made, and whether their data came.

use serde_json::Value;
use velero_api::{DataMovePhase, labels};

use super::family::Relative;
use crate::pod_volumes::is_wait_container;

/// What becomes of a pod that is there when a restore is resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftPod {
    /// None of the earlier restores has made it.
    Foreign,
    /// It was made by one of them and waits for nothing: its data came, or there is none.
    Done,
    /// It still waits in its init container, for the restore with this UID.
    Waits {
        /// The UID that the container waits for.
        restore_uid: String,
    },
    /// It is being deleted.
    Leaving,
    /// It ended, or waits for a restore that is gone, so it is removed and made again.
    Remade,
    /// The same, but it must not be removed, and why.
    Stuck(String),
}

/// What becomes of a claim that is there when a restore is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftClaim {
    /// None of the earlier restores has made it.
    Foreign,
    /// It was made by one of them and has its volume, or will get it.
    Done,
    /// It is being deleted.
    Leaving,
    /// The volume it waits for never comes, so it is removed and made again.
    Remade,
    /// What fills its volume has not ended.
    Busy,
    /// It waits for a volume that an earlier restore failed to fill, and does not say that one of them made it: it is left.
    Unmarked,
}

/// How far what fills the volume of a claim is: the best of all that were made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Download {
    /// It failed or was cancelled.
    Failed,
    /// It has not ended.
    Busy,
    /// It is done.
    Completed,
}

impl Download {
    /// How far it is in a phase.
    pub fn of(phase: &DataMovePhase) -> Self {
        match phase {
            DataMovePhase::Completed => Self::Completed,
            phase if phase.is_terminal() => Self::Failed,
            _ => Self::Busy,
        }
    }
}

/// Whether the snapshot is there that the volume of a claim is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// It is, or the claim needs none.
    There,
    /// It is gone.
    Gone,
}

/// The restore of a family that an object says it comes from.
fn maker<'f>(object: &Value, family: &'f [Relative]) -> Option<&'f Relative> {
    let made_by = object["metadata"]["labels"][labels::RESTORE_NAME].as_str()?;
    family.iter().find(|relative| labels::valid_value(&relative.name) == made_by)
}

fn is_leaving(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Decides about a pod that is there.
pub fn left_pod(pod: &Value, family: &[Relative]) -> LeftPod {
    let init_containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    let waiting = init_containers.clone().find(|container| is_wait_container(container));
    let left = waiting.map_or(LeftPod::Done, |waiting| left_waiting(pod, waiting, family));
    match (maker(pod, family), left) {
        (None, LeftPod::Waits { .. }) => LeftPod::Stuck(format!(
            "it waits for an earlier restore, but its label {} does not name one: delete it, and resume the restore again",
            labels::RESTORE_NAME
        )),
        (None, _) => LeftPod::Foreign,
        _ if is_leaving(pod) => LeftPod::Leaving,
        (Some(_), left) => left,
    }
}

fn left_waiting(pod: &Value, waiting: &Value, family: &[Relative]) -> LeftPod {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let statuses = pod["status"]["initContainerStatuses"].as_array().into_iter().flatten();
    let status = statuses.clone().find(|status| status["name"] == waiting["name"]);
    let exit_code = status.and_then(|status| status["state"]["terminated"]["exitCode"].as_i64());
    // The container ends well only when all volumes are filled.
    if exit_code == Some(0) || matches!(phase, "Running" | "Succeeded") {
        return LeftPod::Done;
    }
    let restore_uid = waiting["args"][0].as_str().unwrap_or_default();
    let is_known = family.iter().any(|relative| !relative.uid.is_empty() && relative.uid == restore_uid);
    let why = match (phase == "Failed", is_known) {
        (false, true) => return LeftPod::Waits { restore_uid: restore_uid.to_owned() },
        (true, _) => "it has failed before its data came",
        (false, false) => "it waits for a restore that is gone",
    };
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    match owners.clone().find(|owner| owner["controller"] == true) {
        None => LeftPod::Remade,
        // Whoever owns it would put one without data into its place at once.
        Some(owner) => LeftPod::Stuck(format!(
            "{why}, and {} {} would replace it at once by one without data: delete both, and resume the restore again",
            owner["kind"].as_str().unwrap_or_default(),
            owner["name"].as_str().unwrap_or_default()
        )),
    }
}

/// Whether a claim waits for a volume that a data mover fills.
pub fn waits_for_download(claim: &Value) -> bool {
    !is_bound(claim) && claim["spec"]["selector"]["matchLabels"][labels::DYNAMIC_PV_RESTORE].is_string()
}

/// The snapshot that a claim waits to get its volume of.
pub fn awaited_snapshot(claim: &Value) -> Option<&str> {
    let source = &claim["spec"]["dataSource"];
    let name = source["name"].as_str().filter(|_| source["kind"] == "VolumeSnapshot")?;
    (!is_bound(claim)).then_some(name)
}

fn is_bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound" || claim["spec"]["volumeName"].as_str().is_some_and(|name| !name.is_empty())
}

/// Decides about a claim that is there.
///
/// `download` is how far what fills its volume is, if an earlier restore has asked for that.
pub fn left_claim(claim: &Value, family: &[Relative], download: Option<Download>, snapshot: Snapshot) -> LeftClaim {
    match (waits_for_download(claim), download) {
        (true, Some(Download::Failed | Download::Busy)) if maker(claim, family).is_none() => LeftClaim::Unmarked,
        _ if maker(claim, family).is_none() => LeftClaim::Foreign,
        _ if is_leaving(claim) => LeftClaim::Leaving,
        (true, Some(Download::Busy)) => LeftClaim::Busy,
        (true, Some(Download::Failed) | None) => LeftClaim::Remade,
        _ if awaited_snapshot(claim).is_some() && snapshot == Snapshot::Gone => LeftClaim::Remade,
        _ => LeftClaim::Done,
    }
}

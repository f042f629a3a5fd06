//! What a pod that moves data says of itself.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use velero_api::records::CANCELED_ENDING;

/// Why a container waits that will never start.
const NEVER_STARTS: [&str; 4] = ["ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", CONFIG_ERROR];
/// What the kubelet says of a container whose Secrets, ConfigMaps or security context it cannot use.
const CONFIG_ERROR: &str = "CreateContainerConfigError";
/// What it says there of a Secret or ConfigMap that has not reached it yet: it tries again.
const NOT_YET: &str = "timed out waiting for the condition";

/// How far a pod that moves data is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoverPod {
    /// There is none.
    Missing,
    /// It will run, as far as is known.
    Waiting,
    /// It will never run, for this reason.
    Stuck(String),
    /// It runs.
    Running,
    /// It ended well; what it left as its result.
    Succeeded(String),
    /// It failed; what it left as the reason.
    Failed(String),
}

impl MoverPod {
    /// Reads a pod; `container` is the one that moves the data.
    pub fn of(pod: Option<&Pod>, container: &str) -> Self {
        let Some(pod) = pod else { return Self::Missing };
        let Some(status) = &pod.status else { return Self::Waiting };
        let mover = container_status(status, container);
        match status.phase.as_deref() {
            Some("Succeeded") => Self::Succeeded(termination(mover).unwrap_or_default()),
            Some("Failed") => Self::Failed(failure(status, mover)),
            Some("Unknown") => Self::Stuck(format!("nobody knows how the pod is: {}", failure(status, mover))),
            Some("Running") => ended(status, mover).unwrap_or(Self::Running),
            _ => stuck(mover).map_or(Self::Waiting, Self::Stuck),
        }
    }
}

/// Whether a mover ended because it was told to.
pub(super) fn is_cancel(message: &str) -> bool {
    message.trim_end().ends_with(CANCELED_ENDING)
}

fn container_status<'a>(status: &'a PodStatus, container: &str) -> Option<&'a ContainerStatus> {
    status.container_statuses.iter().flatten().find(|status| status.name == container)
}

/// How a mover ended beside which another container goes on, such as one that a mesh puts into every pod: the pod runs for as
/// long as any of them does.
fn ended(status: &PodStatus, mover: Option<&ContainerStatus>) -> Option<MoverPod> {
    let ended = mover?.state.as_ref()?.terminated.as_ref()?;
    Some(match ended.exit_code {
        0 => MoverPod::Succeeded(termination(mover).unwrap_or_default()),
        _ => MoverPod::Failed(failure(status, mover)),
    })
}

fn termination(mover: Option<&ContainerStatus>) -> Option<String> {
    let ended = mover?.state.as_ref()?.terminated.as_ref()?;
    ended.message.clone().filter(|message| !message.trim().is_empty())
}

fn failure(status: &PodStatus, mover: Option<&ContainerStatus>) -> String {
    let ended = mover.and_then(|mover| mover.state.as_ref()?.terminated.as_ref());
    let from_container = ended.map(|ended| {
        let reason = ended.reason.as_deref().unwrap_or("Error");
        format!("the mover ended with {reason}, exit code {}, and left no message", ended.exit_code)
    });
    let of_pod = [status.reason.as_deref(), status.message.as_deref()];
    let of_pod = of_pod.into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
    let of_pod = Some(of_pod).filter(|text| !text.is_empty()).map(|text| format!("the pod failed: {text}"));
    termination(mover).or(of_pod).or(from_container).unwrap_or_else(|| "the pod failed without a reason".to_owned())
}

fn stuck(mover: Option<&ContainerStatus>) -> Option<String> {
    let waiting = mover?.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|reason| NEVER_STARTS.contains(reason))?;
    let image = mover.map(|mover| mover.image.as_str()).unwrap_or_default();
    let message = waiting.message.as_deref().unwrap_or_default();
    let what = match reason {
        CONFIG_ERROR if message.contains(NOT_YET) => return None,
        CONFIG_ERROR => "its container cannot be made".to_owned(),
        _ => format!("its image {image:?} cannot be used"),
    };
    Some(format!("{what}, {reason}: {message}").trim_end_matches([' ', ':']).to_owned())
}

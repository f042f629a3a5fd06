//! What a mover may do: as little as it can with.

use serde_json::{Value, json};

/// Reading files whoever owns them.
const TO_READ: &[&str] = &["DAC_READ_SEARCH"];
/// Writing files, and giving them their owners and modes.
const TO_WRITE: &[&str] = &["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"];

/// What a mover does with its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It reads it.
    Read,
    /// It fills it.
    Write,
}

/// The rights of the container of a mover. It is root without the powers of root, since files of all users must be
/// read and written, and it can change nothing of the node but its volume.
pub(super) fn of_container(access: Access, is_privileged: bool) -> Value {
    if is_privileged {
        return json!({ "privileged": true, "readOnlyRootFilesystem": true });
    }
    let capabilities = match access {
        Access::Read => TO_READ,
        Access::Write => TO_WRITE,
    };
    json!({
        "privileged": false,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"], "add": capabilities },
    })
}

/// The rights of the pod of a mover.
pub(super) fn of_pod(leaves_labels: bool) -> Value {
    let mut rights = json!({ "runAsUser": 0, "seccompProfile": { "type": "RuntimeDefault" } });
    if leaves_labels {
        rights["seLinuxOptions"] = json!({ "type": "spc_t" });
    }
    rights
}

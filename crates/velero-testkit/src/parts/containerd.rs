//! containerd with runc and the network plugins, Debian's.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use super::Part;
use super::images::PAUSE_IMAGE;
use crate::machine::Machine;

/// The container runtime of the node.
pub struct Containerd;

impl Containerd {
    /// The folder that says how each registry is reached, one folder a registry.
    pub(super) fn registries(machine: &Machine) -> PathBuf {
        machine.state().join("containerd/registries")
    }

    /// The socket it serves.
    pub(super) fn socket(machine: &Machine) -> PathBuf {
        machine.state().join("containerd/containerd.sock")
    }
}

impl Part for Containerd {
    fn name(&self) -> &'static str {
        "containerd"
    }

    fn install(&self) -> Result<()> {
        crate::install::debian_packages()
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let folder = machine.folder("containerd")?;
        let network = machine.folder("cni")?;
        fs::write(network.join("10-box.conflist"), network_configuration(machine))?;
        let configuration = folder.join("config.toml");
        fs::write(&configuration, runtime_configuration(machine))?;
        machine.start(self.name(), "containerd", ["--config", &configuration.display().to_string()])
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        let socket = Self::socket(machine).display().to_string();
        machine.run("ctr", ["--address", &socket, "version"]).map(drop)
    }
}

/// `restrict_oom_score_adj`: a virtual machine may lack the capability to lower that score, and every sandbox would fail.
fn runtime_configuration(machine: &Machine) -> String {
    let state = machine.state();
    let state = state.display();
    let socket = Containerd::socket(machine);
    format!(
        r#"version = 2
root = "{state}/containerd/root"
state = "/run/containerd"
[grpc]
  address = "{}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{state}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{}"
"#,
        socket.display(),
        Containerd::registries(machine).display()
    )
}

/// `ptp` and not `bridge`: with a bridge, answers from services do not come back to pods.
fn network_configuration(machine: &Machine) -> String {
    serde_json::json!({
        "cniVersion": "1.0.0",
        "name": "box",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": machine.state().join("addresses"),
                    "ranges": [[{"subnet": machine.pod_range()}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "loopback"},
        ],
    })
    .to_string()
}

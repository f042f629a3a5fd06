//! Our CSI driver: the storage of the box.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use velero_csi_driver::DRIVER_NAME;

use super::{NODE_NAME, Part};
use crate::install;
use crate::machine::Machine;

/// The socket by which kubelet learns of the driver. Kubelet gives the path, escaped, as the host it asks for. Our side of
/// gRPC takes no escapes in a host, but does so in the name of a user, which ends with an `@`.
const REGISTRATION: &str = "csi@box.socket";

/// Runs the driver in the namespaces of the machine, where its mounts are seen by kubelet and containerd.
#[derive(Default)]
pub struct CsiDriver {
    /// The folder of the volumes and snapshots, the same for all boxes.
    pub storage: PathBuf,
}

impl CsiDriver {
    /// The path of the driver, built once by each process that asks.
    pub fn binary() -> Result<PathBuf> {
        static BINARY: OnceLock<PathBuf> = OnceLock::new();
        if let Some(built) = BINARY.get() {
            return Ok(built.clone());
        }
        let built = install::package_binary("velero-csi-driver", "velero-csi-driver", "dev")?;
        Ok(BINARY.get_or_init(|| built).clone())
    }

    /// The file with the driver's settings.
    pub(crate) fn settings(machine: &Machine) -> PathBuf {
        machine.state().join("csi-settings.json")
    }

    /// The socket that sidecars and kubelet use.
    pub(super) fn socket(machine: &Machine) -> PathBuf {
        machine.state().join("csi.socket")
    }
}

impl Part for CsiDriver {
    fn name(&self) -> &'static str {
        "csi-driver"
    }

    fn install(&self) -> Result<()> {
        Self::binary().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let registration = machine.folder("kubelet/plugins_registry")?.join(REGISTRATION);
        machine.start(
            self.name(),
            Self::binary()?,
            [
                format!("--storage={}", self.storage.display()),
                format!("--settings={}", Self::settings(machine).display()),
                format!("--socket={}", Self::socket(machine).display()),
                format!("--registration={}", registration.display()),
                format!("--node-folder={}", machine.state().join("csi-node").display()),
                format!("--node={NODE_NAME}"),
            ],
        )
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        ensure!(machine.is_running(self.name()), "the driver does not run");
        let node = machine.read(&format!("/apis/storage.k8s.io/v1/csinodes/{NODE_NAME}"))?;
        let mut drivers = node["spec"]["drivers"].as_array().into_iter().flatten();
        let known = drivers.any(|driver| driver["name"] == DRIVER_NAME);
        ensure!(known, "the node knows only these drivers: {}", node["spec"]["drivers"]);
        Ok(())
    }
}

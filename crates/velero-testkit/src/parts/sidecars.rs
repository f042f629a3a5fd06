//! What Kubernetes runs beside a CSI driver: it turns claims into volumes, and snapshots asked for into snapshots.

use anyhow::Result;

use super::{Certificates, CsiDriver, Part, answers};
use crate::machine::Machine;
use crate::tool::Tool;

/// One of the controllers that go between Kubernetes and a CSI driver.
pub struct Sidecar {
    tool: Tool,
    port: u16,
    calls_driver: bool,
    arguments: &'static [&'static str],
}

/// The snapshot controller binds VolumeSnapshots to their contents; the sidecars of the driver have it take the snapshots
/// and make the volumes.
pub static SIDECARS: [Sidecar; 3] = [
    Sidecar {
        tool: Tool::SnapshotController,
        port: 18281,
        calls_driver: false,
        arguments: &["--feature-gates=CSIVolumeGroupSnapshot=true"],
    },
    Sidecar {
        tool: Tool::CsiSnapshotter,
        port: 18282,
        calls_driver: true,
        // Now and then it forgets a snapshot that is not ready when somebody else writes its content at the same moment;
        // it comes back to it when it looks at everything again, by default after a quarter of an hour.
        arguments: &["--feature-gates=CSIVolumeGroupSnapshot=true", "--resync-period=20s"],
    },
    Sidecar { tool: Tool::CsiProvisioner, port: 18283, calls_driver: true, arguments: &["--timeout=60s"] },
];

impl Part for Sidecar {
    fn name(&self) -> &'static str {
        self.tool.name()
    }

    fn install(&self) -> Result<()> {
        self.tool.path().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let mut arguments = vec![
            format!("--kubeconfig={}", Certificates::kubeconfig(machine).display()),
            format!("--http-endpoint=127.0.0.1:{}", self.port),
            // The usual limits (5 requests a second, 5 minutes between looks at what is not ready) are for clusters where
            // nobody waits for a test.
            "--kube-api-qps=1000".into(),
            "--kube-api-burst=2000".into(),
            "--retry-interval-start=200ms".into(),
            "--retry-interval-max=1s".into(),
            // So many calls that hang, as a test may want, do not hinder other tests.
            "--worker-threads=100".into(),
        ];
        if self.calls_driver {
            arguments.push(format!("--csi-address={}", CsiDriver::socket(machine).display()));
        }
        arguments.extend(self.arguments.iter().map(|argument| (*argument).to_owned()));
        machine.start(self.name(), self.tool.path()?, arguments)
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, &format!("http://127.0.0.1:{}/metrics", self.port))
    }
}

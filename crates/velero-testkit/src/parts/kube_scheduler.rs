//! The scheduler.

use anyhow::Result;

use super::{Certificates, Part, answers};
use crate::install;
use crate::machine::Machine;

/// Places pods on the node.
pub struct KubeScheduler;

impl Part for KubeScheduler {
    fn name(&self) -> &'static str {
        "kube-scheduler"
    }

    fn install(&self) -> Result<()> {
        install::kubernetes().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        machine.start(
            self.name(),
            machine.kubernetes()?.join(self.name()),
            [format!("--kubeconfig={}", Certificates::kubeconfig(machine).display()), "--leader-elect=false".into()],
        )
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, "https://127.0.0.1:10259/healthz")
    }
}

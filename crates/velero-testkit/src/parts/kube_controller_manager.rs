//! The controller manager.

use anyhow::Result;

use super::{Certificates, Part, answers};
use crate::install;
use crate::machine::Machine;

/// Runs the controllers of Kubernetes, all but the one that hands out node address ranges.
pub struct KubeControllerManager;

impl Part for KubeControllerManager {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn install(&self) -> Result<()> {
        install::kubernetes().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let certificates = Certificates::folder(machine);
        machine.start(
            self.name(),
            install::kubernetes()?.join(self.name()),
            [
                format!("--kubeconfig={}", Certificates::kubeconfig(machine).display()),
                "--leader-elect=false".into(),
                format!("--service-account-private-key-file={}", certificates.join("accounts.key").display()),
                format!("--root-ca-file={}", certificates.join("ca.crt").display()),
                "--controllers=*,-nodeipam".into(),
                // The defaults (20 a second) would make thousands of Deployments settle for minutes.
                "--kube-api-qps=1000".into(),
                "--kube-api-burst=2000".into(),
            ],
        )
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, "https://127.0.0.1:10257/healthz")
    }
}

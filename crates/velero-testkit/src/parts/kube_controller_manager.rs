//! The controller manager.

use std::time::Duration;

use anyhow::Result;

use super::{Certificates, Part, answers};
use crate::install;
use crate::machine::Machine;

/// How often claims and volumes that did not find each other are looked at again.
pub const CLAIMS_EVERY: Duration = Duration::from_secs(3);

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
        // Most controllers hold all objects of a type in memory, and the garbage collector those of all types.
        let controllers = match machine.is_roomy() {
            true => "--controllers=namespace-controller,serviceaccount-controller",
            false => "--controllers=*,-nodeipam",
        };
        machine.start(
            self.name(),
            machine.kubernetes()?.join(self.name()),
            [
                format!("--kubeconfig={}", Certificates::kubeconfig(machine).display()),
                "--leader-elect=false".into(),
                format!("--service-account-private-key-file={}", certificates.join("accounts.key").display()),
                format!("--root-ca-file={}", certificates.join("ca.crt").display()),
                controllers.into(),
                // The defaults (20 a second) would make thousands of Deployments settle for minutes.
                "--kube-api-qps=1000".into(),
                "--kube-api-burst=2000".into(),
                // A claim that missed its volume waits for the next round; by default there is one in 15 seconds.
                format!("--pvclaimbinder-sync-period={}s", CLAIMS_EVERY.as_secs()),
            ],
        )
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, "https://127.0.0.1:10257/healthz")
    }
}

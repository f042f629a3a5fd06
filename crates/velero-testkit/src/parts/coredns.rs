//! CoreDNS: service names work inside the box.

use std::fs;

use anyhow::Result;

use super::{Certificates, Part, answers};
use crate::machine::Machine;
use crate::tool::Tool;

/// Answers for `cluster.local` on the node's address; there is nothing outside to ask for other names.
pub struct CoreDns;

impl Part for CoreDns {
    fn name(&self) -> &'static str {
        "coredns"
    }

    fn install(&self) -> Result<()> {
        Tool::CoreDns.path().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let path = machine.state().join("Corefile");
        let kubeconfig = Certificates::kubeconfig(machine);
        let configuration = format!(
            ".:53 {{\n  bind {}\n  errors\n  health 127.0.0.1:18080\n  ready 127.0.0.1:18181\n  \
             kubernetes cluster.local {{\n    kubeconfig {} {}\n  }}\n}}\n",
            machine.node_address(),
            kubeconfig.display(),
            machine.name,
        );
        fs::write(&path, configuration)?;
        machine.start(self.name(), Tool::CoreDns.path()?, ["-conf".into(), path.display().to_string()])
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, "http://127.0.0.1:18181/ready")
    }
}

//! kubectl inside a machine, as its administrator.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Certificates;
use crate::machine::Machine;

impl Machine {
    /// Runs kubectl and gives what it printed.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.kubectl_command()?;
        let output = command.args(arguments).output()?;
        ensure!(
            output.status.success(),
            "kubectl {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Applies manifests in any form that kubectl reads.
    pub(super) fn apply_with_kubectl(&self, manifests: &str) -> Result<()> {
        let mut child = self
            .kubectl_command()?
            .args(["apply", "--server-side", "--force-conflicts", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        child.stdin.take().context("kubectl has no standard input")?.write_all(manifests.as_bytes())?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "kubectl apply: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    fn kubectl_command(&self) -> Result<Command> {
        let mut command = self.command(self.kubernetes()?.join("kubectl"));
        command.env("KUBECONFIG", Certificates::kubeconfig(self)).env("HOME", self.state());
        Ok(command)
    }
}

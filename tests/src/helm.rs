//! Helm and the chart, for tests of them.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use velero_testkit::Tool;
use velero_testkit::install::repository_root;
use velero_testkit::machine::Machine;
use velero_testkit::parts::Certificates;

/// The chart.
pub fn chart() -> PathBuf {
    repository_root().join("deploy/chart/velero")
}

/// Where whoever has Velero's own chart names its folder, so that stories about it run with it.
const ORIGINAL: &str = "VELERO_CHART";

/// Velero's own chart where there is one, else what stands in for it.
pub fn veleros_chart() -> PathBuf {
    std::env::var_os(ORIGINAL).map_or_else(|| repository_root().join("tests/stories/veleros_chart"), PathBuf::from)
}

/// The image that the chart names when values do not.
pub fn image() -> String {
    format!("ghcr.io/velero-rust/velero:v{}", env!("CARGO_PKG_VERSION"))
}

/// Helm, with a cluster or without one.
#[derive(Clone, Copy)]
pub struct Helm<'a> {
    machine: Option<&'a Machine>,
}

impl<'a> Helm<'a> {
    /// Helm that knows no cluster.
    pub const fn alone() -> Self {
        Self { machine: None }
    }

    /// Helm with all rights in the cluster of a machine.
    pub const fn of(machine: &'a Machine) -> Self {
        Self { machine: Some(machine) }
    }

    /// Runs a command and gives what it printed; a failure is an error.
    pub fn run(self, arguments: &[&str], values: Option<&Value>) -> Result<String> {
        let output = self.output(arguments, values)?;
        ensure!(output.status.success(), "helm {}: {}", arguments.join(" "), text(&output.stderr));
        Ok(text(&output.stdout))
    }

    /// Runs a command that must fail, and gives what it said.
    pub fn refusal(self, arguments: &[&str], values: Option<&Value>) -> Result<String> {
        let output = self.output(arguments, values)?;
        ensure!(!output.status.success(), "helm {} was accepted: {}", arguments.join(" "), text(&output.stdout));
        Ok(text(&output.stderr))
    }

    fn output(self, arguments: &[&str], values: Option<&Value>) -> Result<Output> {
        let helm = Tool::Helm.path()?;
        let mut command = self.machine.map_or_else(|| Command::new(&helm), |machine| machine.command(&helm));
        match self.machine {
            Some(machine) => {
                command.env("KUBECONFIG", Certificates::kubeconfig(machine)).env("HOME", machine.state());
            }
            None => {
                command.env("KUBECONFIG", "/dev/null").env("HOME", std::env::temp_dir());
            }
        }
        command.args(arguments);
        if values.is_some() {
            command.args(["--values", "-"]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut input = child.stdin.take().context("helm has no standard input")?;
        if let Some(values) = values {
            // Helm that refuses its arguments reads nothing.
            let _ = input.write_all(values.to_string().as_bytes());
        }
        drop(input);
        Ok(child.wait_with_output()?)
    }

    /// What the chart makes of values in that namespace, or why it does not.
    pub fn template(self, namespace: &str, values: &Value) -> Result<String> {
        let chart = chart().display().to_string();
        self.run(&["template", "velero", &chart, "--namespace", namespace], Some(values))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

//! A command line of Velero in a box, for tests that install their own server.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use velero_testkit::Edition;
use velero_testkit::machine::Machine;
use velero_testkit::parts::Certificates;

/// The command line of an edition, on a machine, with the rights of a kubeconfig.
pub struct CommandLine<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The edition.
    pub edition: Edition,
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
}

impl<'a> CommandLine<'a> {
    /// The command line of an edition with all rights.
    pub fn new(machine: &'a Machine, edition: Edition) -> Self {
        Self { machine, edition, kubeconfig: Certificates::kubeconfig(machine) }
    }

    /// Runs a command and gives all it said; a failure is an error.
    pub fn velero(&self, arguments: &[&str]) -> Result<String> {
        let (succeeded, said) = self.run(arguments)?;
        ensure!(succeeded, "velero {} of {:?}: {said}", arguments.join(" "), self.edition);
        Ok(said)
    }

    /// Runs a command that must fail, and gives all it said.
    pub fn refusal(&self, arguments: &[&str]) -> Result<String> {
        let (succeeded, said) = self.run(arguments)?;
        ensure!(!succeeded, "velero {} of {:?} was accepted: {said}", arguments.join(" "), self.edition);
        Ok(said)
    }

    fn run(&self, arguments: &[&str]) -> Result<(bool, String)> {
        let mut command = self.machine.command(self.edition.binary()?);
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig).env("HOME", self.machine.state());
        let output = command.output()?;
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok((output.status.success(), stdout + &stderr))
    }

    /// The names of all objects that belong to the cluster and that an installation could leave behind.
    pub fn cluster_objects(&self) -> Result<Vec<String>> {
        let kinds = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,persistentvolumes";
        Ok(self.machine.kubectl(&["get", kinds, "-o", "name"])?.lines().map(str::to_owned).collect())
    }
}

//! Several servers of ours in one box, each as on a machine of its own: in a process namespace of its own, so that none
//! can see that another is gone.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::Certificates;
use velero_testkit::{Edition, VeleroServer};

/// The Lease that they agree by.
const LEASE: &str = "velero-server";

/// A server beside others.
pub struct Rival {
    machine: Machine,
    namespace: String,
    name: String,
    port: u16,
}

impl Rival {
    /// Starts a server beside the one whose resources are installed.
    pub fn start(installed: &VeleroServer, name: &str, port: u16, flags: &[&str]) -> Result<Self> {
        let machine = installed.machine().clone();
        let folder = machine.folder(name)?;
        let credentials = installed.folder()?.join("cloud");
        let mut shell = machine.command("sh");
        shell
            .env("KUBECONFIG", Certificates::kubeconfig(&machine))
            .env("AWS_SHARED_CREDENTIALS_FILE", credentials)
            .env("HOSTNAME", name)
            .env("HOME", &folder)
            .env("TMPDIR", &folder);
        let apart = ["--pid", "--fork", "--kill-child", "--mount-proc"].map(str::to_owned);
        let server = [Edition::Ours.binary()?.display().to_string(), "server".to_owned()];
        let own = [
            format!("--namespace={}", installed.namespace()),
            format!("--metrics-address=127.0.0.1:{port}"),
            format!("--plugin-dir={}", folder.display()),
        ];
        let arguments = apart.into_iter().chain(server).chain(own).chain(flags.iter().map(|flag| (*flag).to_owned()));
        machine.start_command(name, shell, "unshare", arguments)?;
        Ok(Self { machine, namespace: installed.namespace().to_owned(), name: name.to_owned(), port })
    }

    /// Sends its process a signal, such as `-KILL`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let outer = self.machine.host_process(&self.name)?;
        let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"))?;
        let process = children.split_whitespace().next().with_context(|| format!("{} does not run", self.name))?;
        let sent = Command::new("kill").args([signal, process]).status()?;
        ensure!(sent.success(), "{signal} cannot be sent to {}", self.name);
        Ok(())
    }

    /// Waits until its process has ended.
    pub fn wait_for_end(&self, patience: Duration) -> Result<()> {
        wait_until(&format!("the end of {}", self.name), patience, || {
            ensure!(!self.machine.is_running(&self.name), "it runs, and says:\n{}", self.log());
            Ok(())
        })
    }

    /// Waits until it leads.
    pub fn wait_until_it_leads(&self, patience: Duration) -> Result<()> {
        wait_until(&format!("{} to lead", self.name), patience, || {
            let holder = self.holder()?;
            ensure!(self.is_named_in(&holder), "{holder:?} leads; it says:\n{}", self.log());
            Ok(())
        })
    }

    /// Waits until it waits for the end of another.
    pub fn wait_until_it_waits(&self, patience: Duration) -> Result<()> {
        wait_until(&format!("{} to wait", self.name), patience, || {
            let answer = self.http("/readyz")?;
            ensure!(answer.contains("this one waits"), "it answers {answer:?} and says:\n{}", self.log());
            Ok(())
        })
    }

    /// Whether it is the one that a Lease names.
    pub fn is_named_in(&self, holder: &str) -> bool {
        holder.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('_'))
    }

    /// Who holds the Lease.
    pub fn holder(&self) -> Result<String> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{LEASE}", self.namespace);
        let lease: Value = self.machine.read(&path)?;
        Ok(lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
    }

    /// What it answers over HTTP.
    pub fn http(&self, path: &str) -> Result<String> {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        self.machine.run("curl", ["--silent", "--show-error", "--fail", &url])
    }

    /// What it has said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.machine.log(&self.name)).unwrap_or_default()
    }

    /// Asks it to end, and waits for that.
    pub fn stop(&self) -> Result<()> {
        self.signal("-TERM")?;
        self.wait_for_end(Duration::from_secs(60))
    }
}

//! The node agents of a server in a box: the objects that its own `velero install` makes for them, and an image of its
//! binaries. The server itself goes on as a process of the box; its Deployment is there for whoever copies from it.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::image::Image;
use crate::machine::{Machine, wait_until};
use crate::parts::Images;
use crate::server::{Edition, VeleroServer, credentials_file};

/// What an installation makes that tests make themselves.
const MADE_BY_TESTS: [&str; 4] =
    ["CustomResourceDefinition", "Namespace", "BackupStorageLocation", "VolumeSnapshotLocation"];

impl Edition {
    /// The image of this edition in a box.
    pub fn image(self) -> String {
        format!("docker.io/velero-box/velero-{}:1", format!("{self:?}").to_lowercase())
    }

    /// Puts the image of this edition into a box.
    pub fn load_image(self, machine: &Machine) -> Result<()> {
        let archive = machine.state().join(format!("{self:?}.tar"));
        let image = Image::of_velero(&self.image(), &self.binary()?)?;
        image.file(&self.restore_helper()?, "velero-restore-helper").write(&archive)?;
        let loaded = Images::load(machine, &archive);
        fs::remove_file(&archive)?;
        loaded
    }
}

impl VeleroServer {
    /// Installs the node agents of this edition, with further flags of its `velero install`.
    pub(crate) fn install_agents(&self, flags: &[String]) -> Result<()> {
        self.edition().load_image(self.machine())?;
        let keys = self.folder()?.join("cloud");
        fs::write(&keys, credentials_file())?;
        let mut arguments = vec![
            "install".to_owned(),
            "--use-node-agent".to_owned(),
            format!("--image={}", self.edition().image()),
            "--provider=aws".to_owned(),
            format!("--bucket={}", self.options().bucket),
            format!("--secret-file={}", keys.display()),
            format!("--kubelet-root-dir={}", self.machine().folder("kubelet")?.display()),
            "--dry-run".to_owned(),
            "--output=json".to_owned(),
        ];
        if self.edition() == Edition::Peer {
            arguments.push("--plugins=velero/velero-plugin-for-aws:v1.14.3".to_owned());
        }
        arguments.extend_from_slice(flags);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let list: Value = serde_json::from_str(&self.velero(&arguments)?).context("no list of objects")?;
        for object in list["items"].as_array().context("an installation without objects")? {
            self.install_object(object)?;
        }
        Ok(())
    }

    fn install_object(&self, object: &Value) -> Result<()> {
        let kind = object["kind"].as_str().unwrap_or_default();
        if MADE_BY_TESTS.contains(&kind) {
            return Ok(());
        }
        let mut object = object.clone();
        if kind == "Deployment" {
            object["spec"]["replicas"] = json!(0);
        }
        self.machine().apply(&object.to_string())
    }

    /// Waits until every node has its agent.
    pub fn wait_for_agents(&self) -> Result<()> {
        // Their log is dear: it is asked for once, not at each look.
        wait_until("the node agents", Duration::from_secs(90), || self.check_agents()).with_context(|| self.agent_log())
    }

    /// Says what is missing where not every node has its agent.
    pub fn check_agents(&self) -> Result<()> {
        let agents = self.machine().read(&self.agents())?;
        let status = &agents["status"];
        let wanted = status["desiredNumberScheduled"].as_i64().unwrap_or_default();
        let current = status["observedGeneration"] == agents["metadata"]["generation"];
        ensure!(current && wanted > 0 && status["numberReady"] == wanted, "{status}");
        Ok(())
    }

    /// Removes the node agents.
    pub fn remove_agents(&self) -> Result<()> {
        self.machine().delete(&self.agents())
    }

    /// The end of what the node agents have logged.
    pub fn agent_log(&self) -> String {
        let arguments = ["-n", self.namespace(), "logs", "-l", "name=node-agent", "--tail=40", "--prefix"];
        self.machine().kubectl(&arguments).unwrap_or_else(|error| error.to_string())
    }

    fn agents(&self) -> String {
        format!("/apis/apps/v1/namespaces/{}/daemonsets/node-agent", self.namespace())
    }
}

//! The registry of an OpenShift cluster: in the box, for its pods, its node and whoever copies images. It speaks plain
//! HTTP, serves those who bring the token of the box, and tells the stand-in of every push.

use std::fs;

use anyhow::Result;
use serde_json::json;

use super::{Containerd, OpenShiftStandin, Part, answers};
use crate::install;
use crate::machine::Machine;
use crate::registry::{Guard, PASSWORD_FILE, REGISTRY_PASSWORD, REGISTRY_USER, configuration};

const PORT: u16 = 5000;

/// The internal registry.
pub struct InternalRegistry;

impl InternalRegistry {
    /// Its host and port, the same for everybody in the box and different in every box.
    pub fn host(machine: &Machine) -> String {
        format!("{}:{PORT}", machine.node_address())
    }

    /// containerd uses plain HTTP only where it is told to.
    fn tell_containerd(machine: &Machine) -> Result<()> {
        let host = Self::host(machine);
        let folder = Containerd::registries(machine).join(&host);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join("hosts.toml"), format!("[host.\"http://{host}\"]\n"))?)
    }
}

impl Part for InternalRegistry {
    fn name(&self) -> &'static str {
        "internal-registry"
    }

    fn install(&self) -> Result<()> {
        install::registry_packages()
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        Self::tell_containerd(machine)?;
        let folder = machine.folder(self.name())?;
        let mut settings = configuration(&format!("0.0.0.0:{PORT}"), &folder, Guard::Password, false);
        settings["notifications"] = json!({"endpoints": [{
            "name": "openshift",
            "url": OpenShiftStandin::events_url(),
            "timeout": "5s",
            "threshold": 3,
            "backoff": "1s",
            "ignoredmediatypes": ["application/octet-stream"],
        }]});
        fs::write(folder.join("passwords"), PASSWORD_FILE)?;
        let file = folder.join("config.yml");
        fs::write(&file, settings.to_string())?;
        machine.start(self.name(), "docker-registry", ["serve".into(), file.display().to_string()])
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, &format!("http://{REGISTRY_USER}:{REGISTRY_PASSWORD}@{}/v2/", Self::host(machine)))
    }
}

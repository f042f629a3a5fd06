//! A container registry in the store's machine, which all boxes reach: plain HTTP, open to everybody.

use std::fs;

use anyhow::Result;

use super::{Door, Part, STORE_ADDRESS, StorePart, answers};
use crate::install;
use crate::machine::Machine;
use crate::registry::{Guard, configuration};

/// A registry; tests that need several give each a name and a port of its own.
pub struct ContainerRegistryPart {
    /// The name of the part.
    pub name: &'static str,
    /// The name of its door.
    pub door: &'static str,
    /// Its port, the same inside and on this host's loopback.
    pub port: u16,
}

impl ContainerRegistryPart {
    /// Its host and port as boxes and their pods see it.
    pub fn inside(&self) -> String {
        format!("{STORE_ADDRESS}:{}", self.port)
    }

    /// Its host and port on this host's loopback.
    pub fn outside(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Part for ContainerRegistryPart {
    fn name(&self) -> &'static str {
        self.name
    }

    fn install(&self) -> Result<()> {
        install::registry_packages()
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let folder = machine.folder(self.name)?;
        let settings = configuration(&format!("0.0.0.0:{}", self.port), &folder, Guard::Open, false);
        let file = folder.join("config.yml");
        fs::write(&file, settings.to_string())?;
        machine.start(self.name, "docker-registry", ["serve".into(), file.display().to_string()])
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, &format!("http://{}/v2/", self.inside()))
    }
}

impl StorePart for ContainerRegistryPart {
    fn door(&self) -> Door {
        Door::new(self.door, self.port, self.inside())
    }
}

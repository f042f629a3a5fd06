//! The doors of a machine: a shell on this host reaches the API server and the store on loopback.

use anyhow::{Context, Result};

use super::Part;
use crate::machine::{Machine, links};

/// A door from this host's loopback to an address inside.
pub struct Door {
    name: &'static str,
    port: u16,
    inside: String,
}

impl Door {
    /// A door on that port of this host.
    pub fn new(name: &'static str, port: u16, inside: String) -> Self {
        Self { name, port, inside }
    }

    /// Waits until the port is free on this host; fails with the remedy when it stays taken.
    pub fn wait_until_free(&self) -> Result<()> {
        links::wait_until_free(self.port, links::GIVING_UP)
    }
}

impl Part for Door {
    fn name(&self) -> &'static str {
        self.name
    }

    fn install(&self) -> Result<()> {
        crate::install::debian_packages()
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        machine.open_door(self.name, self.port, &self.inside)
    }

    fn check(&self, _machine: &Machine) -> Result<()> {
        std::net::TcpStream::connect(("127.0.0.1", self.port)).map(drop).context("the door does not open")
    }

    fn stop(&self, machine: &Machine) -> Result<()> {
        machine.stop(&format!("{}-outer", self.name))?;
        machine.stop(&format!("{}-inner", self.name))
    }
}

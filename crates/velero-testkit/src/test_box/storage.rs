//! The storage of a box: the parts that make it, and what a test asks of it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use velero_csi_driver::{Settings, Storage};

use super::{BoxKind, STORE, TestBox};
use crate::machine::Machine;
use crate::parts::{CsiDriver, Part, SIDECARS, SnapshotDefinitions, StorageClasses, start_together};
use crate::progress::say;

/// The parts that turn a whole box into one with storage; those that start together stand together.
pub(super) fn parts(driver: &CsiDriver) -> [Vec<&dyn Part>; 2] {
    let mut others: Vec<&dyn Part> = vec![&StorageClasses];
    others.extend(SIDECARS.iter().map(|sidecar| sidecar as &dyn Part));
    [vec![&SnapshotDefinitions, driver], others]
}

/// The volumes of all boxes lie beside the objects of the store: they come and go with it.
fn folder() -> Result<PathBuf> {
    Machine::find(STORE).context("the store is not up: bring a box up first")?.folder("volumes")
}

impl TestBox {
    pub(super) fn add_storage(mut self) -> Result<Self> {
        let driver = CsiDriver { storage: folder()? };
        for parts in parts(&driver) {
            start_together(&self.machine, &parts)?;
        }
        say(format!("box {}: the storage is ready", self.machine.name));
        self.kind = BoxKind::Storage;
        self.remember()?;
        Ok(self)
    }

    /// Starts the CSI driver of this box again, after it ended. The sidecars ended with it, and are not started.
    pub fn restart_storage_driver(&self) -> Result<()> {
        start_together(&self.machine, &[&CsiDriver { storage: folder()? }])
    }

    /// What the CSI drivers of all boxes keep: a snapshot taken in one can be used in another.
    pub fn storage() -> Result<Storage> {
        Storage::open(&folder()?)
    }

    /// Makes the CSI driver of this box misbehave from now on, for everybody. The parameters of a snapshot class or a
    /// storage class say the same for what is made with that class alone.
    pub fn set_storage(&self, settings: &Settings) -> Result<()> {
        settings.write(&CsiDriver::settings(&self.machine))
    }
}

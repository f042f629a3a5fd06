//! What makes a box stand in for OpenShift, and the registry between such boxes.

use anyhow::Result;

use super::{BoxKind, TestBox, storage};
use crate::parts::{
    ContainerRegistryPart, CsiDriver, InternalRegistry, OpenShiftDefinitions, OpenShiftStandin, Part, start_together,
};
use crate::progress::say;

/// The parts that turn a box with storage into one that stands in for OpenShift, in the order they start.
const PARTS: [&dyn Part; 3] = [&OpenShiftDefinitions, &OpenShiftStandin, &InternalRegistry];

/// The registry that images of one box take on their way to another.
const MIGRATION_REGISTRY: ContainerRegistryPart =
    ContainerRegistryPart { name: "migration-registry", door: "migration-door", port: 28500 };

/// What a box of that kind has beyond a node.
pub(super) fn parts_beyond_node(kind: BoxKind, driver: &CsiDriver) -> Vec<&dyn Part> {
    let mut parts = Vec::new();
    if kind >= BoxKind::Storage {
        parts.extend(storage::parts(driver).concat());
    }
    if kind >= BoxKind::OpenShift {
        parts.extend(PARTS);
    }
    parts
}

impl TestBox {
    pub(super) fn add_openshift(mut self) -> Result<Self> {
        for part in PARTS {
            start_together(&self.machine, &[part])?;
        }
        say(format!("box {}: what stands in for OpenShift is ready", self.machine.name));
        self.kind = BoxKind::OpenShift;
        self.remember()?;
        Ok(self)
    }

    /// Host and port of the registry of this box alone.
    pub fn internal_registry(&self) -> String {
        InternalRegistry::host(&self.machine)
    }

    /// Host and port of a registry that all boxes reach, started where needed.
    pub fn migration_registry() -> Result<String> {
        Self::start_in_store(&MIGRATION_REGISTRY)?;
        Ok(MIGRATION_REGISTRY.inside())
    }
}

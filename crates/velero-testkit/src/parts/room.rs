//! Room for millions of objects in a control plane.

use std::fs;

use anyhow::Result;

use crate::machine::Machine;

/// A file in the state of the machine, so that parts that are started again have the room they had.
const ROOMY: &str = "roomy";

impl Machine {
    /// Has the parts that are started from now on make room for millions of objects.
    pub(crate) fn make_roomy(&self) -> Result<()> {
        Ok(fs::write(self.state().join(ROOMY), "")?)
    }

    /// Whether parts make room for millions of objects.
    pub(crate) fn is_roomy(&self) -> bool {
        self.state().join(ROOMY).exists()
    }
}

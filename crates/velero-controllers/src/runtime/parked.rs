//! Hooks in restored pods that go on while their restore waits for operations.

use std::collections::HashMap;
use std::sync::Mutex;

use velero_engine::Journal;
use velero_engine::restore::RunningHooks;

use crate::runtime::lock::lock;

/// The hooks of a restore that waits, and the journal they write to.
pub(crate) struct Parked {
    pub(crate) hooks: RunningHooks,
    pub(crate) journal: Journal,
}

/// The hooks of all restores that wait, by name of the restore. They end with the server.
#[derive(Default)]
pub(crate) struct ParkedHooks {
    parked: Mutex<HashMap<String, Parked>>,
}

impl ParkedHooks {
    pub(crate) fn park(&self, restore: &str, parked: Parked) {
        lock(&self.parked).insert(restore.to_owned(), parked);
    }

    /// Takes the hooks of a restore; who drops them ends them.
    pub(crate) fn take(&self, restore: &str) -> Option<Parked> {
        lock(&self.parked).remove(restore)
    }

    /// The journal of a restore whose hooks still run.
    pub(crate) fn journal(&self, restore: &str) -> Option<Journal> {
        let parked = lock(&self.parked);
        parked.get(restore).map(|parked| parked.journal.clone())
    }
}

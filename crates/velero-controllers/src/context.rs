//! What all reconcilers share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use velero_api::v1::PluginInfo;

use crate::locations::Locations;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::settings::Settings;

/// What all reconcilers share.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) objects: Objects,
    pub(crate) locations: Locations,
    pub(crate) metrics: Metrics,
    /// The backups this process is working on.
    pub(crate) running: Running,
    /// Positions in the queue are given by one at a time.
    pub(crate) queue: tokio::sync::Mutex<()>,
    pub(crate) plugins: Vec<PluginInfo>,
    /// Cancelled when the process is to end.
    pub(crate) stop: CancellationToken,
}

/// A shared context.
pub(crate) type SharedContext = Arc<Context>;

/// The names of the backups this process is working on.
#[derive(Default)]
pub(crate) struct Running {
    names: Mutex<BTreeSet<String>>,
}

impl Running {
    pub(crate) fn add(&self, backup: &str) {
        self.names().insert(backup.to_owned());
    }

    pub(crate) fn remove(&self, backup: &str) {
        self.names().remove(backup);
    }

    pub(crate) fn contains(&self, backup: &str) -> bool {
        self.names().contains(backup)
    }

    pub(crate) fn count(&self) -> usize {
        self.names().len()
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

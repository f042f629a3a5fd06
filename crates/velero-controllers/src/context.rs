//! What all reconcilers share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use velero_api::records::{BackupOperation, RestoreOperation};

use crate::backup_threads::BackupThreads;
use crate::busy::Busy;
use crate::locations::Locations;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::operations::Kept;
use crate::orphans::Orphans;
use crate::ownership::Holder;
use crate::plugins::Plugins;
use crate::restore::ParkedHooks;
use crate::settings::Settings;

/// What all reconcilers share.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) objects: Objects,
    pub(crate) locations: Locations,
    pub(crate) metrics: Metrics,
    /// The backups this process is working on.
    pub(crate) running: Running,
    pub(crate) backup_threads: BackupThreads,
    /// Positions in the queue are given by one at a time.
    pub(crate) queue: tokio::sync::Mutex<()>,
    pub(crate) plugins: Plugins,
    /// Who this process is for others.
    pub(crate) holder: Holder,
    /// Who works on which backup.
    pub(crate) busy_backups: Busy,
    /// Who works on which restore.
    pub(crate) busy_restores: Busy,
    /// The operations that backups wait for.
    pub(crate) backup_operations: Kept<BackupOperation>,
    /// The operations that restores wait for.
    pub(crate) restore_operations: Kept<RestoreOperation>,
    /// Folders of locations that are no backups.
    pub(crate) orphans: Orphans,
    /// Hooks of restores that wait for operations.
    pub(crate) parked_hooks: ParkedHooks,
    /// Cancelled when the process is to end.
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// Ends the processes of plugins that answer questions once nobody waits any more.
    pub(crate) async fn rest_plugins(&self) {
        if self.backup_operations.is_empty() && self.restore_operations.is_empty() {
            self.plugins.end_questions().await;
        }
    }
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

    pub(crate) fn count(&self) -> usize {
        self.names().len()
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

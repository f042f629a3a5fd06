//! What all reconcilers share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use velero_api::records::{BackupOperation, RestoreOperation};

use crate::runtime::backup_threads::BackupThreads;
use crate::runtime::busy::Busy;
use crate::runtime::holder::Holder;
use crate::runtime::kept::Kept;
use crate::runtime::leadership::Leadership;
use crate::runtime::locations::Locations;
use crate::runtime::metrics::Metrics;
use crate::runtime::objects::Objects;
use crate::runtime::parked::ParkedHooks;
use crate::runtime::plugins::Plugins;
use crate::runtime::repositories::Repositories;
use crate::runtime::settings::Settings;

/// How long a server that is told to end goes on with what the next one can begin anew.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// What all reconcilers share.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) objects: Objects,
    pub(crate) locations: Locations,
    pub(crate) repositories: Repositories,
    pub(crate) metrics: Metrics,
    pub(crate) backup_threads: BackupThreads,
    pub(crate) plugins: Plugins,
    /// Who this process is for others.
    pub(crate) holder: Holder,
    /// Whether it leads.
    pub(crate) leadership: Leadership,
    /// The backups this process has in hand.
    pub(crate) backups: InHand<BackupOperation>,
    /// The restores this process has in hand.
    pub(crate) restores: InHand<RestoreOperation>,
    /// Hooks of restores that wait for operations.
    pub(crate) parked_hooks: ParkedHooks,
    /// Cancelled when the hooks that earlier servers owe have run: no backup begins before.
    pub(crate) hooks_paid: CancellationToken,
    /// Told when something has changed that only a look at all objects counts.
    pub(crate) to_count: Notify,
    /// Events that are on their way.
    pub(crate) events: TaskTracker,
    /// Cancelled when the process is to end.
    pub(crate) stop: CancellationToken,
}

/// The backups, or the restores, that this process has in hand.
pub(crate) struct InHand<O> {
    /// Who works on which.
    pub(crate) busy: Busy,
    /// The operations they wait for.
    pub(crate) operations: Kept<O>,
}

impl<O> Default for InHand<O> {
    fn default() -> Self {
        Self { busy: Busy::default(), operations: Kept::default() }
    }
}

impl Context {
    /// Does what the next server can begin anew: a server that is told to end waits a moment for it and no longer. Nothing when it
    /// was not done by then.
    pub(crate) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let late = async {
            self.stop.cancelled().await;
            tokio::time::sleep(LAST_MOMENT).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = late => None,
        }
    }

    /// Ends the processes of plugins that answer questions once nobody waits any more.
    pub(crate) async fn rest_plugins(&self) {
        if self.backups.operations.is_empty() && self.restores.operations.is_empty() {
            self.plugins.end_questions().await;
        }
    }
}

/// A shared context.
pub(crate) type SharedContext = Arc<Context>;

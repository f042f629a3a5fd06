//! A backup under way: everything the stages share, and the order in which they come.

use std::io::Write;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tracing::Span;
use tracing::field::Empty;
use velero_api::v1::{Backup, BackupProgress};
use velero_cluster::ItemRef;

use super::admit::Admission;
use super::batch::Deferred;
use super::collect::{self, Lister};
use super::custom_resource_definitions::of_custom_resources;
use super::group::Grouper;
use super::held::HeldBlocks;
use super::item::ItemSaver;
use super::ledger::Ledger;
use super::plan::{PODS, Plan};
use super::pool::{CLAIMS, Item, Pool, VOLUMES, is_held};
use super::write::{self, Archive, Records};
use super::{BackupError, BackupOutcome, BackupRequest};
use crate::hooks::{HookRunner, OwedHooks};
use crate::stage;
use crate::stage::Sums;
use crate::volumes::{BackupContext, BackupVolumes, SavedVolumes, VolumeSaver, VolumeTypes};
use crate::{Journal, lock};

/// A backup under way: everything the stages share.
pub(super) struct Run {
    pub request: BackupRequest,
    /// The backup, for calls that go on when this is given up.
    backup: Arc<Backup>,
    pub plan: Plan,
    pub journal: Journal,
    pub ledger: Arc<Ledger>,
    pub(super) records: Records,
    /// The rank of the type that is being worked on.
    pub(super) position: AtomicUsize,
    pool: Mutex<Pool>,
    pub(super) hooks: HookRunner,
    pub(super) owed_hooks: OwedHooks,
    pub(super) volumes: BackupVolumes,
    pub(super) deferred: Deferred,
    pub(super) held: HeldBlocks,
    /// Whether the data of volumes is dealt with too.
    pub(super) saves_volumes: bool,
    /// The stage in which items are backed up.
    pub(super) stage: Span,
    /// The calls of actions.
    calls: Sums,
    /// The pages of lists.
    lists: Arc<Sums>,
}

impl Run {
    /// Begins a backup, and the archive it fills.
    pub(super) fn start<W: Write + Send + 'static>(
        request: BackupRequest,
        plan: Plan,
        journal: &Journal,
        progress: watch::Sender<BackupProgress>,
        sink: W,
    ) -> (Self, Archive<W>) {
        let ledger = Arc::new(Ledger::new(plan.types().len(), progress));
        let (archive, records) = write::start(sink, request.limits, journal, &ledger);
        let stage = stage!("items", velero.items = Empty);
        let run = Self {
            backup: Arc::new(request.backup.clone()),
            ledger,
            hooks: HookRunner::new(request.cluster.clone(), journal.clone()),
            owed_hooks: request.owed_hooks.clone(),
            volumes: BackupVolumes::new(&request.backup.spec),
            deferred: Deferred::default(),
            held: HeldBlocks::default(),
            saves_volumes: true,
            calls: Sums::inside(&stage, "action"),
            lists: Arc::new(Sums::inside(&stage, "list")),
            stage,
            position: AtomicUsize::new(0),
            pool: Mutex::default(),
            request,
            plan,
            journal: journal.clone(),
            records,
        };
        (run, archive)
    }

    /// What there is to know for those who save volumes.
    pub(super) fn volume_context(&self) -> VolumeSaver<'_> {
        let request = &self.request;
        let resource_type = |name: &str| self.plan.preferred(name).map(|planned| &*planned.resource_type);
        let context = BackupContext {
            volumes: &self.volumes.notes,
            backup: &request.backup,
            cluster: &request.cluster,
            actions: &request.actions,
            journal: &self.journal,
            recorder: &request.recorder,
            policies: request.policies.as_ref(),
            features: &request.features,
            types: VolumeTypes {
                volumes: resource_type(VOLUMES),
                claims: resource_type(CLAIMS),
                pods: resource_type(PODS),
            },
            claims_are_left_out: self.plan.preferred(CLAIMS).is_none_or(|claims| !claims.included),
            page_size: request.page_size,
            copy_means: &request.copy_means,
        };
        VolumeSaver { volumes: &self.volumes, context }
    }

    /// What it takes to list items.
    fn lister(&self) -> Lister<'_> {
        Lister {
            plan: &self.plan,
            cluster: &self.request.cluster,
            ledger: &self.ledger,
            journal: &self.journal,
            page_size: self.request.page_size,
            sums: &self.lists,
        }
    }

    /// What it takes to say whether an item belongs into the backup.
    pub(super) fn admission(&self) -> Admission<'_> {
        Admission { plan: &self.plan, ledger: &self.ledger, journal: &self.journal, position: &self.position }
    }

    /// What it takes to make blocks of items.
    pub(super) fn grouper(&self) -> Grouper<'_> {
        let request = &self.request;
        Grouper { admission: self.admission(), backup: &request.backup, pool: &self.pool, cluster: &request.cluster }
    }

    /// What it takes to back up items.
    pub(super) fn item_saver(&self) -> ItemSaver<'_> {
        let request = &self.request;
        ItemSaver {
            admission: self.admission(),
            pool: &self.pool,
            cluster: &request.cluster,
            volumes: self.volume_context(),
            saves_volumes: self.saves_volumes,
            backup: &self.backup,
            recorder: &request.recorder,
            features: &request.features,
            calls: &self.calls,
        }
    }

    /// Takes all items that nobody has taken along.
    fn drain_pool(&self) -> Vec<Item> {
        lock(&self.pool).drain()
    }

    /// Brings all items of the backup into the archive, and runs the hooks around them.
    pub(super) async fn fill(&self) -> Result<(), BackupError> {
        let items = async {
            let filled = self.fill_items().boxed().await;
            self.held.close();
            filled
        };
        let released = async {
            self.release_held().boxed().await;
            Ok(())
        };
        tokio::try_join!(items, released).map(|((), ())| ())
    }

    async fn fill_items(&self) -> Result<(), BackupError> {
        let (held, streamed): (Vec<_>, Vec<_>) = self.plan.listed().partition(|planned| is_held(&planned.name));
        let (ordered, streamed): (Vec<_>, Vec<_>) = streamed.into_iter().partition(|planned| !planned.order.is_empty());

        let lister = self.lister();
        collect::into_pool(lister, &held, &self.pool).await;
        collect::volumes_of_claims(lister, &self.pool).boxed().await;
        for planned in &ordered {
            self.back_up_items(collect::whole_type(lister, planned).await).await?;
        }
        let mut pages = collect::pages(lister, &streamed);
        let mut pods_are_done = false;
        while let Some(page) = pages.next().await {
            // Claims and volumes that no pod has taken along come right after the pods.
            if !pods_are_done && page.planned.name != PODS {
                self.back_up_items(self.drain_pool()).await?;
                pods_are_done = true;
            }
            self.back_up_page(page).await?;
        }
        drop(pages);
        self.back_up_items(self.drain_pool()).await?;
        self.back_up_items(collect::namespaces(&self.plan)).await?;
        let (plan, ledger, cluster) = (&self.plan, &self.ledger, &self.request.cluster);
        let definitions = of_custom_resources(plan, ledger, cluster, &self.journal).boxed().await;
        self.back_up_items(definitions).await
    }

    /// Closes the books.
    pub(super) fn finish(self) -> BackupOutcome {
        let mut closing = self.ledger.close(&self.plan);
        for item in &closing.lost {
            let resource = item.group_resource();
            let entry = self.journal.error().item(ItemRef::new(resource.as_str(), item.namespace(), &item.name));
            entry.message("Error backing up item: it did not get into the archive");
        }
        closing.failed.append(&mut closing.lost);
        let count = closing.progress.items_backed_up;
        self.stage.record("velero.items", count);
        self.journal.info().field("progress", "").message(&format!("Backed up a total of {count} items"));
        BackupOutcome {
            progress: closing.progress,
            resource_list: closing.resource_list,
            operations: self.request.recorder.awaited(),
            hook_status: self.hooks.status(),
            failed_items: closing.failed,
            skipped_items: closing.skipped,
            saved: SavedVolumes {
                infos: self.volumes.notes.infos(),
                snapshots: self.request.recorder.snapshots.all(),
                copies: self.volumes.notes.copies(),
                ..SavedVolumes::default()
            },
        }
    }
}

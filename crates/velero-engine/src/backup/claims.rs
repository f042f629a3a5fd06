//! Claims whose volumes get a CSI snapshot.
//!
//! The action on such a claim returns when the driver has taken the snapshot. So that drivers work side by side, these
//! claims wait like volumes do: those of a block whose pods have hooks until the other items of the block are done, all
//! others until the end of the batch. Then many are worked on at the same time.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use velero_api::records::VolumeMethod;
use velero_plugin::BackupItemAction;
use velero_rules::resource_policies::VolumeData;
use velero_rules::volume_decision::VolumeDecision;

use super::act::{ItemResult, Run, identity};
use super::group::{BlockItem, ItemBlock};
use super::pool::{CLAIMS, Item};
use super::volumes::Batch;

/// How many claims are worked on at the same time: they only wait, each for its driver.
const AT_ONCE: usize = 128;

/// A claim that waits for its turn.
pub(super) struct PendingClaim {
    pub block_item: BlockItem,
    /// Whether it comes whatever the filters say.
    pub must_include: bool,
}

/// What an action has to do with CSI snapshots.
pub(super) enum CsiPart {
    /// Nothing.
    None,
    /// It would take one, but this volume gets none.
    LeftOut,
    /// It takes one of this volume.
    Takes {
        volume: Value,
        /// Whether the backup wants the data to be moved.
        stays_unmoved: bool,
    },
}

impl Run {
    /// Whether an item is a claim that waits for its turn.
    pub(super) fn waits(&self, item: &Item) -> bool {
        let mut actions = item.planned.backup_actions.iter().map(|index| &self.plan.backup_actions[*index].action);
        self.saves_volumes && actions.any(|action| action.waits() && self.is_on(action))
    }

    /// Whether the server has the feature that an action needs.
    pub(super) fn is_on(&self, action: &Arc<dyn BackupItemAction>) -> bool {
        action.needs_feature().is_none_or(|feature| self.request.features.is_enabled(feature))
    }

    /// Backs up claims that have waited, many at a time; gives what they brought.
    pub(super) async fn back_up_claims(&self, mut claims: Vec<PendingClaim>) -> Batch {
        let mut all = Batch::default();
        while !claims.is_empty() {
            let batches: Vec<Batch> = stream::iter(claims)
                .map(|claim| self.back_up_claim(claim).boxed())
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            claims = Vec::new();
            for batch in batches {
                all.records.extend(batch.records);
                all.volumes.extend(batch.volumes);
                claims.extend(batch.claims);
            }
            self.ledger.publish();
        }
        all
    }

    async fn back_up_claim(&self, PendingClaim { block_item, must_include }: PendingClaim) -> Batch {
        let mut batch = Batch::default();
        self.back_up_or_tell(block_item, must_include, &mut ItemBlock::default(), &mut batch).await;
        batch
    }

    /// Backs up an item; what goes wrong is told.
    pub(super) async fn back_up_or_tell(
        &self,
        block_item: BlockItem,
        must_include: bool,
        block: &mut ItemBlock,
        batch: &mut Batch,
    ) {
        let planned = Arc::clone(&block_item.item.planned);
        let (namespace, name) = identity(&block_item.item);
        if let Err(error) = self.back_up_item(block_item, must_include, block, batch).await {
            let entry = self.journal.error().object(&planned.name, namespace.as_deref(), &name);
            entry.error(&error).message("Error backing up item");
        }
    }

    /// What an action has to do with CSI snapshots when it acts on an item. The decision is that about the volume, so
    /// no volume gets two snapshots.
    pub(super) async fn csi_part(&self, action: &Arc<dyn BackupItemAction>, item: &Value) -> ItemResult<CsiPart> {
        if action.saves_volume() != Some(VolumeMethod::CsiSnapshot) {
            return Ok(CsiPart::None);
        }
        let volume = item["spec"]["volumeName"].as_str().unwrap_or_default();
        if !self.saves_volumes {
            return Ok(CsiPart::LeftOut);
        }
        if item["status"]["phase"] != "Bound" || volume.is_empty() {
            self.tell_of_unbound(item);
            return Ok(CsiPart::LeftOut);
        }
        let Some(volumes) = self.plan.preferred(super::pool::VOLUMES) else {
            return Ok(CsiPart::LeftOut);
        };
        let found = self.request.cluster.get(&volumes.resource_type, None, volume).await;
        let found = found.map_err(|error| format!("error getting volume {volume} of the claim: {error}"))?;
        let found = found.ok_or_else(|| format!("volume {volume} of the claim does not exist"))?;
        match self.decide(&found).await? {
            VolumeDecision::CsiSnapshot { stays_unmoved } => {
                self.volumes.note_csi(&found);
                Ok(CsiPart::Takes { volume: found, stays_unmoved })
            }
            _ => Ok(CsiPart::LeftOut),
        }
    }

    /// A claim without a volume has no data, which is worth a word unless a policy or the backup wants none of it.
    fn tell_of_unbound(&self, claim: &Value) {
        let rules = self.volume_rules();
        let data = VolumeData::default().with_claim(claim);
        if rules.policy_action(&data).is_some() || rules.snapshot_volumes == Some(false) {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&claim["metadata"]["namespace"]), text(&claim["metadata"]["name"]));
        let phase = text(&claim["status"]["phase"]);
        let entry = self.journal.warning().object(CLAIMS, Some(&namespace), &name);
        entry.message(&format!("The claim has no volume (it is {phase}), so the backup has no data of it"));
    }
}

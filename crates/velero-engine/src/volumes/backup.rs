//! The volumes of a backup: each is decided on once, and then left to the method that saves it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::OnceCell;
use velero_api::records::VolumeMethod;
use velero_api::v1::BackupSpec;
use velero_cluster::{ItemRef, RawItem};
use velero_plugin::item;
use velero_rules::resource_policies::{SnapshotParameters, VolumeData};
use velero_rules::volume_decision::VolumeDecision;
use velero_rules::volume_decision::pods::PodVolume;

use super::backup_context::{BY_SNAPSHOT, BackupContext, VolumeNotes, claim_of};
use super::error::VolumeError;
use super::method::Method;
use super::methods::{Given, methods};
use super::mounts::Mounts;
use super::{CLAIMS, VOLUMES};
use crate::lock;

/// The volumes of a backup: what is decided about each, and who saves it.
pub(crate) struct BackupVolumes {
    /// What is known of them so far.
    pub(crate) notes: VolumeNotes,
    mounts: Mounts,
    methods: Vec<Box<dyn Method>>,
    decisions: Mutex<HashMap<String, Arc<OnceCell<Decided>>>>,
}

impl BackupVolumes {
    pub(crate) fn new(spec: &BackupSpec) -> Self {
        let given = Given { snapshot_locations: &spec.volume_snapshot_locations, ..Given::default() };
        Self {
            notes: VolumeNotes::default(),
            mounts: Mounts::default(),
            methods: methods(given),
            decisions: Mutex::default(),
        }
    }
}

/// What was decided about a volume.
#[derive(Debug, Clone)]
struct Decided {
    decision: VolumeDecision,
    /// With what its snapshot is taken, if that is decided.
    parameters: SnapshotParameters,
}

/// The volumes of a backup, for one who comes with an item.
pub(crate) struct VolumeSaver<'a> {
    pub volumes: &'a BackupVolumes,
    pub context: BackupContext<'a>,
}

/// The namespace and name of a pod.
pub(crate) type PodPlace = (String, String);

/// A claim whose volume is saved by an action that is called for it.
pub(crate) struct SavedClaim<'a> {
    volume: Arc<Value>,
    method: &'a dyn Method,
    /// With what its snapshot is taken.
    pub(crate) parameters: SnapshotParameters,
}

impl<'a> VolumeSaver<'a> {
    /// Saves the data of a volume, before its object is stored.
    pub(crate) async fn save(&self, volume: &Value) -> Result<(), VolumeError> {
        let Decided { decision, parameters } = self.decide(volume).await?;
        if let (VolumeDecision::Snapshot, Some(class)) = (decision, &parameters.snapshot_class) {
            let entry = self.context.journal.warning().item(ItemRef::new(VOLUMES, None, item::name(volume)));
            entry.message(&format!(
                "The volume policies name the VolumeSnapshotClass {class}, which has no effect: only snapshots of CSI volumes with \
                 --features=EnableCSI have a class"
            ));
        }
        if let VolumeDecision::Skip(reason) = decision {
            let entry = self.context.journal.info().item(ItemRef::new(VOLUMES, None, item::name(volume)));
            entry.message(&format!("The data of the volume is not backed up: {}", reason.as_str()));
            self.context.volumes.note_skipped(volume, BY_SNAPSHOT, reason.as_str());
        }
        match self.method_for(decision) {
            Some(method) => method.save_volume(&self.context, volume).await,
            None => Ok(()),
        }
    }

    /// Keeps a volume that came by for the claim it belongs to.
    pub(crate) fn meet(&self, name: &str, volume: &Arc<Value>) {
        self.context.volumes.meet(name, volume);
    }

    /// Begins to save the volume of a claim, for which an action is about to be called that saves volumes in one way;
    /// `None` when the volume is not saved in that way, and the action is not to be called.
    pub(crate) async fn begin_claim(
        &self,
        wanted: &VolumeMethod,
        claim: &Value,
    ) -> Result<Option<SavedClaim<'a>>, VolumeError> {
        let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        if claim["status"]["phase"] != "Bound" || volume.is_empty() {
            self.tell_of_unbound(claim);
            return Ok(None);
        }
        if self.context.types.volumes.is_none() {
            return Ok(None);
        }
        let found = self.context.volume(volume).await;
        let found = found.map_err(|source| VolumeError::Volume { volume: volume.to_owned(), source })?;
        let volume = found.ok_or_else(|| VolumeError::NoVolume(volume.to_owned()))?;
        let Decided { decision, parameters } = self.decide(&volume).await?;
        let method = self.method_for(decision).filter(|method| method.name() == *wanted);
        Ok(method.map(|method| {
            method.begin_claim(&self.context, &volume, &parameters);
            SavedClaim { volume, method, parameters }
        }))
    }

    /// Ends what [`VolumeSaver::begin_claim`] began: the action is done, and so are the items it asked for.
    pub(crate) fn end_claim(&self, claim: &SavedClaim<'_>) -> Result<(), VolumeError> {
        claim.method.end_claim(&self.context, &claim.volume)
    }

    /// Takes notice of an operation that an action has begun on an item.
    pub(crate) fn follow(&self, resource: &str, item: &Value, operation_id: &str) {
        self.volumes.methods.iter().for_each(|method| method.follow(&self.context, resource, item, operation_id));
    }

    /// Saves the volumes of a pod that is stored.
    pub(crate) async fn save_pod(&self, pod: &RawItem) {
        for method in &self.volumes.methods {
            method.save_pod(&self.context, pod).await;
        }
    }

    /// Whether volumes of pods are being saved.
    pub(crate) fn is_saving(&self, pods: &[PodPlace]) -> bool {
        let is_saving = |method: &dyn Method| pods.iter().any(|(namespace, pod)| method.is_saving((namespace, pod)));
        self.volumes.methods.iter().any(|method| is_saving(&**method))
    }

    /// Waits until the volumes of pods are saved, well or not.
    pub(crate) async fn wait_for_pods(&self, pods: &[PodPlace]) {
        for method in &self.volumes.methods {
            for (namespace, pod) in pods {
                method.wait_for_pod((namespace, pod)).await;
            }
        }
    }

    /// Waits for what is still being saved once all items have come by, and says what there is to say.
    pub(crate) async fn close(&self) {
        for method in &self.volumes.methods {
            method.close(&self.context).await;
        }
    }

    fn method_for(&self, decision: VolumeDecision) -> Option<&'a dyn Method> {
        self.volumes.methods.iter().find(|method| method.takes(decision)).map(|method| &**method)
    }

    /// Decides about a volume, once: by its claim, by whoever mounts that, and by the policies of the backup.
    async fn decide(&self, volume: &Value) -> Result<Decided, VolumeError> {
        let decision = Arc::clone(lock(&self.volumes.decisions).entry(item::name(volume).to_owned()).or_default());
        decision.get_or_try_init(|| self.decide_on(volume)).await.cloned()
    }

    async fn decide_on(&self, volume: &Value) -> Result<Decided, VolumeError> {
        let rules = self.context.rules();
        let mut data = VolumeData::of_persistent_volume(volume);
        let decided = |data: &VolumeData, mounts: &[PodVolume]| Decided {
            decision: rules.decide(data, mounts),
            parameters: rules.snapshot_parameters(data),
        };
        let Some((namespace, claim)) = claim_of(volume) else {
            return Ok(decided(&data, &[]));
        };
        if let Some(claims) = self.context.types.claims.filter(|_| rules.ask_for_claims()) {
            let failed =
                |source| VolumeError::Claim { namespace: namespace.to_owned(), claim: claim.to_owned(), source };
            if let Some(claim) = self.context.cluster.get(claims.item(Some(namespace), claim)).await.map_err(failed)? {
                data = data.with_claim(&claim);
            }
        }
        if rules.policy_action(&data).is_some() {
            return Ok(decided(&data, &[]));
        }
        let mounts = self.volumes.mounts.of_claim(&self.context, namespace, claim).await?;
        Ok(decided(&data, &mounts))
    }

    /// A claim without a volume has no data, which is worth a word unless a policy or the backup wants none of it.
    fn tell_of_unbound(&self, claim: &Value) {
        let rules = self.context.rules();
        let data = VolumeData::default().with_claim(claim);
        if rules.policy_action(&data).is_some() || rules.snapshot_volumes == Some(false) {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&claim["metadata"]["namespace"]), text(&claim["metadata"]["name"]));
        let phase = text(&claim["status"]["phase"]);
        let entry = self.context.journal.warning().item(ItemRef::new(CLAIMS, Some(&namespace), &name));
        entry.message(&format!("The claim has no volume (it is {phase}), so the backup has no data of it"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_but_to_skip_has_one_method() {
        let volumes = BackupVolumes::new(&BackupSpec::default());
        for decision in [
            VolumeDecision::Snapshot,
            VolumeDecision::CsiSnapshot,
            VolumeDecision::MovedSnapshot,
            VolumeDecision::FsBackup,
        ] {
            let takers = volumes.methods.iter().filter(|method| method.takes(decision));
            assert_eq!(takers.count(), 1, "{decision:?}");
        }
    }
}

//! The volumes of a backup: each is decided on once, and then left to the method that saves it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::OnceCell;
use velero_api::FeatureFlags;
use velero_api::records::{BackupVolumeInfo, PvInfo, VolumeMethod};
use velero_api::v1::{Backup, BackupSpec};
use velero_cluster::{Cluster, ItemRef, RawItem, ResourceType};
use velero_plugin::Actions;
use velero_plugin::item;
use velero_rules::resource_policies::{ResourcePolicies, VolumeData};
use velero_rules::volume_decision::{VolumeDecision, VolumeRules};

use super::error::VolumeError;
use super::method::{Given, Method, methods};
use super::mounts::Mounts;
use super::{CLAIMS, VOLUMES};
use crate::recorder::BackupRecorder;
use crate::{Journal, lock};

/// What is said of the way that would have saved a volume that is left out.
pub(super) const BY_SNAPSHOT: &str = "volumeSnapshot";

/// The volumes of a backup.
pub(crate) struct BackupVolumes {
    pub(super) mounts: Mounts,
    pub(super) infos: Mutex<BTreeMap<String, BackupVolumeInfo>>,
    methods: Vec<Box<dyn Method>>,
    decisions: Mutex<HashMap<String, Arc<OnceCell<VolumeDecision>>>>,
    /// Volumes that came by, for whoever asks for the volume of a claim.
    met: Mutex<HashMap<String, Arc<Value>>>,
}

impl BackupVolumes {
    pub(crate) fn new(spec: &BackupSpec) -> Self {
        let given = Given { snapshot_locations: &spec.volume_snapshot_locations, ..Given::default() };
        Self {
            methods: methods(given),
            mounts: Mounts::default(),
            infos: Mutex::default(),
            decisions: Mutex::default(),
            met: Mutex::default(),
        }
    }

    /// Keeps a volume for whoever asks for the volume of its claim.
    pub(crate) fn meet(&self, name: &str, volume: &Arc<Value>) {
        lock(&self.met).insert(name.to_owned(), Arc::clone(volume));
    }

    /// Lets go of the volumes that came by: the claims that belong to them have been dealt with.
    pub(crate) fn part(&self) {
        lock(&self.met).clear();
    }

    /// What was done with each volume, those left out first.
    pub(crate) fn infos(&self) -> Vec<BackupVolumeInfo> {
        let mut infos: Vec<_> = std::mem::take(&mut *lock(&self.infos)).into_values().collect();
        infos.sort_by_key(|info| !info.skipped);
        infos
    }

    /// Notes that the data of a volume stays out.
    pub(super) fn note_skipped(&self, volume: &Value, approach: &str, reason: &str) {
        let skipped_reason = format!("{approach}: {reason};");
        self.note(BackupVolumeInfo { skipped: true, skipped_reason, ..info_of(volume) });
    }

    pub(super) fn note(&self, info: BackupVolumeInfo) {
        lock(&self.infos).insert(info.pv_name.clone(), info);
    }
}

/// The types that have to do with volumes, where the cluster serves them.
#[derive(Clone, Copy)]
pub(crate) struct VolumeTypes<'a> {
    /// PersistentVolumes.
    pub volumes: Option<&'a ResourceType>,
    /// PersistentVolumeClaims.
    pub claims: Option<&'a ResourceType>,
    /// Pods.
    pub pods: Option<&'a ResourceType>,
}

/// What is known to methods of the backup whose volumes they save.
pub(crate) struct BackupContext<'a> {
    pub volumes: &'a BackupVolumes,
    pub backup: &'a Backup,
    pub cluster: &'a Cluster,
    pub actions: &'a Actions,
    pub journal: &'a Journal,
    pub recorder: &'a BackupRecorder,
    pub policies: Option<&'a ResourcePolicies>,
    pub features: &'a FeatureFlags,
    pub types: VolumeTypes<'a>,
    /// Whether the backup leaves claims out.
    pub claims_are_left_out: bool,
    pub page_size: u32,
}

/// A claim whose volume is saved by an action that is called for it.
pub(crate) struct SavedClaim<'a> {
    volume: Arc<Value>,
    method: &'a dyn Method,
}

impl<'a> BackupContext<'a> {
    /// Saves the data of a volume, before its object is stored.
    pub(crate) async fn save(&self, volume: &Value) -> Result<(), VolumeError> {
        let decision = self.decide(volume).await?;
        if let VolumeDecision::Skip(reason) = decision {
            let entry = self.journal.info().item(ItemRef::new(VOLUMES, None, item::name(volume)));
            entry.message(&format!("The data of the volume is not backed up: {}", reason.as_str()));
            self.volumes.note_skipped(volume, BY_SNAPSHOT, reason.as_str());
        }
        match self.method_for(decision) {
            Some(method) => method.save_volume(self, volume).await,
            None => Ok(()),
        }
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
        if self.types.volumes.is_none() {
            return Ok(None);
        }
        let found = self.volume(volume).await;
        let found = found.map_err(|source| VolumeError::Volume { volume: volume.to_owned(), source })?;
        let volume = found.ok_or_else(|| VolumeError::NoVolume(volume.to_owned()))?;
        let decision = self.decide(&volume).await?;
        let method = self.method_for(decision).filter(|method| method.name() == *wanted);
        Ok(method.map(|method| {
            method.begin_claim(self, &volume);
            SavedClaim { volume, method }
        }))
    }

    /// Ends what [`BackupContext::begin_claim`] began: the action is done, and so are the items it asked for.
    pub(crate) fn end_claim(&self, claim: &SavedClaim<'_>) -> Result<(), VolumeError> {
        claim.method.end_claim(self, &claim.volume)
    }

    /// Takes notice of an operation that an action has begun on an item.
    pub(crate) fn follow(&self, resource: &str, item: &Value, operation_id: &str) {
        self.volumes.methods.iter().for_each(|method| method.follow(self, resource, item, operation_id));
    }

    /// Saves the volumes of a pod that is stored.
    pub(crate) async fn save_pod(&self, pod: &RawItem) {
        for method in &self.volumes.methods {
            method.save_pod(self, pod).await;
        }
    }

    /// Says what is to be said once all items have come by.
    pub(crate) fn close(&self) {
        self.volumes.methods.iter().for_each(|method| method.close(self));
    }

    /// A volume: one that came by, or that of the cluster.
    pub(super) async fn volume(&self, name: &str) -> velero_cluster::Result<Option<Arc<Value>>> {
        let met = lock(&self.volumes.met).get(name).cloned();
        if met.is_some() {
            return Ok(met);
        }
        let Some(volumes) = self.types.volumes else {
            return Ok(None);
        };
        let found = self.cluster.get(volumes.item(None, name)).await?.map(Arc::new);
        if let Some(volume) = &found {
            self.volumes.meet(name, volume);
        }
        Ok(found)
    }

    fn method_for(&self, decision: VolumeDecision) -> Option<&'a dyn Method> {
        self.volumes.methods.iter().find(|method| method.takes(decision)).map(|method| &**method)
    }

    /// What the backup says about volumes.
    pub(super) fn rules(&self) -> VolumeRules<'_> {
        VolumeRules {
            claims_are_left_out: self.claims_are_left_out,
            ..VolumeRules::new(&self.backup.spec, self.policies, self.features)
        }
    }

    /// Whether the backup wants the data of snapshots to be moved.
    pub(super) fn moves_data(&self) -> bool {
        self.backup.spec.snapshot_move_data == Some(true)
    }

    /// Decides about a volume, once: by its claim, by whoever mounts that, and by the policies of the backup.
    async fn decide(&self, volume: &Value) -> Result<VolumeDecision, VolumeError> {
        let decision = Arc::clone(lock(&self.volumes.decisions).entry(item::name(volume).to_owned()).or_default());
        decision.get_or_try_init(|| self.decide_on(volume)).await.copied()
    }

    async fn decide_on(&self, volume: &Value) -> Result<VolumeDecision, VolumeError> {
        let rules = self.rules();
        let mut data = VolumeData::of_persistent_volume(volume);
        let Some((namespace, claim)) = claim_of(volume) else {
            return Ok(rules.decide(&data, &[]));
        };
        if let Some(claims) = self.types.claims.filter(|_| rules.ask_for_claims()) {
            let failed =
                |source| VolumeError::Claim { namespace: namespace.to_owned(), claim: claim.to_owned(), source };
            if let Some(claim) = self.cluster.get(claims.item(Some(namespace), claim)).await.map_err(failed)? {
                data = data.with_claim(&claim);
            }
        }
        if rules.policy_action(&data).is_some() {
            return Ok(rules.decide(&data, &[]));
        }
        let mounts = self.volumes.mounts.of_claim(self, namespace, claim).await?;
        Ok(rules.decide(&data, &mounts))
    }

    /// A claim without a volume has no data, which is worth a word unless a policy or the backup wants none of it.
    fn tell_of_unbound(&self, claim: &Value) {
        let rules = self.rules();
        let data = VolumeData::default().with_claim(claim);
        if rules.policy_action(&data).is_some() || rules.snapshot_volumes == Some(false) {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&claim["metadata"]["namespace"]), text(&claim["metadata"]["name"]));
        let phase = text(&claim["status"]["phase"]);
        let entry = self.journal.warning().item(ItemRef::new(CLAIMS, Some(&namespace), &name));
        entry.message(&format!("The claim has no volume (it is {phase}), so the backup has no data of it"));
    }
}

/// The claim of a volume: its namespace and name.
pub(super) fn claim_of(volume: &Value) -> Option<(&str, &str)> {
    let claim = &volume["spec"]["claimRef"];
    Some((claim["namespace"].as_str()?, claim["name"].as_str()?))
}

/// What is known of a volume whatever becomes of it.
pub(super) fn info_of(volume: &Value) -> BackupVolumeInfo {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (pvc_namespace, pvc_name) = claim_of(volume).unwrap_or_default();
    let labels = volume["metadata"]["labels"].as_object().into_iter().flatten();
    BackupVolumeInfo {
        pvc_name: pvc_name.to_owned(),
        pvc_namespace: pvc_namespace.to_owned(),
        pv_name: item::name(volume).to_owned(),
        pv_info: Some(PvInfo {
            reclaim_policy: text(&volume["spec"]["persistentVolumeReclaimPolicy"]),
            labels: labels.map(|(key, value)| (key.clone(), text(value))).collect(),
            ..PvInfo::default()
        }),
        ..BackupVolumeInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_that_is_left_out_is_told_of_with_its_claim() {
        let volumes = BackupVolumes::new(&BackupSpec::default());
        let claim = json!({"namespace": "shop", "name": "data"});
        let spec = json!({"claimRef": claim, "persistentVolumeReclaimPolicy": "Retain"});
        let volume = json!({"metadata": {"name": "pv-2", "labels": {"a": "b"}}, "spec": spec});
        volumes.note_skipped(&volume, BY_SNAPSHOT, "no reason");
        let [skipped] = &volumes.infos()[..] else { panic!("one volume") };
        assert_eq!((skipped.pv_name.as_str(), skipped.skipped_reason.as_str()), ("pv-2", "volumeSnapshot: no reason;"));
        assert_eq!((skipped.pvc_namespace.as_str(), skipped.pvc_name.as_str()), ("shop", "data"));
        let kept = skipped.pv_info.as_ref().unwrap();
        assert_eq!((kept.reclaim_policy.as_str(), kept.labels["a"].as_str()), ("Retain", "b"));
    }

    #[test]
    fn every_decision_but_to_skip_has_one_method() {
        let volumes = BackupVolumes::new(&BackupSpec::default());
        for stays_unmoved in [false, true] {
            for decision in [
                VolumeDecision::Snapshot { stays_unmoved },
                VolumeDecision::CsiSnapshot { stays_unmoved },
                VolumeDecision::FsBackup,
            ] {
                let takers = volumes.methods.iter().filter(|method| method.takes(decision));
                assert_eq!(takers.count(), 1, "{decision:?}");
            }
        }
    }
}

//! What methods know of the backup whose volumes they save, and what is known of the volumes so far.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use velero_api::FeatureFlags;
use velero_api::records::{BackupVolumeInfo, PvInfo};
use velero_api::v1::{Backup, PodVolumeBackup};
use velero_cluster::{Cluster, ResourceType};
use velero_plugin::Actions;
use velero_plugin::item;
use velero_rules::resource_policies::ResourcePolicies;
use velero_rules::volume_decision::VolumeRules;

use super::means::CopyMeans;
use crate::recorder::BackupRecorder;
use crate::{Journal, lock};

/// What is said of the way that would have saved a volume that is left out.
pub(super) const BY_SNAPSHOT: &str = "volumeSnapshot";

/// What is known of the volumes of a backup so far.
#[derive(Default)]
pub(crate) struct VolumeNotes {
    pub(super) infos: Mutex<BTreeMap<String, BackupVolumeInfo>>,
    /// What was done with volumes of pods that have no persistent one.
    of_pods: Mutex<Vec<BackupVolumeInfo>>,
    /// The copies through pods, as they have ended.
    copies: Mutex<Vec<PodVolumeBackup>>,
    /// Volumes that came by, for whoever asks for the volume of a claim.
    met: Mutex<HashMap<String, Arc<Value>>>,
}

impl VolumeNotes {
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
        infos.append(&mut lock(&self.of_pods));
        infos
    }

    /// Notes that the data of a volume stays out.
    pub(super) fn note_skipped(&self, volume: &Value, approach: &str, reason: &str) {
        let skipped_reason = format!("{approach}: {reason};");
        self.note(BackupVolumeInfo { skipped: true, skipped_reason, ..info_of(volume) });
    }

    /// Notes a copy through a pod.
    pub(super) fn note_copy(&self, info: BackupVolumeInfo) {
        match info.pv_name.is_empty() {
            true => lock(&self.of_pods).push(info),
            false => self.note(info),
        }
    }

    /// Keeps a copy through a pod for the files of the backup.
    pub(super) fn keep_copy(&self, copy: PodVolumeBackup) {
        lock(&self.copies).push(copy);
    }

    /// The copies through pods, in the order they were begun.
    pub(crate) fn copies(&self) -> Vec<PodVolumeBackup> {
        std::mem::take(&mut *lock(&self.copies))
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
    pub volumes: &'a VolumeNotes,
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
    /// What copies through pods need.
    pub copy_means: &'a CopyMeans,
}

impl BackupContext<'_> {
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
        let volumes = VolumeNotes::default();
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
}

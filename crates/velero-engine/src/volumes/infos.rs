//! What a backup says of its volumes, found by volume, claim or pod, and what of it was told.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use serde_json::Value;
use velero_api::records::BackupVolumeInfo;

use super::act::Item;
use super::object::text;
use super::run::{Run, lock};

/// A namespace and a name in it.
type Place = (String, String);

/// What a backup says of its volumes.
pub(super) struct Infos {
    infos: Vec<BackupVolumeInfo>,
    by_volume: HashMap<String, usize>,
    by_claim: HashMap<Place, Vec<usize>>,
    by_pod: HashMap<Place, Vec<usize>>,
    told: Mutex<HashSet<usize>>,
}

impl Infos {
    pub(super) fn new(infos: Vec<BackupVolumeInfo>) -> Self {
        let (mut by_volume, mut by_claim, mut by_pod) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (index, info) in infos.iter().enumerate() {
            if !info.pv_name.is_empty() {
                by_volume.insert(info.pv_name.clone(), index);
            }
            if !info.pvc_name.is_empty() {
                let claim = (info.pvc_namespace.clone(), info.pvc_name.clone());
                by_claim.entry(claim).or_insert_with(Vec::new).push(index);
            }
            if let Some(copy) = &info.pvb_info {
                let pod = (copy.pod_namespace.clone(), copy.pod_name.clone());
                by_pod.entry(pod).or_insert_with(Vec::new).push(index);
            }
        }
        Self { infos, by_volume, by_claim, by_pod, told: Mutex::default() }
    }

    /// Whether nothing is said of persistent volumes, as in a backup of before 1.13.
    pub(super) fn is_without_volumes(&self) -> bool {
        self.by_volume.is_empty()
    }

    pub(super) fn of_volume(&self, volume: &str) -> Option<(usize, &BackupVolumeInfo)> {
        self.by_volume.get(volume).map(|index| (*index, &self.infos[*index]))
    }

    pub(super) fn of_claim(&self, namespace: &str, claim: &str) -> impl Iterator<Item = (usize, &BackupVolumeInfo)> {
        self.at(self.by_claim.get(&(namespace.to_owned(), claim.to_owned())))
    }

    pub(super) fn of_pod(&self, namespace: &str, pod: &str) -> impl Iterator<Item = (usize, &BackupVolumeInfo)> {
        self.at(self.by_pod.get(&(namespace.to_owned(), pod.to_owned())))
    }

    fn at<'i>(&'i self, indexes: Option<&'i Vec<usize>>) -> impl Iterator<Item = (usize, &'i BackupVolumeInfo)> {
        indexes.into_iter().flatten().map(|index| (*index, &self.infos[*index]))
    }

    /// Notes that it was told what becomes of a volume; false when that happened before.
    pub(super) fn tell(&self, index: usize) -> bool {
        lock(&self.told).insert(index)
    }
}

impl Run {
    /// Says which data does not come back with a claim or a pod that was made.
    pub(super) fn tell_of_data_left(&self, item: &Item) {
        let original = item.original.as_deref().unwrap_or_default();
        let without = |what: &str| {
            let remedy = "restore the backup with Velero to get the data";
            let message = format!("{what}; it comes without the data: {remedy}");
            let entry = self.journal.error().resource(&item.resource).name(&item.name);
            entry.namespace(item.target.as_deref()).message(&message);
        };
        match &*item.resource {
            "persistentvolumeclaims" => {
                let claim = self.read(item).ok();
                if let Some(what) = claim.and_then(|claim| self.volumes.left_of_claim(original, &claim)) {
                    without(&format!("the data of claim {original}/{} is in {what}", item.name));
                }
            }
            "pods" => {
                for (volume, what) in self.volumes.left_of_pod(original, &item.name) {
                    without(&format!("the data of volume {volume} of pod {original}/{} is in {what}", item.name));
                }
            }
            _ => {}
        }
    }

    /// Says of which claim a data mover holds the data, if nothing else does and the claim is restored.
    pub(super) fn tell_of_upload(&self, upload: &Value) {
        let claim =
            self.volumes.left_of_upload(upload).filter(|(namespace, _)| self.plan.scope.admits(Some(namespace)));
        if let Some((namespace, claim)) = claim {
            self.journal.error().namespace(Some(self.plan.scope.target(namespace))).message(&format!(
                "the data of claim {namespace}/{claim} is in a data mover's repository (DataUpload {}), which this version cannot \
                 restore: restore the backup with Velero to get the data",
                text(upload, "/metadata/name")
            ));
        }
    }
}

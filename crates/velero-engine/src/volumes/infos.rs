//! What a backup says of its volumes, found by volume, claim or pod, and what of it was told.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use velero_api::records::BackupVolumeInfo;

use crate::lock;

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

    pub(super) fn all(&self) -> impl Iterator<Item = &BackupVolumeInfo> {
        self.infos.iter()
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

//! The volumes of a restore: which is made again, which is made of what was saved, and which is left to a provisioner.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use velero_api::FeatureFlags;
use velero_api::records::{BackupVolumeInfo, RestoreVolumeInfo, Snapshot};
use velero_api::v1::RestoreSpec;
use velero_cluster::{Cluster, RawItem};
use velero_plugin::Actions;
use velero_plugin::item::{object_mut, text};

use super::infos::Infos;
use super::method::{Given, Method, methods};
use crate::restore::object::reset_binding;
use crate::restore::{Item, Pace, Target, Trouble};
use crate::{Journal, lock};

/// What is done with a volume of the backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeVerdict {
    /// It is made as it was; it holds its data.
    AsItWas,
    /// It is not made: its claim gets a new one, and there is no data to bring back.
    Anew,
    /// It is not made: its claim gets a new one, and its data is in the backup.
    AnewWithData(&'static str),
    /// It is made from its snapshot.
    FromSnapshot,
}

impl VolumeVerdict {
    /// Where the data is that is wanted and cannot be brought back.
    fn left(self) -> Option<&'static str> {
        match self {
            Self::AnewWithData(place) => Some(place),
            _ => None,
        }
    }
}

/// What a restore wants of the data of volumes, and what it can do.
pub(crate) struct Wishes {
    /// Whether it brings data back.
    pub restore_data: bool,
    /// The features of the server.
    pub features: FeatureFlags,
}

/// Data that is somewhere else and does not come back.
pub(crate) struct LeftData<'o> {
    /// The namespace and name of its claim.
    pub claim: (&'o str, &'o str),
    /// Where it is, in words.
    pub place: String,
}

/// The volumes of a restore.
pub(crate) struct RestoreVolumes {
    pub(super) wishes: Wishes,
    methods: Vec<Box<dyn Method>>,
    infos: Infos,
    mapping: BTreeMap<String, String>,
    /// Volumes whose claims get new ones.
    anew: Mutex<HashSet<String>>,
    /// Volumes that are made under another name.
    renamed: Mutex<HashMap<String, String>>,
    /// Volumes that were made of what was saved.
    restored: Mutex<Vec<RestoreVolumeInfo>>,
}

/// What is known to methods of the restore whose volumes they make.
pub(crate) struct RestoreContext<'a> {
    pub volumes: &'a RestoreVolumes,
    pub cluster: &'a Cluster,
    pub actions: &'a Actions,
    pub journal: &'a Journal,
    pub pace: &'a Pace,
    /// Whether nothing is to be written.
    pub is_preview: bool,
    /// How long one object may take to become usable.
    pub resource_timeout: Duration,
    /// How long to wait for a volume that is going away.
    pub terminating_timeout: Duration,
    /// What goes on in the background when the restore is done.
    pub tasks: &'a Mutex<JoinSet<()>>,
}

impl RestoreContext<'_> {
    /// Makes a volume of what was saved, and puts it behind the object.
    pub(crate) async fn restore_volume(&self, item: &Item, volume: &mut Value) -> Result<(), Trouble> {
        match self.volumes.method_of(&item.name, volume) {
            Some((method, _)) => method.restore_volume(self, item, volume).await,
            None => Ok(()),
        }
    }

    /// Takes notice of a claim that is about to be written, as its actions left it.
    pub(crate) fn restore_claim(&self, item: &Item, claim: &Value) {
        self.volumes.methods.iter().for_each(|method| method.restore_claim(self, item, claim));
    }

    /// Takes notice of a claim that was made.
    pub(crate) fn claim_made(&self, target: &Target<'_>, created: &RawItem) {
        self.volumes.methods.iter().for_each(|method| method.claim_made(self, target, created));
    }
}

/// What is known of a volume, and where that is told of.
type Known<'a> = (usize, &'a BackupVolumeInfo);

impl RestoreVolumes {
    pub(crate) fn new(
        infos: Vec<BackupVolumeInfo>,
        snapshots: Vec<Snapshot>,
        spec: &RestoreSpec,
        features: &FeatureFlags,
    ) -> Self {
        Self {
            wishes: Wishes { restore_data: spec.restore_pvs != Some(false), features: features.clone() },
            methods: methods(Given { snapshots, ..Given::default() }),
            infos: Infos::new(infos),
            mapping: spec.namespace_mapping.clone(),
            anew: Mutex::default(),
            renamed: Mutex::default(),
            restored: Mutex::default(),
        }
    }

    /// Decides about a volume, prepares it if it is to be made, and remembers if its claim gets a new one.
    pub(crate) fn handle(&self, volume: &mut Value) -> VolumeVerdict {
        let name = text(volume, "/metadata/name").to_owned();
        let verdict = self.decide(&name, volume);
        match verdict {
            VolumeVerdict::AsItWas => {
                self.map_claim(volume);
                reset_binding(volume);
            }
            VolumeVerdict::Anew | VolumeVerdict::AnewWithData(_) => {
                lock(&self.anew).insert(name);
            }
            VolumeVerdict::FromSnapshot => {}
        }
        verdict
    }

    /// The method that saved a volume, and what is known of that.
    fn method_of(&self, name: &str, volume: &Value) -> Option<(&dyn Method, Option<Known<'_>>)> {
        let listed = self.infos.of_volume(name);
        let unlisted = self.methods.iter().find(|method| listed.is_none() && method.has_saved_unlisted(name));
        if let Some(method) = unlisted {
            return Some((&**method, None));
        }
        let known = listed.or_else(|| self.known_by_claim(volume))?;
        Some((self.method_that_saved(known.1)?, Some(known)))
    }

    fn method_that_saved(&self, info: &BackupVolumeInfo) -> Option<&dyn Method> {
        self.methods.iter().find(|method| method.has_saved(info)).map(|method| &**method)
    }

    /// What is known of the claim of a volume that is not known by its name.
    fn known_by_claim(&self, volume: &Value) -> Option<Known<'_>> {
        let of = |pointer| text(volume, pointer);
        let mut known = self.infos.of_claim(of("/spec/claimRef/namespace"), of("/spec/claimRef/name"));
        known.find(|(_, info)| info.pv_name.is_empty())
    }

    fn decide(&self, name: &str, volume: &Value) -> VolumeVerdict {
        if let Some((method, known)) = self.method_of(name, volume) {
            let verdict = method.verdict(&self.wishes, known.map(|(_, info)| info));
            if let (Some((index, _)), Some(_)) = (known, verdict.left()) {
                self.infos.tell(index);
            }
            return verdict;
        }
        match text(volume, "/spec/persistentVolumeReclaimPolicy") {
            "Delete" => VolumeVerdict::Anew,
            _ => VolumeVerdict::AsItWas,
        }
    }

    /// Where the data of a volume is that is wanted and cannot be brought back.
    fn lost(&self, info: &BackupVolumeInfo) -> Option<&'static str> {
        self.method_that_saved(info)?.verdict(&self.wishes, Some(info)).left()
    }

    /// Where the data of a claim is that does not come back with it, unless that was told already.
    pub(crate) fn left_of_claim(&self, namespace: &str, claim: &Value) -> Option<&'static str> {
        let mut known = self.infos.of_claim(namespace, text(claim, "/metadata/name")).peekable();
        if known.peek().is_none() {
            let mut methods = self.methods.iter().filter(|_| self.infos.is_without_volumes());
            return methods.find_map(|method| method.left_of_unlisted_claim(&self.wishes, claim));
        }
        let lost: Vec<_> = known.filter_map(|(index, info)| Some((index, self.lost(info)?))).collect();
        lost.into_iter().filter(|(index, _)| self.infos.tell(*index)).map(|(_, what)| what).next()
    }

    /// The volumes of a pod whose data does not come back with it, unless that was told already, and where it is.
    pub(crate) fn left_of_pod(&self, namespace: &str, pod: &str) -> Vec<(String, &'static str)> {
        let lost = self.infos.of_pod(namespace, pod).filter_map(|(index, info)| Some((index, info, self.lost(info)?)));
        let untold = lost.filter(|(index, ..)| self.infos.tell(*index));
        let volume = |info: &BackupVolumeInfo| info.pvb_info.as_ref().map(|copy| copy.volume_name.clone());
        untold.map(|(_, info, what)| (volume(info).unwrap_or_default(), what)).collect()
    }

    /// The data of a claim of which only an object of past work tells, and which does not come back.
    pub(crate) fn left_by_work<'o>(&self, work: &'o Value) -> Option<LeftData<'o>> {
        let left = self.methods.iter().find_map(|method| method.left_by_work(work))?;
        let is_known = self.infos.of_claim(left.claim.0, left.claim.1).next().is_some();
        (self.wishes.restore_data && !is_known).then_some(left)
    }

    /// Notes that a volume is made under another name.
    pub(super) fn rename(&self, volume: &str, name: &str) {
        lock(&self.renamed).insert(volume.to_owned(), name.to_owned());
    }

    /// Notes a volume that was made of what was saved.
    pub(super) fn note_restored(&self, info: RestoreVolumeInfo) {
        lock(&self.restored).push(info);
    }

    /// What is known of the volumes that a claim had.
    pub(super) fn of_claim(&self, namespace: &str, claim: &str) -> impl Iterator<Item = &BackupVolumeInfo> {
        self.infos.of_claim(namespace, claim).map(|(_, info)| info)
    }

    /// The volumes that were made of what was saved, by name.
    pub(crate) fn restored(&self) -> Vec<RestoreVolumeInfo> {
        let mut restored = std::mem::take(&mut *lock(&self.restored));
        let key = |info: &RestoreVolumeInfo| [&info.pv_name, &info.pvc_namespace, &info.pvc_name].map(String::clone);
        restored.sort_by_key(key);
        restored
    }

    /// Whether the claim of a volume goes into another namespace.
    pub(super) fn moves_claim(&self, volume: &Value) -> bool {
        self.mapping.contains_key(text(volume, "/spec/claimRef/namespace"))
    }

    /// Lets a volume wait for its claim in the namespace where that goes.
    pub(super) fn map_claim(&self, volume: &mut Value) {
        let target = self.mapping.get(text(volume, "/spec/claimRef/namespace")).cloned();
        if let (Some(target), Some(claim)) = (target, object_mut(volume, "/spec/claimRef")) {
            claim.insert("namespace".to_owned(), target.into());
        }
    }

    /// Frees a claim from what bound it, and from its volume if that is not made again.
    pub(crate) fn free_claim(&self, claim: &mut Value) {
        let volume = text(claim, "/spec/volumeName").to_owned();
        if volume.is_empty() {
            return;
        }
        reset_binding(claim);
        let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else {
            return;
        };
        if lock(&self.anew).contains(&volume) {
            spec.remove("volumeName");
        }
        if let Some(name) = lock(&self.renamed).get(&volume) {
            spec.insert("volumeName".to_owned(), name.as_str().into());
        }
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;

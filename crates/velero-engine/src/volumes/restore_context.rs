//! What methods know of the restore whose volumes they make, and what is known of the volumes so far.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use velero_api::records::{BackupVolumeInfo, RestoreVolumeInfo};
use velero_api::v1::{Restore, RestoreSpec};
use velero_api::{FeatureFlags, labels};
use velero_cluster::Cluster;
use velero_plugin::Actions;
use velero_plugin::item::{object_mut, text};

use super::earlier::Earlier;
use super::infos::Infos;
use super::means::CopyMeans;
use crate::restore::Pace;
use crate::restore::object::reset_binding;
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
    pub(super) fn left(self) -> Option<&'static str> {
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
    /// Whether it fills volumes from copies: it wants data, and neither volumes nor claims are left out.
    pub restore_copies: bool,
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

/// What is known of the volumes of a restore so far.
pub(crate) struct RestoreNotes {
    pub(super) wishes: Wishes,
    /// What the backup says of them.
    pub(super) infos: Infos,
    /// What labels call the backup.
    pub(super) backup: String,
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
    pub volumes: &'a RestoreNotes,
    pub restore: &'a Restore,
    /// The location of the backup.
    pub location: &'a str,
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
    /// What copies through pods need.
    pub copy_means: &'a CopyMeans,
    /// What the restores have done that this one goes on with.
    pub earlier: &'a Earlier,
    /// Volumes that are filled in the background.
    pub fillings: &'a Mutex<JoinSet<Vec<RestoreVolumeInfo>>>,
}

impl RestoreNotes {
    pub(super) fn new(infos: Vec<BackupVolumeInfo>, spec: &RestoreSpec, features: &FeatureFlags) -> Self {
        Self {
            wishes: Wishes {
                restore_data: spec.restore_pvs != Some(false),
                restore_copies: spec.restore_pvs != Some(false),
                features: features.clone(),
            },
            infos: Infos::new(infos),
            backup: labels::valid_value(&spec.backup_name),
            mapping: spec.namespace_mapping.clone(),
            anew: Mutex::default(),
            renamed: Mutex::default(),
            restored: Mutex::default(),
        }
    }

    /// Notes that the claim of a volume gets a new one.
    pub(super) fn make_anew(&self, volume: String) {
        lock(&self.anew).insert(volume);
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

    /// What is known of a volume.
    pub(super) fn of_volume(&self, volume: &str) -> Option<&BackupVolumeInfo> {
        self.infos.of_volume(volume).map(|(_, info)| info)
    }

    /// What is known of the volumes that a pod had.
    pub(super) fn of_pod(&self, namespace: &str, pod: &str) -> impl Iterator<Item = &BackupVolumeInfo> {
        self.infos.of_pod(namespace, pod).map(|(_, info)| info)
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

//! The volumes that a restore fills from copies: asked for as PodVolumeRestores when a pod is made, and waited for.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::time::Instant;
use velero_api::records::{BackupVolumeInfo, PodVolumeInfo};
use velero_cluster::RawItem;
use velero_plugin::item::{elements, text};
use velero_rules::pod_volumes::{RunningPod, copies_of_pod, copy_obstacle};

use super::super::restore_context::RestoreContext;
use super::asked::Claim;
use super::filled_pod::{FilledPod, Wanted};
use super::filler::Filler;
use crate::lock;
use crate::restore::Target;

/// The volumes that a restore fills.
pub(super) struct Fillings {
    filler: Arc<Filler>,
    /// Claims that were made and whose data is in copies, with the pods that bring it back.
    expected: Mutex<BTreeMap<Claim, String>>,
    /// Claims that are filled.
    filled: Mutex<HashSet<Claim>>,
}

impl Fillings {
    /// Those of a restore, from now on; none was asked for yet.
    pub(super) fn new(restore: &RestoreContext<'_>, started: Instant) -> Self {
        Self { filler: Arc::new(Filler::new(restore, started)), expected: Mutex::default(), filled: Mutex::default() }
    }

    /// Notes a claim that was made and whose data is in a copy: a pod has to bring it back.
    pub(super) fn expect_claim(&self, restore: &RestoreContext<'_>, target: &Target<'_>) {
        let original = target.item.original.as_deref().unwrap_or_default();
        let mut infos = restore.volumes.of_claim(original, &target.item.name);
        let Some(copy) = infos.find_map(|info| restorable(restore, info)) else { return };
        let pod = format!("{}/{}", copy.pod_namespace, copy.pod_name);
        lock(&self.expected).insert(place(target), pod);
    }

    /// Fills the volumes of a pod that was made, in the background.
    pub(super) fn begin(&self, restore: &RestoreContext<'_>, target: &Target<'_>, created: &RawItem) {
        let Ok(pod) = created.to_value() else { return };
        let original = target.item.original.as_deref().unwrap_or_default();
        let infos = restore.volumes.of_pod(original, &target.item.name);
        let copies: Vec<&PodVolumeInfo> = infos.filter_map(|info| restorable(restore, info)).collect();
        let named = renamed(&pod, &target.item.name);
        let wanted: Vec<Wanted> = copies_of_pod(copies, original, &named)
            .into_values()
            .map(|copy| Wanted { copy: copy.clone(), claim: claim_of_volume(&pod, &copy.volume_name) })
            .collect();
        if wanted.is_empty() {
            return;
        }
        let (namespace, _) = place(target);
        let claims = wanted.iter().filter_map(|wanted| wanted.claim.clone());
        lock(&self.filled).extend(claims.map(|claim| (namespace.clone(), claim)));
        self.filler.transfers.begin();
        self.filler.pods.begin();
        let pod = RunningPod {
            namespace,
            name: target.name.clone(),
            uid: text(&pod, "/metadata/uid").to_owned(),
            node: String::new(),
        };
        let filled = FilledPod { filler: Arc::clone(&self.filler), source: original.to_owned(), pod };
        lock(restore.fillings).spawn(filled.fill(wanted));
    }

    /// Says which claims were made without the pod that brings their data back.
    pub(super) fn tell_of_unfilled(&self, restore: &RestoreContext<'_>) {
        let filled = lock(&self.filled);
        for ((namespace, claim), pod) in std::mem::take(&mut *lock(&self.expected)) {
            if filled.contains(&(namespace.clone(), claim.clone())) {
                continue;
            }
            let entry = restore.journal.error().resource("persistentvolumeclaims").name(&claim);
            entry.namespace(Some(&namespace)).message(&format!(
                "the data of claim {namespace}/{claim} is not restored: it was copied through pod {pod}, and comes back with \
                 that pod alone, which this restore has not made. Restore the pod too, where it does not exist yet, or say \
                 restorePVs: false if the claim may be empty"
            ));
        }
    }
}

/// The copy of a volume, if it can be put back and the restore wants that.
fn restorable<'i>(restore: &RestoreContext<'_>, info: &'i BackupVolumeInfo) -> Option<&'i PodVolumeInfo> {
    let copy = info.pvb_info.as_ref().filter(|_| restore.volumes.wishes.restore_copies)?;
    copy_obstacle(copy).is_none().then_some(copy)
}

/// A pod under the name it has in the backup.
fn renamed(pod: &Value, name: &str) -> Value {
    let mut pod = pod.clone();
    pod["metadata"]["name"] = name.into();
    pod
}

/// The claim that a volume of a pod is made of.
fn claim_of_volume(pod: &Value, volume: &str) -> Option<String> {
    let found = elements(pod, "/spec/volumes").find(|found| text(found, "/name") == volume)?;
    found["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned)
}

fn place(target: &Target<'_>) -> Claim {
    (target.namespace().unwrap_or_default().to_owned(), target.name.clone())
}

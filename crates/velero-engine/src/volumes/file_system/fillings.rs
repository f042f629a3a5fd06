//! The volumes that a restore fills from copies: asked for as PodVolumeRestores when a pod is made, and waited for.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument;
use velero_api::records::{BackupVolumeInfo, PodVolumeInfo};
use velero_cluster::RawItem;
use velero_plugin::item::{elements, text};
use velero_rules::pod_volumes::{RunningPod, copies_of_pod, copy_obstacle};
use velero_rules::resume::{Download, LeftPod, Relative};

use super::super::restore_context::RestoreContext;
use super::asked::Claim;
use super::filled_pod::{FilledPod, Wanted};
use super::filler::Filler;
use crate::fault::or_told;
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
    pub(super) fn expect_claim(&self, restore: &RestoreContext<'_>, target: &Target<'_>, made: &RawItem) {
        let made = made.to_value().unwrap_or_default();
        if !restore.earlier.has_filled_claim(text(&made, "/metadata/uid")) {
            self.expect(restore, target);
        }
    }

    /// Notes a claim, where its data is in a copy: a pod has to bring it back.
    pub(super) fn expect(&self, restore: &RestoreContext<'_>, target: &Target<'_>) {
        let original = target.item.original.as_deref().unwrap_or_default();
        let mut infos = restore.volumes.of_claim(original, &target.item.name);
        let Some(copy) = infos.find_map(|info| restorable(restore, info)) else { return };
        let pod = format!("{}/{}", copy.pod_namespace, copy.pod_name);
        lock(&self.expected).insert(place(target), pod);
    }

    /// Fills the volumes of a pod that was made, in the background.
    pub(super) fn begin(&self, restore: &RestoreContext<'_>, target: &Target<'_>, created: &RawItem) {
        let Ok(pod) = created.to_value() else { return };
        let wanted = self.wanted(restore, target, &pod);
        self.fill(restore, target, &pod, wanted, None);
    }

    /// Takes notice of a pod whose volumes would be filled.
    pub(super) fn foresee_pod(&self, restore: &RestoreContext<'_>, target: &Target<'_>, pod: &Value) {
        self.wanted(restore, target, pod);
    }

    /// Fills what is missing in the volumes of a pod that an earlier restore made and that still waits for it.
    pub(super) fn take_over(&self, restore: &RestoreContext<'_>, target: &Target<'_>, found: &RawItem, left: &LeftPod) {
        let Ok(pod) = found.to_value() else { return };
        let wanted = self.wanted(restore, target, &pod);
        let tell = |volume: &str, why: &str| {
            let entry = restore.journal.error().resource("pods").name(&target.name).namespace(target.namespace());
            entry.message(&format!(
                "the data of volume {volume} of {} is not restored: {why}, and resume the restore again",
                target.item.id()
            ));
        };
        let restore_uid = match left {
            LeftPod::Done => return,
            LeftPod::Waits { restore_uid } => restore_uid,
            // It was to be removed, and was not there any more when that was looked at.
            _ => {
                let why = "the pod was replaced meanwhile by one that cannot get it; delete that";
                return wanted.iter().for_each(|wanted| tell(&wanted.copy.volume_name, why));
            }
        };
        let waits_for = restore.earlier.family.iter().find(|relative| relative.uid == *restore_uid).cloned();
        let pod_uid = text(&pod, "/metadata/uid");
        let mut open = Vec::new();
        for wanted in wanted {
            match restore.earlier.filling(pod_uid, &wanted.copy.volume_name) {
                Download::Completed => {}
                Download::Failed => open.push(wanted),
                Download::Busy => tell(
                    &wanted.copy.volume_name,
                    "its PodVolumeRestore of an earlier restore was told to end and has not; see that its node agent runs",
                ),
            }
        }
        self.fill(restore, target, &pod, open, waits_for);
    }

    /// The copies that belong into the volumes of a pod. The claims among them are dealt with from now on.
    fn wanted(&self, restore: &RestoreContext<'_>, target: &Target<'_>, pod: &Value) -> Vec<Wanted> {
        let original = target.item.original.as_deref().unwrap_or_default();
        let infos = restore.volumes.of_pod(original, &target.item.name);
        let copies: Vec<&PodVolumeInfo> = infos.filter_map(|info| restorable(restore, info)).collect();
        let named = renamed(pod, &target.item.name);
        let wanted: Vec<Wanted> = copies_of_pod(copies, original, &named)
            .into_values()
            .map(|copy| Wanted { copy: copy.clone(), claim: claim_of_volume(pod, &copy.volume_name) })
            .collect();
        let (namespace, _) = place(target);
        let claims = wanted.iter().filter_map(|wanted| wanted.claim.clone());
        lock(&self.filled).extend(claims.map(|claim| (namespace.clone(), claim)));
        wanted
    }

    fn fill(
        &self,
        restore: &RestoreContext<'_>,
        target: &Target<'_>,
        pod: &Value,
        wanted: Vec<Wanted>,
        waits_for: Option<Relative>,
    ) {
        if wanted.is_empty() {
            return;
        }
        self.filler.transfers.begin();
        self.filler.pods.begin();
        let pod = RunningPod {
            namespace: place(target).0,
            name: target.name.clone(),
            uid: text(pod, "/metadata/uid").to_owned(),
            node: String::new(),
        };
        let source = target.item.original.as_deref().unwrap_or_default().to_owned();
        let filled = FilledPod { filler: Arc::clone(&self.filler), source, pod, waits_for };
        let volumes: Vec<String> = wanted.iter().map(|wanted| wanted.copy.volume_name.clone()).collect();
        let filling = async move {
            let lost = |fault: &'static str| {
                volumes.iter().for_each(|volume| filled.fail(volume, fault));
                Vec::new()
            };
            or_told(filled.fill(wanted), lost).await
        };
        lock(restore.fillings).spawn(filling.in_current_span());
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

//! The volumes of a pod that is backed up: their copies are asked for, or it is told why not.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, OnceLock};

use serde_json::Value;
use tokio::time::Instant;
use velero_cluster::{ItemRef, RawItem};
use velero_plugin::item::text;
use velero_rules::pod_volumes::RunningPod;
use velero_rules::volume_decision::pods::{AskedBy, Obstacle, PodVolume};

use super::super::PODS;
use super::super::backup_context::BackupContext;
use super::super::restore_context::RestoreContext;
use super::asked::{Behind, Claim};
use super::copies::Copies;
use super::fillings::Fillings;
use crate::journal::Entry;
use crate::lock;

/// What became of a claim that a pod should copy.
#[derive(Clone)]
pub(super) enum Dealt {
    /// A copy is begun.
    Begun,
    /// There is none, and that was told.
    Told(String),
    /// There is none unless another pod makes it. The rest is the pod, its volume, the reason, and whether the pod runs.
    Refused { pod: String, volume: String, reason: String, runs: bool },
}

/// Copies through the file systems of pods, and what was asked of pods so far.
pub(in crate::volumes) struct FileSystem {
    started: Instant,
    pub(super) copies: OnceLock<Copies>,
    pub(super) fillings: OnceLock<Fillings>,
    /// Claims that were dealt with for one of the pods that mount them: one copy of each is enough.
    pub(super) claims: Mutex<HashMap<Claim, Dealt>>,
    /// Persistent volumes that pods should copy.
    pub(super) volumes: Mutex<BTreeMap<String, Value>>,
}

impl Default for FileSystem {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            copies: OnceLock::new(),
            fillings: OnceLock::new(),
            claims: Mutex::default(),
            volumes: Mutex::default(),
        }
    }
}

impl FileSystem {
    pub(super) fn fillings(&self, restore: &RestoreContext<'_>) -> &Fillings {
        self.fillings.get_or_init(|| Fillings::new(restore, self.started))
    }

    /// Says that a volume of a pod cannot be copied as it is. A claim may be copied by another pod: that is told at the end.
    pub(super) fn refuse(
        &self,
        backup: &BackupContext<'_>,
        pod: (&str, &str),
        volume: &PodVolume,
        asked_by: AskedBy,
        obstacle: Obstacle,
        phase: &str,
    ) {
        let (asker, remedy) = (asked_by.as_str(), asked_by.remedy());
        let obstacle_text = match obstacle {
            Obstacle::NotRunning => format!("the pod is {phase}, and only the volumes of a Running pod can be copied"),
            other => other.as_str().to_owned(),
        };
        let reason = format!("{obstacle_text}. It is {asker} that asks for the copy; to do without, {remedy}");
        if volume.outlives_pod() && obstacle != Obstacle::LeftOut {
            let runs = obstacle != Obstacle::NotRunning;
            let refused = Dealt::Refused { pod: pod.1.to_owned(), volume: volume.name.clone(), reason, runs };
            return self.note(pod.0, volume, refused);
        }
        match obstacle.is_error(asked_by, volume) {
            true => tell(backup.journal.error(), pod, &volume.name, &reason),
            false => tell(backup.journal.warning(), pod, &volume.name, &reason),
        }
        self.note(pod.0, volume, Dealt::Told(reason));
    }

    /// Says which claims should have been copied by a pod when no pod of the backup could do so.
    pub(super) fn tell_of_refused(&self, backup: &BackupContext<'_>) {
        let mut claims: Vec<(Claim, Dealt)> = lock(&self.claims).clone().into_iter().collect();
        claims.sort_by(|(one, _), (other, _)| one.cmp(other));
        for ((namespace, _), dealt) in claims {
            if let Dealt::Refused { pod, volume, reason, .. } = dealt {
                tell(backup.journal.error(), (&namespace, &pod), &volume, &reason);
            }
        }
    }

    /// Says that the copy of a volume could not be begun. A claim may be copied by another pod, as on a node that has its agent:
    /// that is told at the end.
    fn fail(&self, backup: &BackupContext<'_>, (namespace, pod): (&str, &str), volume: &PodVolume, reason: String) {
        if volume.outlives_pod() {
            let refused = Dealt::Refused { pod: pod.to_owned(), volume: volume.name.clone(), reason, runs: true };
            return self.note(namespace, volume, refused);
        }
        tell(backup.journal.error(), (namespace, pod), &volume.name, &reason);
        self.note(namespace, volume, Dealt::Told(reason));
    }

    /// Notes what became of the claim of a volume; nothing makes a copy undone, and what was told is not told again. Of several pods
    /// the first that runs says why, such as that there is no agent: that another does not run is not what is to be mended.
    fn note(&self, namespace: &str, volume: &PodVolume, dealt: Dealt) {
        if let Some(claim) = &volume.claim {
            let mut claims = lock(&self.claims);
            let known = claims.entry((namespace.to_owned(), claim.clone())).or_insert_with(|| dealt.clone());
            match (&known, &dealt) {
                (Dealt::Begun, _) | (Dealt::Told(_) | Dealt::Refused { runs: true, .. }, Dealt::Refused { .. }) => {}
                _ => *known = dealt,
            }
        }
    }

    /// Takes the claim of a volume, and gives what became of it so far; `None` when a copy of it is begun by another pod.
    fn take(&self, namespace: &str, volume: &PodVolume) -> Option<Option<Dealt>> {
        let Some(claim) = &volume.claim else { return Some(None) };
        match lock(&self.claims).insert((namespace.to_owned(), claim.clone()), Dealt::Begun) {
            Some(Dealt::Begun) => None,
            before => Some(before),
        }
    }

    /// Gives the claim of a volume back: another pod that mounts it may be luckier.
    fn give_back(&self, namespace: &str, volume: &PodVolume, before: Option<Dealt>) {
        if let Some(claim) = &volume.claim {
            let (mut claims, claim) = (lock(&self.claims), (namespace.to_owned(), claim.clone()));
            match before {
                Some(before) => _ = claims.insert(claim, before),
                None => _ = claims.remove(&claim),
            }
        }
    }

    /// Asks for copies of volumes of a pod.
    pub(super) async fn copy(
        &self,
        backup: &BackupContext<'_>,
        pod: &RunningPod,
        wanted: Vec<(&PodVolume, AskedBy, Behind)>,
    ) {
        let copies = self.copies.get_or_init(|| Copies::new(backup, self.started));
        let place = (pod.namespace.as_str(), pod.name.as_str());
        let take = |(volume, asked_by, behind)| Some((volume, asked_by, behind, self.take(&pod.namespace, volume)?));
        let wanted: Vec<(&PodVolume, AskedBy, Behind, Option<Dealt>)> = wanted.into_iter().filter_map(take).collect();
        let obstacle = if wanted.is_empty() { Ok(()) } else { copies.obstacle(backup, pod).await };
        for (volume, asked_by, behind, before) in wanted {
            let begun = match &obstacle {
                Ok(()) => copies.begin(backup, pod, &volume.name, &behind).await.map_err(|problem| problem.to_string()),
                Err(problem) => Err(problem.to_string()),
            };
            match begun {
                Ok(()) => {
                    let entry = backup.journal.info().item(ItemRef::new(PODS, Some(place.0), place.1));
                    let (name, asked_by) = (&volume.name, asked_by.as_str());
                    entry.message(&format!(
                        "The data of volume {name} is copied through the pod: {asked_by} asks for it"
                    ));
                }
                Err(problem) => {
                    self.give_back(&pod.namespace, volume, before);
                    let (asked_by, remedy) = (asked_by.as_str(), asked_by.remedy());
                    let problem =
                        format!("{problem}. It is {asked_by} that asks for the copy; to do without, {remedy}");
                    self.fail(backup, place, volume, problem);
                }
            }
        }
    }
}

fn tell(entry: Entry<'_>, (namespace, pod): (&str, &str), volume: &str, reason: &str) {
    let entry = entry.item(ItemRef::new(PODS, Some(namespace), pod)).field("volume", volume.to_owned());
    entry.message(&format!("The data of volume {volume} of pod {namespace}/{pod} is not backed up: {reason}"));
}

/// What is to be known of a pod to copy its volumes.
pub(super) fn running_pod(item: &RawItem) -> RunningPod {
    let pod = item.to_value().unwrap_or_default();
    RunningPod {
        namespace: item.namespace().unwrap_or_default().to_owned(),
        name: item.name().to_owned(),
        uid: text(&pod, "/metadata/uid").to_owned(),
        node: text(&pod, "/spec/nodeName").to_owned(),
    }
}

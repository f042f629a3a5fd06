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
use crate::lock;

/// What became of a claim that a pod should copy.
#[derive(Clone)]
pub(super) enum Dealt {
    /// A copy is begun.
    Begun,
    /// There is none, and that was told.
    Told(String),
    /// There is none; a warning says why.
    Refused(String),
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

    /// Says that a volume of a pod cannot be copied as it is.
    pub(super) fn refuse(
        &self,
        backup: &BackupContext<'_>,
        pod: (&str, &str),
        volume: &PodVolume,
        obstacle: Obstacle,
        phase: &str,
    ) {
        if obstacle == Obstacle::NotRunning {
            let reason = format!(
                "the pod is {phase}, and only the volumes of a Running pod can be copied; take the backup when it runs, or \
                 leave the volume out"
            );
            return self.fail(backup, pod, volume, &reason);
        }
        let (name, reason) = (&volume.name, obstacle.as_str());
        let entry = backup.journal.warning().item(ItemRef::new(PODS, Some(pod.0), pod.1)).field("volume", name.clone());
        entry.message(&format!(
            "The data of volume {name} of pod {}/{} is asked for, but it cannot be copied: {reason}",
            pod.0, pod.1
        ));
        self.note(pod.0, volume, Dealt::Refused(reason.to_owned()));
    }

    /// Says that the copy of a volume could not be begun; once for each claim, whoever mounts it.
    fn fail(&self, backup: &BackupContext<'_>, (namespace, pod): (&str, &str), volume: &PodVolume, reason: &str) {
        let name = &volume.name;
        let claim = volume.claim.as_ref().map(|claim| (namespace.to_owned(), claim.clone()));
        if claim.is_some_and(|claim| matches!(lock(&self.claims).get(&claim), Some(Dealt::Told(_)))) {
            return;
        }
        let entry = backup.journal.error().item(ItemRef::new(PODS, Some(namespace), pod)).field("volume", name.clone());
        entry.message(&format!("The data of volume {name} of pod {namespace}/{pod} is not backed up: {reason}"));
        self.note(namespace, volume, Dealt::Told(reason.to_owned()));
    }

    /// Notes what became of the claim of a volume; nothing makes a copy undone.
    fn note(&self, namespace: &str, volume: &PodVolume, dealt: Dealt) {
        if let Some(claim) = &volume.claim {
            let mut claims = lock(&self.claims);
            let known = claims.entry((namespace.to_owned(), claim.clone())).or_insert_with(|| dealt.clone());
            if !matches!(known, Dealt::Begun) {
                *known = dealt;
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
                Ok(()) => copies.begin(backup, pod, &volume.name, &behind).await,
                Err(problem) => Err(problem.clone()),
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
                    self.fail(backup, place, volume, &problem);
                }
            }
        }
    }
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

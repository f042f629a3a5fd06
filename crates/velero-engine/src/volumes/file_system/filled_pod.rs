//! One pod whose volumes are filled from copies: asks node agents to do it, and waits until they have.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use velero_api::metadata::{name, namespace, uid};
use velero_api::records::{PodVolumeInfo, RestoreVolumeInfo};
use velero_api::resource::VeleroResource;
use velero_api::v1::PodVolumeRestore;
use velero_api::{DataMovePhase, labels, with_causes};
use velero_cluster::types;
use velero_plugin::item::text;
use velero_rules::pod_volumes::{
    FilledVolume, RunningPod, fill_for_earlier, pod_volume_restore, transfer_name, volume_restore_info, wait_containers,
};
use velero_rules::resume::Relative;

use super::super::PODS;
use super::super::followed::NotSeen;
use super::create::create;
use super::error::{NotAsked, NotReady};
use super::filler::{Filler, SeenPod};

/// How long a pod may take to get a node before it is told.
const SCHEDULING: Duration = Duration::from_secs(600);
/// How long its init container may be started in vain: an image may be away for a while.
const STARTING: Duration = Duration::from_secs(300);
/// How long a pod may go on waiting when all its volumes are filled, before it is told.
const GOING_ON: Duration = Duration::from_secs(60);

/// A volume that is to be filled.
pub(super) struct Wanted {
    /// The copy.
    pub copy: PodVolumeInfo,
    /// The claim the volume is made of.
    pub claim: Option<String>,
}

/// A pod whose volumes are filled.
pub(super) struct FilledPod {
    pub filler: Arc<Filler>,
    /// The namespace the pod had in the backup.
    pub source: String,
    pub pod: RunningPod,
    /// The earlier restore that made it, for whose word it waits.
    pub waits_for: Option<Relative>,
}

/// A volume whose filling was asked for.
struct Begun {
    filling: PodVolumeRestore,
    claim: Option<String>,
}

impl FilledPod {
    /// Fills the volumes; what goes wrong is told. Gives what the files of the restore say of them.
    pub(super) async fn fill(&self, wanted: Vec<Wanted>) -> Vec<RestoreVolumeInfo> {
        if let Err(problem) = self.obstacle().await {
            wanted.iter().for_each(|wanted| self.fail(&wanted.copy.volume_name, &problem.to_string()));
            return Vec::new();
        }
        let (mut begun, count) = (Vec::new(), wanted.len());
        for Wanted { copy, claim } in wanted {
            match self.ask(&copy, claim.as_deref()).await {
                Ok(filling) => begun.push(Begun { filling, claim }),
                Err(problem) => self.fail(&copy.volume_name, &problem.to_string()),
            }
        }
        let (infos, filled) = self.wait(begun).await;
        // One that was taken over may wait for more than what is filled now.
        if filled == count && self.waits_for.is_none() {
            self.see_it_go_on().await;
        }
        infos
    }

    /// Waits until all volumes are filled, or until it is clear that they never will be. Gives what is said of them, and how
    /// many are filled.
    async fn wait(&self, begun: Vec<Begun>) -> (Vec<RestoreVolumeInfo>, usize) {
        let (mut infos, mut filled) = (Vec::new(), 0);
        let mut unreachable = pin!(self.unreachable());
        let mut lost: Option<String> = None;
        for Begun { filling, claim } in begun {
            let ended = match &lost {
                Some(problem) if !self.has_ended(&filling) => Err(problem.clone()),
                _ => tokio::select! {
                    biased;
                    ended = self.end(&filling) => ended,
                    problem = &mut unreachable, if lost.is_none() => Err(lost.insert(problem).clone()),
                },
            };
            let last = match ended {
                Ok(ended) => {
                    filled += 1;
                    ended
                }
                Err(problem) => {
                    self.cancel(&filling).await;
                    self.fail(&filling.spec.volume, &problem);
                    self.last(&filling).unwrap_or(filling)
                }
            };
            infos.push(self.info(&last, claim.as_deref()).await);
        }
        (infos, filled)
    }

    /// Tells of a pod that waits on though all its volumes are filled. Where no kubelet has said that it waits, nobody can tell.
    async fn see_it_go_on(&self) {
        let (namespace, pod) = (self.pod.namespace.as_str(), self.pod.name.as_str());
        let pods = &self.filler.pods;
        if !pods.last(namespace, pod).is_some_and(|seen| seen.waits) {
            return;
        }
        let goes_on = |seen: &SeenPod| !seen.waits || seen.is_over;
        let Err(NotSeen::Late(_)) = pods.until((namespace, pod), Instant::now() + GOING_ON, goes_on).await else {
            return;
        };
        let waits = wait_containers()[0];
        let entry = self.filler.journal.error().resource(PODS).name(pod).namespace(Some(namespace));
        entry.message(&format!(
            "pod {namespace}/{pod} does not start: it still waits in its init container {waits} a minute after all its volumes \
             were filled. As a rule the user of that container may not look into one of them: kubectl -n {namespace} logs {pod} \
             -c {waits} names it. Let the container run as the owner of the volume, with secCtxRunAsUser in the ConfigMap \
             labelled velero.io/pod-volume-restore or runAsUser in the securityContext of the pod; then delete the pod and \
             restore it again"
        ));
    }

    /// What the files of the restore say of a volume.
    async fn info(&self, filling: &PodVolumeRestore, claim: Option<&str>) -> RestoreVolumeInfo {
        let mut info = volume_restore_info(filling, claim);
        if let Some(claim) = claim {
            let claim = types::PERSISTENT_VOLUME_CLAIMS.item(Some(&self.pod.namespace), claim);
            let claim = self.filler.cluster.get(claim).await.ok().flatten().unwrap_or_default();
            info.pv_name = text(&claim, "/spec/volumeName").to_owned();
        }
        info
    }

    fn last(&self, filling: &PodVolumeRestore) -> Option<PodVolumeRestore> {
        self.filler.transfers.last(namespace(filling), name(filling))
    }

    fn has_ended(&self, filling: &PodVolumeRestore) -> bool {
        self.last(filling).is_some_and(|last| last.status.phase().is_terminal())
    }

    /// Why nobody can fill the volumes; nothing when that is possible.
    async fn obstacle(&self) -> Result<(), NotReady> {
        let filler = &self.filler;
        filler.agents.check_any().await?;
        Ok(filler.repositories.ensure(&filler.means, &self.source, &filler.location).await?)
    }

    /// Asks for a volume to be filled.
    async fn ask(&self, copy: &PodVolumeInfo, claim: Option<&str>) -> Result<PodVolumeRestore, NotAsked> {
        let Filler { cluster, restore, location, .. } = &*self.filler;
        let claim_uid = match claim {
            None => None,
            Some(claim) => {
                let item = types::PERSISTENT_VOLUME_CLAIMS.item(Some(&self.pod.namespace), claim);
                let found = cluster.get(item).await.map_err(NotAsked::ClaimUnread)?;
                let found = found.ok_or_else(|| NotAsked::NoClaim(claim.to_owned()))?;
                Some(text(&found, "/metadata/uid").to_owned())
            }
        };
        let volume = FilledVolume { copy, claim_uid: claim_uid.as_deref(), location };
        let mut wanted = pod_volume_restore(restore, &self.pod, volume);
        if let Some(earlier) = &self.waits_for {
            fill_for_earlier(&mut wanted, &earlier.name, &earlier.uid);
        }
        let wanted = serde_json::to_value(&wanted).map_err(NotAsked::Unwritable)?;
        let names = |attempt| transfer_name(name(restore), uid(restore), &self.pod.uid, &copy.volume_name, attempt);
        let made = create(cluster, &types::POD_VOLUME_RESTORES, wanted, labels::RESTORE_UID, names).await;
        let kind = PodVolumeRestore::KIND;
        let made = made.map_err(|problem| NotAsked::NotMade { kind, problem })?;
        serde_json::from_value(made).map_err(|problem| NotAsked::Unread { kind, problem })
    }

    /// Ends when it is clear that nobody can fill the volumes of the pod, and says why.
    async fn unreachable(&self) -> String {
        let place = (self.pod.namespace.as_str(), self.pod.name.as_str());
        let pods = &self.filler.pods;
        let is_placed = |pod: &SeenPod| !pod.node.is_empty() || pod.is_over;
        let soon = self.filler.deadline.min(Instant::now() + SCHEDULING);
        let mut seen = pods.until(place, soon, is_placed).await;
        if let Err(NotSeen::Late(_)) = seen {
            self.filler.journal.warning().resource(PODS).name(place.1).namespace(Some(place.0)).message(&format!(
                "pod {}/{} has no node after {SCHEDULING:?}, and its volumes are filled only when it has one; its events say \
                 what it waits for",
                place.0, place.1
            ));
            seen = pods.until(place, self.filler.deadline, is_placed).await;
        }
        match seen {
            Ok(pod) if !pod.is_over => match self.filler.agents.check(&pod.node).await {
                Err(missing) => missing.to_string(),
                Ok(()) => tokio::select! {
                    problem = self.lost(place) => problem,
                    missing = self.filler.agents.lost(&pod.node) => missing.to_string(),
                },
            },
            Ok(_) | Err(NotSeen::Gone) => over(),
            // The volumes themselves tell when their time is over.
            Err(_) => std::future::pending().await,
        }
    }

    /// Ends when a pod that has its node is over, or never comes to wait for its volumes, and says why.
    async fn lost(&self, place: (&str, &str)) -> String {
        let Filler { pods, deadline, .. } = &*self.filler;
        loop {
            match pods.until(place, *deadline, |pod| pod.is_over || pod.stuck.is_some()).await {
                Ok(pod) if !pod.is_over => {}
                Ok(_) | Err(NotSeen::Gone) => return over(),
                Err(_) => std::future::pending().await,
            }
            let soon = Instant::now() + STARTING;
            let goes_on = |pod: &SeenPod| pod.is_over || pod.stuck.is_none();
            if let Err(NotSeen::Late(Some(SeenPod { stuck: Some(problem), .. }))) =
                pods.until(place, soon.min(*deadline), goes_on).await
            {
                return does_not_start(&problem);
            }
        }
    }

    /// Waits until a volume is filled; an error says why it is not.
    async fn end(&self, filling: &PodVolumeRestore) -> Result<PodVolumeRestore, String> {
        let (own, name) = (namespace(filling), name(filling));
        let has_ended = |filling: &PodVolumeRestore| filling.status.phase().is_terminal();
        let ended = match self.filler.transfers.until((own, name), self.filler.deadline, has_ended).await {
            Ok(ended) => ended,
            Err(NotSeen::Gone) => return Err(format!("its PodVolumeRestore {name} was deleted before it had ended")),
            Err(NotSeen::Unknown(problem)) => {
                return Err(format!("it cannot be seen how its PodVolumeRestore {name} has ended: {problem}"));
            }
            Err(NotSeen::Late(last)) => {
                let phase = last.map_or(DataMovePhase::New, |last| last.status.phase().clone());
                return Err(format!(
                    "its PodVolumeRestore {name} was still {phase} when the time of the restore for copies was over, and is \
                     cancelled; give it more with --fs-backup-timeout of the server or the annotation \
                     velero.io/pod-volume-timeout"
                ));
            }
        };
        match ended.status.phase() {
            DataMovePhase::Completed => Ok(ended),
            DataMovePhase::Canceled => {
                Err(format!("its PodVolumeRestore {name} was cancelled: {}", ended.status.message))
            }
            _ => Err(format!("its PodVolumeRestore {name} failed: {}", ended.status.message)),
        }
    }

    /// Tells a node agent that nobody waits for a volume any more.
    async fn cancel(&self, filling: &PodVolumeRestore) {
        let (own, name) = (namespace(filling), name(filling));
        if self.has_ended(filling) {
            return;
        }
        let why = "cancelled because the restore no longer waits for it";
        let patch = json!({"metadata": {"uid": uid(filling)}, "spec": {"cancel": true}, "status": {"message": why}});
        let item = types::POD_VOLUME_RESTORES.item(Some(own), name);
        if let Err(error) = self.filler.cluster.merge_patch(item, &patch).await {
            let entry = self.filler.journal.warning().error(&with_causes(&error));
            entry.message(&format!("PodVolumeRestore {name} could not be cancelled"));
        }
    }

    /// Tells that a volume is not filled, and what to do.
    pub(super) fn fail(&self, volume: &str, problem: &str) {
        let (namespace, pod) = (&self.pod.namespace, &self.pod.name);
        let waits = wait_containers()[0];
        let entry = self.filler.journal.error().resource(PODS).name(pod).namespace(Some(namespace));
        entry.message(&format!(
            "the data of volume {volume} of pod {namespace}/{pod} is not restored: {problem}. The pod waits for it in its init \
             container {waits}; delete the pod and restore it again once that is put right"
        ));
    }
}

fn does_not_start(problem: &str) -> String {
    format!(
        "the init container {} of the pod does not start, {problem}. What it is made of is said by the Deployment of the server \
         and the ConfigMap labelled velero.io/pod-volume-restore",
        wait_containers()[0]
    )
}

fn over() -> String {
    "the pod ended or was deleted before its volumes were filled".to_owned()
}

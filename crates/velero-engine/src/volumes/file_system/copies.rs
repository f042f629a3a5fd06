//! The copies of a backup: asked for as PodVolumeBackups, which node agents carry out, and waited for.

use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::time::Instant;
use velero_api::metadata::{name, namespace, uid};
use velero_api::records::BackupVolumeInfo;
use velero_api::resource::VeleroResource;
use velero_api::v1::PodVolumeBackup;
use velero_api::{DataMovePhase, labels, with_causes};
use velero_cluster::{ItemRef, types};
use velero_plugin::item::text;
use velero_rules::pod_volumes::{CopiedVolume, RunningPod, pod_volume_backup, transfer_name};
use velero_rules::volume_records::info_of_copy;

use super::super::PODS;
use super::super::backup_context::{BackupContext, info_of};
use super::super::followed::{Followed, NotSeen};
use super::agents::{Agents, BACK_OFF, NoAgent};
use super::asked::Behind;
use super::create::create;
use super::error::{NotAsked, NotReady};
use super::repositories::Repositories;
use crate::lock;

/// The copies of a backup.
pub(super) struct Copies {
    followed: Followed<PodVolumeBackup>,
    agents: Agents,
    deadline: Instant,
    repositories: Repositories,
    begun: Mutex<Vec<Begun>>,
}

/// A copy that was asked for.
#[derive(Clone)]
struct Begun {
    /// The object as it was made.
    copy: PodVolumeBackup,
    /// What is known of its persistent volume.
    volume: Option<BackupVolumeInfo>,
}

/// What came of waiting for the end of a copy.
enum Awaited {
    /// It has ended, well or not.
    Ended(PodVolumeBackup),
    /// Its end was not seen.
    NotSeen(NotSeen<PodVolumeBackup>),
    /// Nobody is left on its node who could end it.
    NoAgent(NoAgent),
}

impl Begun {
    fn pod(&self) -> (&str, &str) {
        let pod = &self.copy.spec.pod;
        (pod.namespace.as_deref().unwrap_or_default(), pod.name.as_deref().unwrap_or_default())
    }

    fn place(&self) -> (&str, &str) {
        (namespace(&self.copy), name(&self.copy))
    }
}

impl Copies {
    /// Those of a backup, from now on; none was asked for yet.
    pub(super) fn new(backup: &BackupContext<'_>, started: Instant) -> Self {
        let own = namespace(backup.backup);
        let selector = format!("{}={}", labels::BACKUP_UID, uid(backup.backup));
        let timeout = backup.copy_means.timeout_of(&backup.backup.metadata, backup.journal);
        Self {
            followed: Followed::new(backup.cluster, &types::POD_VOLUME_BACKUPS, Some(own), selector, read),
            // Pods wait one after the other here, between their hooks.
            agents: Agents::new(backup.cluster, own, BACK_OFF),
            deadline: started + timeout,
            repositories: Repositories::default(),
            begun: Mutex::default(),
        }
    }

    /// Why no volume of a pod can be copied; nothing when they can.
    pub(super) async fn obstacle(&self, backup: &BackupContext<'_>, pod: &RunningPod) -> Result<(), NotReady> {
        self.agents.check(&pod.node).await?;
        let location = &backup.backup.spec.storage_location;
        Ok(self.repositories.ensure(backup.copy_means, &pod.namespace, location).await?)
    }

    /// Asks for a copy of a volume.
    pub(super) async fn begin(
        &self,
        backup: &BackupContext<'_>,
        pod: &RunningPod,
        volume: &str,
        behind: &Behind,
    ) -> Result<(), NotAsked> {
        self.followed.begin();
        let claim = behind.claim.as_ref().map(|claim| (text(claim, "/metadata/name"), text(claim, "/metadata/uid")));
        let wanted = pod_volume_backup(backup.backup, pod, CopiedVolume { name: volume, claim });
        let wanted = serde_json::to_value(&wanted).map_err(NotAsked::Unwritable)?;
        let names = |attempt| transfer_name(name(backup.backup), uid(backup.backup), &pod.uid, volume, attempt);
        let kind = &types::POD_VOLUME_BACKUPS;
        let made = create(backup.cluster, kind, wanted, labels::BACKUP_UID, names).await;
        let made = made.map_err(|problem| NotAsked::NotMade { kind: PodVolumeBackup::KIND, problem })?;
        let volume = behind.volume.as_ref().map(|volume| info_of(volume));
        lock(&self.begun).push(Begun { copy: read(&made), volume });
        Ok(())
    }

    /// Whether copies of volumes of a pod were asked for.
    pub(super) fn has_begun(&self, pod: (&str, &str)) -> bool {
        lock(&self.begun).iter().any(|begun| begun.pod() == pod)
    }

    /// Waits until the copies of the volumes of a pod have ended, well or not.
    pub(super) async fn wait_for_pod(&self, pod: (&str, &str)) {
        let begun: Vec<Begun> = lock(&self.begun).iter().filter(|begun| begun.pod() == pod).cloned().collect();
        for begun in begun {
            // How it ended is told when all have.
            _ = self.until_ended(&begun).await;
        }
    }

    /// Waits until a copy has ended, or never will.
    async fn until_ended(&self, begun: &Begun) -> Awaited {
        tokio::select! {
            biased;
            seen = self.followed.until(begun.place(), self.deadline, has_ended) => {
                seen.map_or_else(Awaited::NotSeen, Awaited::Ended)
            }
            missing = self.agents.lost(&begun.copy.spec.node) => Awaited::NoAgent(missing),
        }
    }

    /// Waits until all copies have ended, and tells and notes how.
    pub(super) async fn close(&self, backup: &BackupContext<'_>) {
        let begun = std::mem::take(&mut *lock(&self.begun));
        if !begun.is_empty() {
            backup.journal.info().message(&format!("Waiting for {} copies of volumes through pods", begun.len()));
        }
        for begun in begun {
            let (copy, problem) = self.end(backup, &begun).await;
            if let Some(problem) = problem {
                let ((namespace, pod), volume) = (begun.pod(), &begun.copy.spec.volume);
                let entry = backup.journal.error().item(ItemRef::new(PODS, Some(namespace), pod));
                entry.field("volume", volume.clone()).message(&format!(
                    "The data of volume {volume} of pod {namespace}/{pod} is not backed up: {problem}"
                ));
            }
            let known = info_of_copy(&copy);
            backup.volumes.note_copy(match begun.volume {
                Some(BackupVolumeInfo { pvc_name, pvc_namespace, pv_name, pv_info, .. }) => {
                    BackupVolumeInfo { pvc_name, pvc_namespace, pv_name, pv_info, ..known }
                }
                None => known,
            });
            backup.volumes.keep_copy(copy);
        }
    }

    /// How a copy has ended, and what is wrong with that. One that has not ended by now is told to, and has failed.
    async fn end(&self, backup: &BackupContext<'_>, begun: &Begun) -> (PodVolumeBackup, Option<String>) {
        let place = begun.place();
        let last = || self.followed.last(place.0, place.1).unwrap_or_else(|| begun.copy.clone());
        let (copy, problem) = match self.until_ended(begun).await {
            Awaited::Ended(copy) => return judge(copy),
            Awaited::NoAgent(missing) => {
                self.cancel(backup, begun, "cancelled because no node agent runs on its node any more").await;
                (last(), format!("nobody ends its PodVolumeBackup {}: {missing}", place.1))
            }
            Awaited::NotSeen(NotSeen::Gone) => {
                (last(), format!("its PodVolumeBackup {} was deleted before it had ended", place.1))
            }
            Awaited::NotSeen(NotSeen::Unknown(problem)) => {
                self.cancel(backup, begun, "cancelled because the server cannot see how far it is").await;
                (last(), format!("it cannot be seen how its PodVolumeBackup {} has ended: {problem}", place.1))
            }
            Awaited::NotSeen(NotSeen::Late(seen)) => {
                self.cancel(backup, begun, "cancelled because the time of the backup for copies is over").await;
                let copy = seen.unwrap_or_else(|| begun.copy.clone());
                let problem = format!(
                    "its PodVolumeBackup {} was still {} when the time of the backup for copies was over, and is cancelled; \
                     give it more with --fs-backup-timeout of the server or the annotation velero.io/pod-volume-timeout",
                    place.1,
                    copy.status.phase()
                );
                (copy, problem)
            }
        };
        (failed(copy, &problem), Some(problem))
    }

    async fn cancel(&self, backup: &BackupContext<'_>, begun: &Begun, why: &str) {
        let (namespace, name) = begun.place();
        let uid = uid(&begun.copy);
        let patch = json!({"metadata": {"uid": uid}, "spec": {"cancel": true}, "status": {"message": why}});
        let item = types::POD_VOLUME_BACKUPS.item(Some(namespace), name);
        if let Err(error) = backup.cluster.merge_patch(item, &patch).await {
            let entry = backup.journal.warning().error(&with_causes(&error));
            entry.message(&format!("PodVolumeBackup {name} could not be cancelled"));
        }
    }
}

/// A copy that has ended, and what is wrong with it.
fn judge(copy: PodVolumeBackup) -> (PodVolumeBackup, Option<String>) {
    let (name, message) = (name(&copy), &copy.status.message);
    let problem = match copy.status.phase() {
        DataMovePhase::Completed => None,
        DataMovePhase::Canceled => Some(format!("its PodVolumeBackup {name} was cancelled: {message}")),
        _ => Some(format!("its PodVolumeBackup {name} failed: {message}")),
    };
    (copy, problem)
}

/// A copy that nobody waits for any more, as the files of the backup tell of it: nobody may take it up again.
fn failed(mut copy: PodVolumeBackup, problem: &str) -> PodVolumeBackup {
    copy.spec.cancel = true;
    copy.status.phase = Some(DataMovePhase::Failed);
    copy.status.message = problem.to_owned();
    copy
}

fn has_ended(copy: &PodVolumeBackup) -> bool {
    copy.status.phase().is_terminal()
}

/// Reads a copy. What cannot be read says nothing of its end, and is told as late.
fn read(copy: &Value) -> PodVolumeBackup {
    serde_json::from_value(copy.clone()).unwrap_or_default()
}

//! Pod volumes that were backed up or restored through the file system.

use std::collections::BTreeMap;

use velero_api::v1::{PodVolumeBackup, PodVolumeRestore};
use velero_api::{DataMoveOperationProgress, DataMovePhase};

use super::describer::Describer;

/// The order of phases in a description of backups.
const BACKUP_PHASES: [DataMovePhase; 8] = [
    DataMovePhase::Completed,
    DataMovePhase::Failed,
    DataMovePhase::Canceled,
    DataMovePhase::InProgress,
    DataMovePhase::Canceling,
    DataMovePhase::Prepared,
    DataMovePhase::Accepted,
    DataMovePhase::New,
];

/// The order of phases in a description of restores.
const RESTORE_PHASES: [DataMovePhase; 7] = [
    DataMovePhase::Completed,
    DataMovePhase::Canceled,
    DataMovePhase::Failed,
    DataMovePhase::InProgress,
    DataMovePhase::Prepared,
    DataMovePhase::Accepted,
    DataMovePhase::New,
];

/// What a description needs to know of one volume.
pub(super) struct PodVolume {
    phase: DataMovePhase,
    pod: String,
    text: String,
}

impl From<&PodVolumeBackup> for PodVolume {
    fn from(backup: &PodVolumeBackup) -> Self {
        let phase = backup.status.phase().clone();
        let text = volume_text(&backup.spec.volume, &phase, &backup.status.progress, backup.status.incremental_bytes);
        Self { pod: pod_name(&backup.spec.pod), text, phase }
    }
}

impl From<&PodVolumeRestore> for PodVolume {
    fn from(restore: &PodVolumeRestore) -> Self {
        let phase = restore.status.phase().clone();
        let text = volume_text(&restore.spec.volume, &phase, &restore.status.progress, 0);
        Self { pod: pod_name(&restore.spec.pod), text, phase }
    }
}

fn pod_name(pod: &k8s_openapi::api::core::v1::ObjectReference) -> String {
    format!("{}/{}", pod.namespace.as_deref().unwrap_or_default(), pod.name.as_deref().unwrap_or_default())
}

/// A volume and how far it is, or how large it is.
fn volume_text(volume: &str, phase: &DataMovePhase, progress: &DataMoveOperationProgress, incremental: i64) -> String {
    let (done, total) = (progress.bytes_done, progress.total_bytes);
    match phase {
        DataMovePhase::InProgress if total != 0 => format!("{volume} ({:.2}%)", done as f64 / total as f64 * 100.0),
        DataMovePhase::Completed if incremental > 0 => {
            format!("{volume} (size: {total}, incremental size: {incremental})")
        }
        DataMovePhase::Completed if total > 0 => format!("{volume} (size: {total})"),
        _ => volume.to_owned(),
    }
}

/// A phase as it is shown.
pub(super) fn phase_text(phase: &DataMovePhase) -> &str {
    if *phase == DataMovePhase::InProgress { "In Progress" } else { phase.as_str() }
}

/// Volumes of one phase by pod.
pub(super) type ByPod = BTreeMap<String, Vec<String>>;

/// Sorts backups by phase, in the order of a description.
pub(super) fn backups_by_phase(backups: &[PodVolumeBackup]) -> Vec<(DataMovePhase, usize, ByPod)> {
    by_phase(&BACKUP_PHASES, backups.iter().map(PodVolume::from).collect())
}

fn by_phase(order: &[DataMovePhase], volumes: Vec<PodVolume>) -> Vec<(DataMovePhase, usize, ByPod)> {
    let mut groups: Vec<(DataMovePhase, usize, ByPod)> =
        order.iter().map(|phase| (phase.clone(), 0, ByPod::new())).collect();
    for volume in volumes {
        if let Some((_, count, pods)) = groups.iter_mut().find(|(phase, ..)| *phase == volume.phase) {
            *count += 1;
            pods.entry(volume.pod).or_default().push(volume.text);
        }
    }
    groups.retain(|(_, count, _)| *count > 0);
    groups
}

/// Describes the pod volumes of a backup.
pub(super) fn describe_pod_volume_backups(describer: &mut Describer<'_>, backups: &[PodVolumeBackup]) {
    let Some(first) = backups.first() else {
        return describer.line("\tPod Volume Backups: <none included>");
    };
    let hint = if describer.manner.details { "" } else { " (specify --details for more information)" };
    describer.line(format_args!("\tPod Volume Backups - {}{hint}:", first.spec.uploader_type));
    describe_groups(describer, "\t\t", backups_by_phase(backups));
}

/// Describes the pod volumes of a restore, if there are any.
pub(super) fn describe_pod_volume_restores(describer: &mut Describer<'_>, restores: &[PodVolumeRestore]) {
    let Some(first) = restores.first() else { return };
    let hint = if describer.manner.details { "" } else { " (specify --details for more information)" };
    describer.gap();
    describer.line(format_args!("{} Restores{hint}:", first.spec.uploader_type));
    let volumes = restores.iter().map(PodVolume::from).collect();
    describe_groups(describer, "\t", by_phase(&RESTORE_PHASES, volumes));
}

fn describe_groups(describer: &mut Describer<'_>, tabs: &str, groups: Vec<(DataMovePhase, usize, ByPod)>) {
    for (phase, count, pods) in groups {
        let name = phase_text(&phase);
        if !describer.manner.details {
            describer.field(&format!("{tabs}{name}"), count);
            continue;
        }
        describer.line(format_args!("{tabs}{name}:"));
        for (pod, mut volumes) in pods {
            volumes.sort();
            describer.line(format_args!("{tabs}\t{pod}: {}", volumes.join(", ")));
        }
    }
}

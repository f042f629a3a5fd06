//! Pod volumes that were backed up or restored through the file system.

use std::collections::BTreeMap;

use indicatif::BinaryBytes;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
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
const RESTORE_PHASES: [DataMovePhase; 8] = [
    DataMovePhase::Completed,
    DataMovePhase::Canceled,
    DataMovePhase::Failed,
    DataMovePhase::InProgress,
    DataMovePhase::Canceling,
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

impl PodVolume {
    fn of_backup(backup: &PodVolumeBackup, now: Option<Timestamp>) -> Self {
        let status = &backup.status;
        let moved = Moved {
            phase: status.phase(),
            progress: &status.progress,
            incremental: status.incremental_bytes,
            begun: status.start_timestamp.as_ref(),
            ended: status.completion_timestamp.as_ref(),
        };
        let text = moved.text(&backup.spec.volume, now);
        Self { pod: pod_name(&backup.spec.pod), text, phase: status.phase().clone() }
    }

    fn of_restore(restore: &PodVolumeRestore, now: Option<Timestamp>) -> Self {
        let status = &restore.status;
        let moved = Moved {
            phase: status.phase(),
            progress: &status.progress,
            incremental: 0,
            begun: status.start_timestamp.as_ref(),
            ended: status.completion_timestamp.as_ref(),
        };
        let text = moved.text(&restore.spec.volume, now);
        Self { pod: pod_name(&restore.spec.pod), text, phase: status.phase().clone() }
    }
}

fn pod_name(pod: &k8s_openapi::api::core::v1::ObjectReference) -> String {
    format!("{}/{}", pod.namespace.as_deref().unwrap_or_default(), pod.name.as_deref().unwrap_or_default())
}

/// How much of a volume was moved, and when.
struct Moved<'a> {
    phase: &'a DataMovePhase,
    progress: &'a DataMoveOperationProgress,
    incremental: i64,
    begun: Option<&'a Time>,
    ended: Option<&'a Time>,
}

impl Moved<'_> {
    /// A volume and how far it is, or how large it is; for people, who know what time it is, with what was moved a second.
    fn text(&self, volume: &str, now: Option<Timestamp>) -> String {
        let (done, total, incremental) = (self.progress.bytes_done, self.progress.total_bytes, self.incremental);
        match self.phase {
            DataMovePhase::InProgress if total != 0 => {
                let percent = done as f64 / total as f64 * 100.0;
                let bytes = now.map(|_| format!(", {} of {}", shown(done), shown(total))).unwrap_or_default();
                format!("{volume} ({percent:.2}%{bytes}{})", self.rate(now))
            }
            DataMovePhase::Completed if incremental > 0 => {
                format!("{volume} (size: {total}, incremental size: {incremental}{})", self.rate(now))
            }
            DataMovePhase::Completed if total > 0 => format!("{volume} (size: {total}{})", self.rate(now)),
            _ => volume.to_owned(),
        }
    }

    /// Bytes a second, behind something else; nothing before the first second is over.
    fn rate(&self, now: Option<Timestamp>) -> String {
        let end = self.ended.map(|ended| ended.0);
        let time = self.begun.zip(now).map(|(begun, now)| end.unwrap_or(now).duration_since(begun.0).as_secs_f64());
        match time.filter(|seconds| *seconds >= 1.0) {
            Some(seconds) => format!(", {}/s", shown((self.progress.bytes_done as f64 / seconds) as i64)),
            None => String::new(),
        }
    }
}

fn shown(bytes: i64) -> BinaryBytes {
    BinaryBytes(u64::try_from(bytes).unwrap_or_default())
}

/// A phase as it is shown.
pub(super) fn phase_text(phase: &DataMovePhase) -> &str {
    if *phase == DataMovePhase::InProgress { "In Progress" } else { phase.as_str() }
}

/// Volumes of one phase by pod.
pub(super) type ByPod = BTreeMap<String, Vec<String>>;

/// Sorts backups by phase, in the order of a description; without a time as Velero tells of them.
pub(super) fn backups_by_phase(
    backups: &[PodVolumeBackup],
    now: Option<Timestamp>,
) -> Vec<(DataMovePhase, usize, ByPod)> {
    by_phase(&BACKUP_PHASES, backups.iter().map(|backup| PodVolume::of_backup(backup, now)).collect())
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
    let now = describer.manner.clock.now();
    describe_groups(describer, "\t\t", backups_by_phase(backups, Some(now)));
}

/// Describes the pod volumes of a restore, if there are any.
pub(super) fn describe_pod_volume_restores(describer: &mut Describer<'_>, restores: &[PodVolumeRestore]) {
    let Some(first) = restores.first() else { return };
    let hint = if describer.manner.details { "" } else { " (specify --details for more information)" };
    describer.gap();
    describer.line(format_args!("{} Restores{hint}:", first.spec.uploader_type));
    let now = describer.manner.clock.now();
    let volumes = restores.iter().map(|restore| PodVolume::of_restore(restore, Some(now))).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: i64 = 1 << 20;

    fn moment(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_volume_is_told_with_bytes_and_rate_and_without_a_time_as_velero_does() {
        use DataMovePhase::{Completed, InProgress, Prepared};
        let progress = |done: i64, total: i64| DataMoveOperationProgress {
            bytes_done: done * MEBIBYTE,
            total_bytes: total * MEBIBYTE,
            ..DataMoveOperationProgress::default()
        };
        for (phase, done, total, incremental, now, expected) in [
            (Prepared, 0, 0, 0, Some(104), "data"),
            (InProgress, 0, 0, 0, Some(104), "data"),
            (InProgress, 4, 8, 0, None, "data (50.00%)"),
            (InProgress, 4, 8, 0, Some(100), "data (50.00%, 4.00 MiB of 8.00 MiB)"),
            (InProgress, 4, 8, 0, Some(104), "data (50.00%, 4.00 MiB of 8.00 MiB, 1.00 MiB/s)"),
            (Completed, 8, 8, 0, None, "data (size: 8388608)"),
            (Completed, 8, 8, 0, Some(999), "data (size: 8388608, 4.00 MiB/s)"),
            (Completed, 8, 8, 96, None, "data (size: 8388608, incremental size: 96)"),
            (Completed, 8, 8, 96, Some(999), "data (size: 8388608, incremental size: 96, 4.00 MiB/s)"),
            (Completed, 0, 0, 0, Some(999), "data"),
        ] {
            let (begun, ended) = (Time(moment(100)), Time(moment(102)));
            let moved = Moved {
                phase: &phase,
                progress: &progress(done, total),
                incremental,
                begun: Some(&begun),
                ended: (phase == Completed).then_some(&ended),
            };
            assert_eq!(moved.text("data", now.map(moment)), expected);
        }
    }

    #[test]
    fn every_phase_is_told_of() {
        for phase in DataMovePhase::ALL {
            assert!(BACKUP_PHASES.contains(phase) && RESTORE_PHASES.contains(phase), "{phase}");
        }
    }
}

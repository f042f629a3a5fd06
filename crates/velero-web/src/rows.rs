//! What lists show of an object: a few words and figures, so that ten thousand of them are small.

use std::sync::Arc;

use jiff::Timestamp;
use velero_api::metadata::{label, name};
use velero_api::resource::VeleroResource;
use velero_api::v1::{
    Backup, BackupStorageLocation, DeleteBackupRequest, PodVolumeBackup, PodVolumeRestore, Restore, Schedule, Stage,
};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_api::{dry_run, labels};
use velero_report::{Scope, Taken, VolumeFact};

use crate::digests::{BackupDigest, RestoreDigest, SavedBytes};
pub(crate) use crate::kept::Row;
use crate::moves::Moves;
use crate::text::moment;

/// A backup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BackupRow {
    pub(crate) name: Box<str>,
    pub(crate) phase: Box<str>,
    pub(crate) run: Run,
    pub(crate) location: Box<str>,
    pub(crate) schedule: Box<str>,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) scope: Scope,
    /// Whether there may be a log, a list and an archive of it.
    pub(crate) has_files: bool,
}

impl BackupRow {
    /// The backup as one that protects namespaces, once it has ended. One that does not say since when protects none.
    pub(crate) fn taken(&self) -> Option<Taken<'_>> {
        let run = &self.run;
        let is_good = &*self.phase == "Completed";
        // What was refused was never begun.
        let begun = run.started.or(run.created.filter(|_| !is_good))?;
        let at = run.ended.or(run.started).filter(|_| !run.is_under_way)?;
        Some(Taken { backup: &self.name, phase: &self.phase, begun, at, is_good, scope: &self.scope })
    }
}

/// What backups and restores tell of their run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Run {
    /// When it was begun. An object that came out of a bucket is younger than the backup it tells of.
    pub(crate) created: Option<Timestamp>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) errors: i64,
    pub(crate) warnings: i64,
    pub(crate) done: i64,
    pub(crate) total: i64,
    pub(crate) is_under_way: bool,
}

impl Row for BackupRow {
    type Kind = Backup;
    type Digest = BackupDigest;

    fn of(backup: &Backup) -> Option<Self> {
        let status = &backup.status;
        let progress = status.progress.clone().unwrap_or_default();
        let stage = status.phase().stage();
        Some(Self {
            name: name(backup).into(),
            phase: status.phase().as_str().into(),
            run: Run {
                created: moment(status.start_timestamp.as_ref().or(backup.metadata.creation_timestamp.as_ref())),
                started: moment(status.start_timestamp.as_ref()),
                ended: moment(status.completion_timestamp.as_ref()),
                errors: status.errors,
                warnings: status.warnings,
                done: progress.items_backed_up,
                total: progress.total_items,
                is_under_way: is_under_way(stage),
            },
            location: backup.spec.storage_location.as_str().into(),
            schedule: label(backup, labels::SCHEDULE_NAME).into(),
            expires: moment(status.expiration.as_ref()),
            scope: Scope::of(&backup.spec),
            has_files: stage.has_log(),
        })
    }
}

/// A restore.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RestoreRow {
    pub(crate) name: Box<str>,
    pub(crate) phase: Box<str>,
    pub(crate) run: Run,
    pub(crate) backup: Box<str>,
}

impl Row for RestoreRow {
    type Kind = Restore;
    type Digest = RestoreDigest;

    fn of(restore: &Restore) -> Option<Self> {
        if dry_run::is_asked(restore) {
            return None;
        }
        let status = &restore.status;
        let progress = status.progress.clone().unwrap_or_default();
        Some(Self {
            name: name(restore).into(),
            phase: status.phase().as_str().into(),
            run: Run {
                created: moment(restore.metadata.creation_timestamp.as_ref()),
                started: moment(status.start_timestamp.as_ref()),
                ended: moment(status.completion_timestamp.as_ref()),
                errors: status.errors,
                warnings: status.warnings,
                done: progress.items_restored,
                total: progress.total_items,
                is_under_way: is_under_way(status.phase().stage()),
            },
            backup: restore.spec.backup_name.as_str().into(),
        })
    }
}

fn is_under_way(stage: Stage) -> bool {
    stage.is_under_way() || stage == Stage::Pending || stage == Stage::Deleting
}

/// A schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ScheduleRow {
    pub(crate) name: Box<str>,
    pub(crate) phase: Box<str>,
    pub(crate) cron: Box<str>,
    pub(crate) paused: bool,
    pub(crate) last: Option<Timestamp>,
    /// The schedule itself, without what only the API server wants to know: there are not many.
    pub(crate) whole: Arc<Schedule>,
}

impl ScheduleRow {
    /// Whether the server makes nothing of it.
    pub(crate) fn is_refused(&self) -> bool {
        &*self.phase == "FailedValidation"
    }
}

impl Row for ScheduleRow {
    type Kind = Schedule;
    type Digest = ();

    fn of(schedule: &Schedule) -> Option<Self> {
        Some(Self {
            name: name(schedule).into(),
            phase: schedule.status.phase().as_str().into(),
            cron: schedule.spec.schedule.as_str().into(),
            paused: schedule.spec.paused,
            last: moment(schedule.status.last_backup.as_ref()),
            whole: Arc::new(without_noise(schedule)),
        })
    }
}

/// An object without what only the API server wants to know.
pub(crate) fn without_noise<K: VeleroResource>(object: &K) -> K {
    let mut object = object.clone();
    object.meta_mut().managed_fields = None;
    object
}

/// The data of a volume that was copied through the file system of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CopyRow(pub(crate) VolumeFact);

impl Row for CopyRow {
    type Kind = PodVolumeBackup;
    type Digest = SavedBytes;

    fn of(copy: &PodVolumeBackup) -> Option<Self> {
        Some(Self(VolumeFact::from(copy.clone())))
    }
}

/// The data of a snapshot that was moved.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UploadRow(pub(crate) VolumeFact);

impl Row for UploadRow {
    type Kind = DataUpload;
    type Digest = SavedBytes;

    fn of(upload: &DataUpload) -> Option<Self> {
        Some(Self(VolumeFact::from(upload.clone())))
    }
}

/// Data that is copied back into the volume of a pod: the value of the label that names its restore.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RestoredCopyRow(pub(crate) Box<str>);

impl Row for RestoredCopyRow {
    type Kind = PodVolumeRestore;
    type Digest = Moves;

    fn of(copy: &PodVolumeRestore) -> Option<Self> {
        (!copy.status.phase().is_terminal()).then(|| Self(label(copy, labels::RESTORE_NAME).into()))
    }
}

/// Data that is moved back into a volume: the value of the label that names its restore.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DownloadRow(pub(crate) Box<str>);

impl Row for DownloadRow {
    type Kind = DataDownload;
    type Digest = Moves;

    fn of(download: &DataDownload) -> Option<Self> {
        (!download.status.phase().is_terminal()).then(|| Self(label(download, labels::RESTORE_NAME).into()))
    }
}

/// A request to delete a backup: the value of the label that names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DeletionRow(pub(crate) Box<str>);

impl Row for DeletionRow {
    type Kind = DeleteBackupRequest;
    type Digest = Moves;

    fn of(request: &DeleteBackupRequest) -> Option<Self> {
        Some(Self(label(request, labels::BACKUP_NAME).into()))
    }
}

/// A backup location.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LocationRow {
    pub(crate) name: Box<str>,
    pub(crate) phase: Box<str>,
    pub(crate) provider: Box<str>,
    pub(crate) bucket: Box<str>,
    pub(crate) prefix: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) is_default: bool,
    pub(crate) is_read_only: bool,
    pub(crate) validated: Option<Timestamp>,
}

impl Row for LocationRow {
    type Kind = BackupStorageLocation;
    type Digest = ();

    fn of(location: &BackupStorageLocation) -> Option<Self> {
        let (spec, status) = (&location.spec, &location.status);
        Some(Self {
            name: name(location).into(),
            phase: status.phase.as_ref().map_or("Unknown", |phase| phase.as_str()).into(),
            provider: spec.provider.as_str().into(),
            bucket: spec.object_storage.bucket.as_str().into(),
            prefix: spec.object_storage.prefix.as_str().into(),
            message: status.message.as_str().into(),
            is_default: spec.default,
            is_read_only: location.is_read_only(),
            validated: moment(status.last_validation_time.as_ref()),
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use velero_api::DataMovePhase;
    use velero_api::v1::{BackupPhase, BackupSpec, RestoreSpec};

    use super::*;

    #[test]
    fn a_row_says_how_far_a_backup_is_and_what_it_takes() {
        let mut backup = Backup::new("velero", "daily-1", BackupSpec::default());
        let fresh = BackupRow::of(&backup).unwrap();
        assert_eq!((&*fresh.phase, fresh.run.is_under_way), ("New", true));
        assert!(!fresh.scope.is_partial && fresh.taken().is_none(), "what runs still makes nothing safe");
        backup.status.phase = Some(BackupPhase::PartiallyFailed);
        backup.status.errors = 3;
        backup.spec.included_namespaces = vec!["shop".to_owned()];
        let ended = BackupRow::of(&backup).unwrap();
        assert_eq!((&*ended.phase, ended.run.is_under_way, ended.run.errors), ("PartiallyFailed", false, 3));
        assert_eq!(&*ended.scope.included, ["shop"]);
        assert!(!fresh.has_files && ended.has_files);
    }

    #[test]
    fn a_backup_that_came_out_of_a_bucket_is_as_old_as_it_is_there() {
        let at = |text: &str| Some(Time(text.parse().unwrap()));
        let mut backup = Backup::new("velero", "daily-1", BackupSpec::default());
        backup.metadata.creation_timestamp = at("2026-11-18T08:00:00Z");
        let created = |backup: &Backup| BackupRow::of(backup).unwrap().run.created.unwrap().to_string();
        assert_eq!(created(&backup), "2026-11-18T08:00:00Z", "it waits");
        backup.status.start_timestamp = at("2026-10-01T03:00:00Z");
        assert_eq!(created(&backup), "2026-10-01T03:00:00Z");
    }

    #[test]
    fn a_good_backup_protects_what_was_there_when_it_was_begun() {
        let at = |text: &str| Some(Time(text.parse().unwrap()));
        let mut backup = Backup::new("velero", "daily-1", BackupSpec::default());
        backup.metadata.creation_timestamp = at("2026-11-18T08:00:00Z");
        backup.status.phase = Some(BackupPhase::Completed);
        backup.status.completion_timestamp = at("2026-10-01T03:30:00Z");
        let begun = |backup: &Backup| BackupRow::of(backup).unwrap().taken().map(|taken| taken.begun.to_string());
        assert_eq!(begun(&backup), None, "it may have come out of a bucket long after");
        backup.status.start_timestamp = at("2026-10-01T03:00:00Z");
        assert_eq!(begun(&backup).as_deref(), Some("2026-10-01T03:00:00Z"));
    }

    #[test]
    fn a_question_is_no_restore() {
        let restore = Restore::new("velero", "r", RestoreSpec { backup_name: "b".to_owned(), ..Default::default() });
        assert!(RestoreRow::of(&restore).is_some());
        assert!(RestoreRow::of(&dry_run::ask(&restore, "dry-run-1")).is_none());
    }
    #[test]
    fn data_that_has_arrived_is_not_on_its_way() {
        let mut copy = PodVolumeRestore::default();
        copy.metadata.labels = Some([(labels::RESTORE_NAME.to_owned(), "r".to_owned())].into());
        assert_eq!(RestoredCopyRow::of(&copy), Some(RestoredCopyRow("r".into())));
        copy.status.phase = Some(DataMovePhase::Completed);
        assert_eq!(RestoredCopyRow::of(&copy), None);
        let mut download = DataDownload::default();
        assert!(DownloadRow::of(&download).is_some());
        download.status.phase = Some(DataMovePhase::Failed);
        assert_eq!(DownloadRow::of(&download), None);
    }
}

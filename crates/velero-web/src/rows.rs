//! What lists show of an object: a few words and figures, so that ten thousand of them are small.

use jiff::Timestamp;
use velero_api::metadata::{label, name};
use velero_api::v1::{Backup, BackupSpec, BackupStorageLocation, Restore, Schedule, Stage};
use velero_api::{dry_run, labels};

use crate::text::moment;

/// Something that lists are made of.
pub(crate) trait Row: Send + Sync + 'static {
    /// The kind of object it is made from.
    type Kind;
    /// The row of an object; none where lists do not show it.
    fn of(object: &Self::Kind) -> Option<Self>
    where
        Self: Sized;
}

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

/// What a backup takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) included: Box<[String]>,
    pub(crate) excluded: Box<[String]>,
    /// It leaves objects of the namespaces out: by labels or by types.
    pub(crate) is_partial: bool,
}

impl Scope {
    pub(crate) fn of(spec: &BackupSpec) -> Self {
        let by_label = spec.label_selector.is_some() || !spec.or_label_selectors.is_empty();
        let all = |included: &[String]| included.is_empty() || included.iter().any(|entry| entry == "*");
        let by_type = !all(&spec.included_resources)
            || !all(&spec.included_namespace_scoped_resources)
            || !spec.excluded_resources.is_empty()
            || !spec.excluded_namespace_scoped_resources.is_empty();
        Self {
            included: spec.included_namespaces.clone().into(),
            excluded: spec.excluded_namespaces.clone().into(),
            is_partial: by_label || by_type,
        }
    }
}

impl Row for BackupRow {
    type Kind = Backup;

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
    pub(crate) created: Option<Timestamp>,
    pub(crate) scope: Scope,
}

impl Row for ScheduleRow {
    type Kind = Schedule;

    fn of(schedule: &Schedule) -> Option<Self> {
        Some(Self {
            name: name(schedule).into(),
            phase: schedule.status.phase().as_str().into(),
            cron: schedule.spec.schedule.as_str().into(),
            paused: schedule.spec.paused,
            last: moment(schedule.status.last_backup.as_ref()),
            created: moment(schedule.metadata.creation_timestamp.as_ref()),
            scope: Scope::of(&schedule.spec.template),
        })
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
    use velero_api::v1::{BackupPhase, RestoreSpec};

    use super::*;

    #[test]
    fn a_row_says_how_far_a_backup_is_and_what_it_takes() {
        let mut backup = Backup::new("velero", "daily-1", BackupSpec::default());
        let fresh = BackupRow::of(&backup).unwrap();
        assert_eq!((&*fresh.phase, fresh.run.is_under_way), ("New", true));
        assert!(!fresh.scope.is_partial);
        backup.status.phase = Some(BackupPhase::PartiallyFailed);
        backup.status.errors = 3;
        backup.spec.included_namespaces = vec!["shop".to_owned()];
        let ended = BackupRow::of(&backup).unwrap();
        assert_eq!((&*ended.phase, ended.run.is_under_way, ended.run.errors), ("PartiallyFailed", false, 3));
        assert_eq!(&*ended.scope.included, ["shop"]);
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
    fn a_backup_that_leaves_types_or_labels_out_is_partial() {
        let text = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
        for (spec, is_partial) in [
            (BackupSpec { included_resources: text(&["*"]), ..BackupSpec::default() }, false),
            (BackupSpec { included_resources: text(&["pods"]), ..BackupSpec::default() }, true),
            (BackupSpec { excluded_resources: text(&["secrets"]), ..BackupSpec::default() }, true),
            (BackupSpec { label_selector: Some(Default::default()), ..BackupSpec::default() }, true),
            (BackupSpec { excluded_cluster_scoped_resources: text(&["*"]), ..BackupSpec::default() }, false),
        ] {
            assert_eq!(Scope::of(&spec).is_partial, is_partial, "{spec:?}");
        }
    }

    #[test]
    fn a_question_is_no_restore() {
        let restore = Restore::new("velero", "r", RestoreSpec { backup_name: "b".to_owned(), ..Default::default() });
        assert!(RestoreRow::of(&restore).is_some());
        assert!(RestoreRow::of(&dry_run::ask(&restore, "dry-run-1")).is_none());
    }
}

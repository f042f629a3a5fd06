//! What is known about a server beyond its status: where it runs, what it uses, what it does and what went wrong.

use anyhow::Error;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use velero_api::metadata;
use velero_api::v1::{
    Backup, BackupStorageLocation, DeleteBackupRequest, DeleteBackupRequestPhase, DeleteBackupRequestStatus,
    PluginInfo, Restore, Stage,
};

/// How many of the last errors are shown.
const LAST_ERRORS: usize = 5;

/// Everything about a server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerDetails {
    /// Its Deployment, if it runs from one.
    pub(crate) deployment: Part<Option<Availability>>,
    /// The node agents.
    pub(crate) node_agents: Part<Vec<Availability>>,
    /// Its backup storage locations.
    pub(crate) locations: Part<Vec<LocationDetails>>,
    /// Its plugins.
    pub(crate) plugins: Vec<PluginInfo>,
    /// What it does, did and is to do.
    pub(crate) work: Part<WorkOverview>,
}

/// Something that may not have been readable.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Part<T> {
    /// What it is.
    Known(T),
    /// Why it is not known.
    Unknown {
        /// The reason.
        error: String,
    },
}

impl<T> From<Result<T, Error>> for Part<T> {
    fn from(result: Result<T, Error>) -> Self {
        result.map_or_else(|error| Self::Unknown { error: format!("{error:#}") }, Self::Known)
    }
}

/// How many of the wanted pods serve.
#[derive(Debug, Serialize)]
pub(crate) struct Availability {
    /// The Deployment or DaemonSet.
    pub(crate) name: String,
    /// How many serve.
    pub(crate) ready: i32,
    /// How many should.
    pub(crate) desired: i32,
}

/// A backup storage location.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LocationDetails {
    /// Its name.
    pub(crate) name: String,
    /// Whether it can be used.
    pub(crate) phase: String,
    /// When that was last found out.
    pub(crate) last_validation: Option<Time>,
    /// Why it cannot be used.
    pub(crate) message: String,
}

impl From<&BackupStorageLocation> for LocationDetails {
    fn from(location: &BackupStorageLocation) -> Self {
        let status = &location.status;
        Self {
            name: metadata::name(location).to_owned(),
            phase: status.phase.as_ref().map_or_else(|| "Unknown".to_owned(), ToString::to_string),
            last_validation: status.last_validation_time.clone(),
            message: status.message.clone(),
        }
    }
}

/// What a server does, did and is to do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkOverview {
    /// What waits, oldest first.
    pub(crate) queue: Vec<Work>,
    /// What runs, oldest first.
    pub(crate) running: Vec<Work>,
    /// What failed lately, newest first.
    pub(crate) last_errors: Vec<Work>,
}

impl From<Vec<Work>> for WorkOverview {
    fn from(mut work: Vec<Work>) -> Self {
        work.sort_by_key(|work| work.time.as_ref().map(|time| time.0));
        let mut overview = Self { queue: Vec::new(), running: Vec::new(), last_errors: Vec::new() };
        for work in work {
            match work.standing {
                Standing::Waits => overview.queue.push(work),
                Standing::Runs => overview.running.push(work),
                Standing::Failed => overview.last_errors.insert(0, work),
                Standing::Done => {}
            }
        }
        overview.last_errors.truncate(LAST_ERRORS);
        overview
    }
}

/// A backup, a restore or a deletion.
#[derive(Debug, Serialize)]
pub(crate) struct Work {
    /// Which of them.
    pub(crate) kind: &'static str,
    /// The name of the backup or restore.
    pub(crate) name: String,
    /// Its phase.
    pub(crate) phase: String,
    /// When it ended, else when it began, else when it was asked for.
    pub(crate) time: Option<Time>,
    /// How far it is, or what went wrong.
    pub(crate) message: String,
    /// Where the overview has it.
    #[serde(skip)]
    pub(crate) standing: Standing,
}

/// What becomes of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody has begun with it.
    Waits,
    /// Somebody works on it.
    Runs,
    /// It has ended with errors.
    Failed,
    /// It has ended without.
    Done,
}

impl From<Stage> for Standing {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Pending => Self::Waits,
            Stage::InProgress | Stage::WaitingForOperations | Stage::Finalizing => Self::Runs,
            Stage::Deleting | Stage::Unknown => Self::Runs,
            Stage::Ended(ending) if ending.is_good() => Self::Done,
            Stage::Ended(_) => Self::Failed,
        }
    }
}

impl Standing {
    fn of_deletion(status: &DeleteBackupRequestStatus) -> Self {
        match status.phase() {
            DeleteBackupRequestPhase::New => Self::Waits,
            DeleteBackupRequestPhase::InProgress | DeleteBackupRequestPhase::Unknown(_) => Self::Runs,
            DeleteBackupRequestPhase::Processed if status.errors.join("; ").is_empty() => Self::Done,
            DeleteBackupRequestPhase::Processed => Self::Failed,
        }
    }
}

impl From<&Backup> for Work {
    fn from(backup: &Backup) -> Self {
        let status = &backup.status;
        let times = [&status.completion_timestamp, &status.start_timestamp, &backup.metadata.creation_timestamp];
        let progress = status.progress.as_ref().map(|progress| (progress.items_backed_up, progress.total_items));
        Self {
            kind: "backup",
            name: metadata::name(backup).to_owned(),
            phase: status.phase().to_string(),
            time: first(&times),
            message: message(&status.failure_reason, &status.validation_errors, status.errors, progress),
            standing: status.phase().stage().into(),
        }
    }
}

impl From<&Restore> for Work {
    fn from(restore: &Restore) -> Self {
        let status = &restore.status;
        let times = [&status.completion_timestamp, &status.start_timestamp, &restore.metadata.creation_timestamp];
        let progress = status.progress.as_ref().map(|progress| (progress.items_restored, progress.total_items));
        Self {
            kind: "restore",
            name: metadata::name(restore).to_owned(),
            phase: status.phase().to_string(),
            time: first(&times),
            message: message(&status.failure_reason, &status.validation_errors, status.errors, progress),
            standing: status.phase().stage().into(),
        }
    }
}

impl From<&DeleteBackupRequest> for Work {
    fn from(request: &DeleteBackupRequest) -> Self {
        Self {
            kind: "deletion of backup",
            name: request.spec.backup_name.clone(),
            phase: request.status.phase().to_string(),
            time: request.metadata.creation_timestamp.clone(),
            message: request.status.errors.join("; "),
            standing: Standing::of_deletion(&request.status),
        }
    }
}

fn first(times: &[&Option<Time>]) -> Option<Time> {
    times.iter().find_map(|time| (*time).clone())
}

/// The most telling of what a status says.
fn message(failure: &str, refusals: &[String], errors: i64, progress: Option<(i64, i64)>) -> String {
    match progress {
        _ if !failure.is_empty() => failure.to_owned(),
        _ if !refusals.is_empty() => refusals.join("; "),
        Some((done, total)) if errors > 0 => format!("{done} of {total} items, {errors} errors"),
        None if errors > 0 => format!("{errors} errors"),
        Some((done, total)) => format!("{done} of {total} items"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::BackupPhase;

    use super::*;

    fn work(name: &str, phase: &str, second: i64) -> Work {
        let mut backup = Backup::new("velero", name, Default::default());
        backup.status.phase = Some(BackupPhase::from(phase));
        backup.metadata.creation_timestamp = Some(Time(jiff::Timestamp::from_second(second).unwrap()));
        Work::from(&backup)
    }

    fn deletion(backup: &str, second: i64, problem: Option<&str>) -> Work {
        let mut request = DeleteBackupRequest::new("velero", backup, Default::default());
        request.spec.backup_name = backup.to_owned();
        request.status.phase = Some(DeleteBackupRequestPhase::Processed);
        request.status.errors = problem.into_iter().map(str::to_owned).collect();
        request.metadata.creation_timestamp = Some(Time(jiff::Timestamp::from_second(second).unwrap()));
        Work::from(&request)
    }

    #[test]
    fn work_is_sorted_by_what_becomes_of_it() {
        let mut all = vec![
            work("queued", "Queued", 9),
            work("new", "New", 8),
            work("done", "Completed", 1),
            deletion("deleted", 1, None),
            work("runs", "InProgress", 7),
            work("waits-for-plugins", "WaitingForPluginOperations", 6),
            deletion("not-deleted", 90, Some("the bucket is read-only")),
        ];
        all.extend((0..6).map(|second| work(&format!("failed-{second}"), "Failed", second)));
        let overview = WorkOverview::from(all);
        let names = |work: &[Work]| work.iter().map(|work| work.name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&overview.queue), "new queued");
        assert_eq!(names(&overview.running), "waits-for-plugins runs");
        assert_eq!(names(&overview.last_errors), "not-deleted failed-5 failed-4 failed-3 failed-2");
    }

    #[test]
    fn the_reason_is_told_before_the_progress() {
        let refused = ["no such location".to_owned(), "no such namespace".to_owned()];
        for (failure, refusals, errors, progress, expected) in [
            ("the store is full", &refused[..], 2, Some((1, 2)), "the store is full"),
            ("", &refused[..], 0, None, "no such location; no such namespace"),
            ("", &[], 2, Some((5, 6)), "5 of 6 items, 2 errors"),
            ("", &[], 2, None, "2 errors"),
            ("", &[], 0, Some((5, 6)), "5 of 6 items"),
            ("", &[], 0, None, ""),
        ] {
            assert_eq!(message(failure, refusals, errors, progress), expected);
        }
    }
}

//! The little of each object that a report needs.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::labels::{self, SCHEDULE_NAME};
use velero_api::metadata::{label, name};
use velero_api::v1::{Backup, BackupStorageLocation, Ending, PodVolumeBackup, Restore, Schedule};
use velero_api::v2alpha1::DataUpload;
use velero_api::{DataMoveOperationProgress, DataMovePhase};
use velero_cluster::ListedMetadata;

use crate::protection::{Scope, Taken};

/// What is known when a report is made.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// When it is made.
    pub now: Timestamp,
    /// How far back it looks.
    pub since: Timestamp,
    /// The namespace of the server.
    pub namespace: String,
    /// How long backups are kept that do not say.
    pub default_ttl: Duration,
    /// All backups, older ones too: the last good one may be.
    pub backups: Vec<BackupFact>,
    /// All restores.
    pub restores: Vec<RestoreFact>,
    /// All schedules; nothing when they may not be seen.
    pub schedules: Option<Vec<Schedule>>,
    /// All locations.
    pub locations: Vec<LocationFact>,
    /// The data of volumes that was moved or copied.
    pub volumes: Vec<VolumeFact>,
    /// All namespaces; nothing when they may not be seen.
    pub namespaces: Option<Vec<NamespaceFact>>,
    /// All claims; nothing when they may not be seen.
    pub claims: Option<Vec<ClaimFact>>,
    /// What could not be seen, and why, in sentences.
    pub not_seen: Vec<String>,
}

/// A backup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupFact {
    /// Its name.
    pub name: String,
    /// The schedule that made it; empty for none.
    pub schedule: String,
    /// Its phase.
    pub phase: String,
    /// How it ended.
    pub ending: Option<Ending>,
    /// When it was made.
    pub made: Option<Timestamp>,
    /// When it was begun: it may have waited before.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How long it took.
    pub seconds: i64,
    /// How many items it has.
    pub items: i64,
    /// Errors and warnings.
    pub counts: (i64, i64),
    /// Why it failed, if it did.
    pub reason: String,
    /// What it was to take.
    pub scope: Scope,
}

/// A restore.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreFact {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: String,
    /// How it ended.
    pub ending: Option<Ending>,
    /// When it was made.
    pub made: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Errors and warnings.
    pub counts: (i64, i64),
    /// Why it failed, if it did.
    pub reason: String,
}

/// A location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocationFact {
    /// Its name.
    pub name: String,
    /// Whether it can be used.
    pub is_available: bool,
    /// Why not.
    pub message: String,
}

/// The data of a volume that belongs to a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeFact {
    /// The backup, as labels call it.
    pub backup: String,
    /// How many bytes were read.
    pub bytes: u64,
    /// Whether all went well.
    pub is_complete: bool,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceFact {
    /// Its name.
    pub name: String,
    /// Whether its label leaves it out of backups.
    pub is_left_out: bool,
    /// When it was made.
    pub made: Option<Timestamp>,
}

impl From<ListedMetadata> for NamespaceFact {
    fn from(metadata: ListedMetadata) -> Self {
        let label = metadata.label(labels::EXCLUDE_FROM_BACKUP);
        let made = moment(metadata.creation_timestamp.as_ref());
        Self { is_left_out: label == Some("true"), made, name: metadata.name }
    }
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimFact {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels, shared with all claims that have the same.
    pub labels: Arc<BTreeMap<String, String>>,
}

/// Makes facts of claims: those of a StatefulSet have the same labels, and there may be thousands.
#[derive(Default)]
pub(crate) struct ClaimFacts {
    known: HashSet<Arc<BTreeMap<String, String>>>,
}

impl ClaimFacts {
    pub(crate) fn of(&mut self, metadata: ListedMetadata) -> ClaimFact {
        let labels = metadata.labels.unwrap_or_default();
        let labels = match self.known.get(&labels) {
            Some(known) => Arc::clone(known),
            None => {
                let labels = Arc::new(labels);
                self.known.insert(Arc::clone(&labels));
                labels
            }
        };
        ClaimFact { namespace: metadata.namespace, name: metadata.name, labels }
    }
}

fn moment(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

/// What was begun before its object was made was brought in from a bucket.
fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

fn reason(validation_errors: &[String], failure_reason: &str) -> String {
    let failure = Some(failure_reason).filter(|reason| !reason.is_empty());
    validation_errors.iter().map(String::as_str).chain(failure).collect::<Vec<_>>().join("; ")
}

impl From<Backup> for BackupFact {
    fn from(backup: Backup) -> Self {
        let (spec, status) = (&backup.spec, &backup.status);
        let (started, ended) = (moment(status.start_timestamp.as_ref()), moment(status.completion_timestamp.as_ref()));
        let seconds = match (started, ended) {
            (Some(started), Some(ended)) => ended.duration_since(started).as_secs().max(0),
            _ => 0,
        };
        Self {
            name: name(&backup).to_owned(),
            schedule: label(&backup, SCHEDULE_NAME).to_owned(),
            phase: status.phase().to_string(),
            ending: status.phase().ending(),
            made: earlier(moment(backup.metadata.creation_timestamp.as_ref()), started),
            started,
            ended,
            seconds,
            items: status.progress.as_ref().map_or(0, |progress| progress.items_backed_up),
            counts: (status.errors, status.warnings),
            reason: reason(&status.validation_errors, &status.failure_reason),
            scope: Scope::of(spec),
        }
    }
}

impl BackupFact {
    /// The backup as one that protects namespaces, once it has ended. One that does not say since when protects none.
    pub(crate) fn taken(&self) -> Option<Taken<'_>> {
        let is_good = self.ending == Some(Ending::Completed);
        // What was refused was never begun.
        let begun = self.started.or(self.made.filter(|_| !is_good))?;
        Some(Taken { backup: &self.name, phase: &self.phase, begun, at: self.ended?, is_good, scope: &self.scope })
    }
}

impl From<Restore> for RestoreFact {
    fn from(restore: Restore) -> Self {
        let status = &restore.status;
        let started = moment(status.start_timestamp.as_ref());
        Self {
            name: name(&restore).to_owned(),
            phase: status.phase().to_string(),
            ending: status.phase().ending(),
            made: earlier(moment(restore.metadata.creation_timestamp.as_ref()), started),
            ended: moment(status.completion_timestamp.as_ref()),
            counts: (status.errors, status.warnings),
            reason: reason(&status.validation_errors, &status.failure_reason),
        }
    }
}

impl From<BackupStorageLocation> for LocationFact {
    fn from(location: BackupStorageLocation) -> Self {
        Self {
            name: name(&location).to_owned(),
            is_available: location.is_available(),
            message: location.status.message,
        }
    }
}

impl From<PodVolumeBackup> for VolumeFact {
    fn from(copy: PodVolumeBackup) -> Self {
        let backup = label(&copy, labels::BACKUP_NAME).to_owned();
        Self::new(backup, copy.status.phase(), &copy.status.progress)
    }
}

impl From<DataUpload> for VolumeFact {
    fn from(upload: DataUpload) -> Self {
        let backup = label(&upload, labels::BACKUP_NAME).to_owned();
        Self::new(backup, upload.status.phase(), &upload.status.progress)
    }
}

impl VolumeFact {
    fn new(backup: String, phase: &DataMovePhase, progress: &DataMoveOperationProgress) -> Self {
        let bytes = u64::try_from(progress.bytes_done).unwrap_or_default();
        Self { backup, bytes, is_complete: *phase == DataMovePhase::Completed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_have_the_same_labels_share_them() {
        let labels = |value: &str| Some([("app".to_owned(), value.to_owned())].into());
        let mut facts = ClaimFacts::default();
        let mut fact = |name: &str, labels| {
            facts.of(ListedMetadata { name: name.to_owned(), labels, ..ListedMetadata::default() })
        };
        let [one, two, other, none] =
            [fact("data-0", labels("db")), fact("data-1", labels("db")), fact("data", labels("web")), fact("x", None)];
        assert_eq!((one.name.as_str(), two.name.as_str()), ("data-0", "data-1"));
        assert!(Arc::ptr_eq(&one.labels, &two.labels) && one.labels["app"] == "db");
        assert_eq!((other.labels["app"].as_str(), none.labels.len()), ("web", 0));
    }

    #[test]
    fn a_namespace_is_left_out_by_its_label_alone() {
        for (label, expected) in [(Some("true"), true), (Some("false"), false), (None, false)] {
            let labels = label.map(|value| [(labels::EXCLUDE_FROM_BACKUP.to_owned(), value.to_owned())].into());
            let creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            let metadata = ListedMetadata { name: "shop".to_owned(), labels, creation_timestamp, ..Default::default() };
            let made = Some(Timestamp::UNIX_EPOCH);
            assert_eq!(
                NamespaceFact::from(metadata),
                NamespaceFact { name: "shop".to_owned(), is_left_out: expected, made }
            );
        }
    }

    #[test]
    fn a_good_backup_that_does_not_say_when_it_was_begun_protects_nothing() {
        let at = |seconds| Timestamp::from_second(seconds).ok();
        let ended = |ending, started| BackupFact {
            ending: Some(ending),
            made: at(10),
            started,
            ended: at(30),
            ..BackupFact::default()
        };
        let begun = |fact: BackupFact| fact.taken().map(|taken| taken.begun);
        assert_eq!(begun(ended(Ending::Completed, at(20))), at(20));
        assert_eq!(begun(ended(Ending::Completed, None)), None);
        assert_eq!(begun(ended(Ending::FailedValidation, None)), at(10), "it was refused when it was made");
    }
}

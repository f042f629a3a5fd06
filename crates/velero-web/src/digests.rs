//! What is known of all backups, and of all data of volumes, without looking at each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use velero_report::VolumeFact;

use crate::kept::{Dated, Newest, RowDigest};
use crate::moves::Moves;
use crate::rows::{BackupRow, CopyRow, RestoreRow, UploadRow};

/// How many seconds a minute has.
const MINUTE: i64 = 60;

/// All backups, as lists and the first page tell of them.
#[derive(Default)]
pub(crate) struct BackupDigest {
    /// All of them.
    pub(crate) newest: Newest<BackupRow>,
    /// Those that have not ended.
    pub(crate) under_way: Newest<BackupRow>,
    /// Those in which something went wrong.
    pub(crate) failures: Newest<BackupRow>,
    /// How those ended that were begun in a minute.
    by_minute: BTreeMap<i64, Endings>,
    /// Those of each schedule that have ended.
    by_schedule: BTreeMap<Box<str>, Newest<BackupRow>>,
    /// The newest of these, by schedule, where something went wrong in it: however long ago that was.
    pub(crate) last_failures: BTreeMap<Box<str>, Arc<BackupRow>>,
}

/// How many backups ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Endings {
    pub(crate) good: usize,
    pub(crate) partly: usize,
    pub(crate) failed: usize,
}

impl Endings {
    /// The figure that counts backups of a phase; none where it is no ending.
    fn of(&mut self, phase: &str) -> Option<&mut usize> {
        match phase {
            "Completed" => Some(&mut self.good),
            "PartiallyFailed" => Some(&mut self.partly),
            "Failed" | "FailedValidation" => Some(&mut self.failed),
            _ => None,
        }
    }
}

impl BackupDigest {
    /// How backups ended that were begun since a moment, to the minute.
    pub(crate) fn since(&self, moment: Timestamp) -> Endings {
        let mut sum = Endings::default();
        for endings in self.by_minute.range(minute_of(moment)..).map(|(_, endings)| endings) {
            sum.good += endings.good;
            sum.partly += endings.partly;
            sum.failed += endings.failed;
        }
        sum
    }

    /// Finds out anew how the last backup of a schedule ended.
    fn look_at_last(&mut self, schedule: &str) {
        let last = self.by_schedule.get(schedule).and_then(|ended| ended.iter().next());
        match last.filter(|row| is_failure(&row.phase)) {
            Some(row) => self.last_failures.insert(schedule.into(), Arc::clone(row)),
            None => self.last_failures.remove(schedule),
        };
    }
}

impl Dated for BackupRow {
    fn name(&self) -> &str {
        &self.name
    }

    fn created(&self) -> Option<Timestamp> {
        self.run.created
    }
}

impl RowDigest<BackupRow> for BackupDigest {
    fn add(&mut self, row: &Arc<BackupRow>) {
        self.newest.add(row);
        if row.run.is_under_way {
            self.under_way.add(row);
        }
        if is_failure(&row.phase) {
            self.failures.add(row);
        }
        if !row.schedule.is_empty() && has_ended(&row.phase) {
            self.by_schedule.entry(row.schedule.clone()).or_default().add(row);
            self.look_at_last(&row.schedule);
        }
        if let Some(created) = row.run.created {
            let endings = self.by_minute.entry(minute_of(created)).or_default();
            if let Some(count) = endings.of(&row.phase) {
                *count += 1;
            }
        }
    }

    fn remove(&mut self, row: &Arc<BackupRow>) {
        self.newest.remove(row);
        self.under_way.remove(row);
        self.failures.remove(row);
        if let Some(ended) = self.by_schedule.get_mut(&row.schedule) {
            ended.remove(row);
            if ended.len() == 0 {
                self.by_schedule.remove(&row.schedule);
            }
            self.look_at_last(&row.schedule);
        }
        let Some(minute) = row.run.created.map(minute_of) else { return };
        let Some(endings) = self.by_minute.get_mut(&minute) else { return };
        if let Some(count) = endings.of(&row.phase) {
            *count = count.saturating_sub(1);
        }
        if *endings == Endings::default() {
            self.by_minute.remove(&minute);
        }
    }
}

/// All restores, as the first page tells of them.
#[derive(Default)]
pub(crate) struct RestoreDigest {
    /// Those in which something went wrong.
    pub(crate) failures: Newest<RestoreRow>,
}

impl Dated for RestoreRow {
    fn name(&self) -> &str {
        &self.name
    }

    fn created(&self) -> Option<Timestamp> {
        self.run.created
    }
}

impl RowDigest<RestoreRow> for RestoreDigest {
    fn add(&mut self, row: &Arc<RestoreRow>) {
        if is_failure(&row.phase) {
            self.failures.add(row);
        }
    }

    fn remove(&mut self, row: &Arc<RestoreRow>) {
        self.failures.remove(row);
    }
}

fn is_failure(phase: &str) -> bool {
    matches!(phase, "Failed" | "PartiallyFailed" | "FailedValidation")
}

fn has_ended(phase: &str) -> bool {
    phase == "Completed" || is_failure(phase)
}

fn minute_of(moment: Timestamp) -> i64 {
    moment.as_second().div_euclid(MINUTE)
}

/// How many bytes of volumes backups have saved. What tells of a volume belongs to its backup, and goes with it.
#[derive(Default)]
pub(crate) struct SavedBytes {
    /// How many volumes with how many bytes, by the value of the label that names the backup. What others write is never too
    /// much for the sum.
    by_backup: BTreeMap<String, (usize, u128)>,
    total: u128,
    /// The volumes that are not complete.
    moves: Moves,
}

impl SavedBytes {
    /// What one backup has saved, by the value of the label that names it; nothing where it has saved no volume.
    pub(crate) fn of(&self, backup: &str) -> Option<u64> {
        self.by_backup.get(backup).map(|(_, bytes)| bounded(*bytes))
    }

    /// What all of them have saved.
    pub(crate) fn total(&self) -> u64 {
        bounded(self.total)
    }

    /// What is on its way.
    pub(crate) fn moves(&self) -> &Moves {
        &self.moves
    }

    fn take_in(&mut self, volume: &VolumeFact) {
        if !volume.is_complete {
            return self.moves.take_in(&volume.backup);
        }
        let (count, bytes) = self.by_backup.entry(volume.backup.clone()).or_default();
        *count += 1;
        *bytes += u128::from(volume.bytes);
        self.total += u128::from(volume.bytes);
    }

    fn take_out(&mut self, volume: &VolumeFact) {
        if !volume.is_complete {
            return self.moves.take_out(&volume.backup);
        }
        let Some((count, bytes)) = self.by_backup.get_mut(&volume.backup) else { return };
        *count = count.saturating_sub(1);
        *bytes = bytes.saturating_sub(u128::from(volume.bytes));
        self.total = self.total.saturating_sub(u128::from(volume.bytes));
        if *count == 0 {
            self.by_backup.remove(&volume.backup);
        }
    }
}

fn bounded(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl RowDigest<CopyRow> for SavedBytes {
    fn add(&mut self, row: &Arc<CopyRow>) {
        self.take_in(&row.0);
    }

    fn remove(&mut self, row: &Arc<CopyRow>) {
        self.take_out(&row.0);
    }
}

impl RowDigest<UploadRow> for SavedBytes {
    fn add(&mut self, row: &Arc<UploadRow>) {
        self.take_in(&row.0);
    }

    fn remove(&mut self, row: &Arc<UploadRow>) {
        self.take_out(&row.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Kept;
    use crate::rows::Run;

    fn backup(name: &str, phase: &str, created: i64) -> BackupRow {
        let run = Run {
            created: Timestamp::from_second(created).ok(),
            is_under_way: phase == "InProgress",
            ..Run::default()
        };
        BackupRow { name: name.into(), phase: phase.into(), run, ..BackupRow::default() }
    }

    fn names(rows: &Newest<BackupRow>) -> Vec<String> {
        rows.iter().map(|row| row.name.to_string()).collect()
    }

    #[test]
    fn backups_are_counted_and_found_newest_first_whatever_becomes_of_them() {
        let mut kept = Kept::<BackupRow>::default();
        let mut put = |row: BackupRow| kept.put(row.name.to_string(), Some(row));
        put(backup("old", "Completed", 30));
        put(backup("b", "InProgress", 300));
        put(backup("a", "Failed", 300));
        put(backup("c", "PartiallyFailed", 200));
        // One ends, one begins anew, one is gone.
        put(backup("b", "Completed", 300));
        put(backup("c", "InProgress", 400));
        kept.put("a".to_owned(), None);
        let digest = kept.digest();
        assert_eq!(names(&digest.newest), ["c", "b", "old"]);
        assert_eq!((names(&digest.under_way), names(&digest.failures)), (vec!["c".to_owned()], Vec::new()));
        let since = |second| digest.since(Timestamp::from_second(second).unwrap());
        assert_eq!(since(0), Endings { good: 2, ..Endings::default() });
        assert_eq!(since(59), since(0), "to the minute");
        assert_eq!(since(60), Endings { good: 1, ..Endings::default() });
        assert_eq!(digest.newest.len(), kept.rows().len());
    }

    #[test]
    fn of_each_schedule_the_last_backup_that_has_ended_is_known_if_it_is_no_good() {
        let mut kept = Kept::<BackupRow>::default();
        let of = |name: &str, phase: &str, created: i64| {
            let row = BackupRow { schedule: "daily".into(), ..backup(name, phase, created) };
            (name.to_owned(), Some(row))
        };
        let gone = |name: &str| (name.to_owned(), None);
        for ((name, row), expected) in [
            (("by-hand".to_owned(), Some(backup("by-hand", "Failed", 90))), None),
            (of("a", "Failed", 10), Some("a")),
            (of("b", "InProgress", 20), Some("a")),
            (of("b", "PartiallyFailed", 20), Some("b")),
            (of("c", "Completed", 30), None),
            (gone("c"), Some("b")),
            (of("b", "Completed", 20), None),
            (gone("b"), Some("a")),
            (gone("a"), None),
        ] {
            kept.put(name.clone(), row);
            let found = kept.digest().last_failures.get("daily").map(|row| row.name.to_string());
            assert_eq!(found.as_deref(), expected, "after {name}");
        }
        assert!(kept.digest().by_schedule.is_empty() && kept.digest().last_failures.is_empty());
    }

    #[test]
    fn restores_in_which_something_went_wrong_are_found_newest_first() {
        let mut kept = Kept::<RestoreRow>::default();
        for (name, phase, created) in
            [("a", "Failed", 10), ("b", "Completed", 20), ("c", "InProgress", 30), ("c", "PartiallyFailed", 30)]
        {
            let run = Run { created: Timestamp::from_second(created).ok(), ..Run::default() };
            let row = RestoreRow { name: name.into(), phase: phase.into(), run, ..RestoreRow::default() };
            kept.put(name.to_owned(), Some(row));
        }
        let names = |kept: &Kept<RestoreRow>| -> Vec<String> {
            kept.digest().failures.iter().map(|row| row.name.to_string()).collect()
        };
        assert_eq!(names(&kept), ["c", "a"]);
        kept.put("c".to_owned(), None);
        assert_eq!(names(&kept), ["a"]);
    }

    #[test]
    fn nothing_is_left_of_backups_that_are_gone() {
        let mut kept = Kept::<BackupRow>::default();
        for phase in ["New", "InProgress", "Failed", "Completed", "Deleting"] {
            kept.put("a".to_owned(), Some(backup("a", phase, 10)));
        }
        kept.put("a".to_owned(), None);
        kept.put("never-there".to_owned(), None);
        let digest = kept.digest();
        assert_eq!((digest.newest.len(), digest.under_way.len(), digest.failures.len()), (0, 0, 0));
        assert!(digest.by_minute.is_empty() && kept.rows().is_empty());
    }

    #[test]
    fn bytes_are_those_of_volumes_that_are_there_and_complete() {
        let mut kept = Kept::<CopyRow>::default();
        let mut put = |name: &str, bytes: u64, is_complete: bool| {
            let fact = VolumeFact { backup: "daily".to_owned(), bytes, is_complete };
            kept.put(name.to_owned(), Some(CopyRow(fact)));
        };
        put("a", 5, true);
        put("b", 7, false);
        put("b", 9, true);
        put("c", u64::MAX, true);
        assert_eq!((kept.digest().of("daily"), kept.digest().total()), (Some(u64::MAX), u64::MAX));
        kept.put("c".to_owned(), None);
        assert_eq!((kept.digest().of("daily"), kept.digest().total()), (Some(14), 14));
        for name in ["a", "b"] {
            kept.put(name.to_owned(), None);
        }
        assert_eq!((kept.digest().of("daily"), kept.digest().total()), (None, 0));
    }
}

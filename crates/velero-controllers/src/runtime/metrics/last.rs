//! How the newest backup of each schedule ended.

use std::collections::{HashMap, HashSet};

use velero_api::v1::Backup;

/// What the last status of each schedule comes from.
#[derive(Default)]
pub(super) struct Last {
    /// The schedules that exist.
    pub(super) schedules: HashSet<String>,
    /// How the newest backup of each ended: when, in seconds of Unix time, and what the metric says of it.
    pub(super) ends: HashMap<String, (i64, f64)>,
}

impl Last {
    /// Notes how a backup ended, unless a newer one is known; gives what the metric says then.
    pub(super) fn note(&mut self, schedule: &str, backup: &Backup) -> Option<f64> {
        let status = &backup.status;
        let good = if status.phase().ending()?.is_good() { 1.0 } else { 0.0 };
        // A backup that is refused has no times of its own.
        let times = [&status.completion_timestamp, &status.start_timestamp, &backup.metadata.creation_timestamp];
        let ended = times.into_iter().flatten().next().map_or(0, |time| time.0.as_second());
        // Times are whole seconds: of two ends in one, the worse counts, so that no failure is overlooked.
        let is_newest = self.ends.get(schedule).is_none_or(|(known, was)| (*known, -was) <= (ended, -good));
        if is_newest {
            self.ends.insert(schedule.to_owned(), (ended, good));
        }
        is_newest.then_some(good)
    }
}

//! What a report says. Its JSON is read by scripts: fields are added, never renamed.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;

/// What was protected, what failed, and what nobody covers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The namespace of the server.
    pub server_namespace: String,
    /// From when on.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// The whole in figures.
    pub summary: Summary,
    /// The schedules, by name.
    pub schedules: Vec<ScheduleRow>,
    /// What did not complete, newest first.
    pub failures: Vec<FailureRow>,
    /// The namespaces, those without a schedule first.
    pub namespaces: Vec<NamespaceRow>,
    /// Claims whose data no schedule saves.
    pub claims_not_covered: Vec<ClaimRow>,
    /// Day by day.
    pub days: Vec<Day>,
    /// The locations, by name.
    pub locations: Vec<LocationRow>,
    /// What could not be seen: the report says nothing about it.
    pub not_seen: Vec<String>,
}

/// The whole in figures. What could not be seen is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Backups that were made.
    pub backups: usize,
    /// Those that completed.
    pub completed: usize,
    /// Those with errors on single items.
    pub partially_failed: usize,
    /// Those that failed, or were refused.
    pub failed: usize,
    /// Those that have not ended.
    pub unfinished: usize,
    /// Runs that schedules asked for.
    pub runs_expected: usize,
    /// Runs that were left out on purpose.
    pub runs_skipped: usize,
    /// Runs of which there is no backup.
    pub runs_missed: usize,
    /// Restores that were made.
    pub restores: usize,
    /// Those that completed.
    pub restores_completed: usize,
    /// Items in all backups that can be restored.
    pub items: i64,
    /// Bytes of volumes that were moved or copied.
    pub bytes: u64,
    /// Namespaces, without those of Kubernetes and of the server.
    pub namespaces: Option<usize>,
    /// Those that no schedule covers.
    pub namespaces_not_covered: Option<usize>,
    /// Claims.
    pub claims: Option<usize>,
    /// Those whose data no schedule saves.
    pub claims_not_covered: Option<usize>,
}

/// What became of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleRow {
    /// Its name.
    pub name: String,
    /// When it makes backups.
    pub schedule: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Why it makes none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub problem: String,
    /// Runs it asked for.
    pub expected: usize,
    /// Runs that were left out on purpose: paused, or skipped as asked for.
    pub skipped: usize,
    /// Runs of which there is no backup.
    pub missed: usize,
    /// Backups that completed.
    pub completed: usize,
    /// Backups with errors on single items.
    pub partially_failed: usize,
    /// Backups that failed.
    pub failed: usize,
    /// Backups that have not ended.
    pub unfinished: usize,
    /// When the last good backup ended, whenever that was.
    pub last_good: Option<Timestamp>,
    /// When the next one is due.
    pub next: Option<Timestamp>,
    /// Its good backups, oldest first.
    pub history: Vec<Point>,
}

/// A good backup in figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// Its name.
    pub backup: String,
    /// When it ended.
    pub ended: Timestamp,
    /// How many items it has.
    pub items: i64,
    /// Bytes of volumes that were moved or copied for it.
    pub bytes: u64,
    /// How long it took.
    pub seconds: i64,
}

/// A backup or restore that did not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureRow {
    /// `backup` or `restore`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The schedule that made it; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    /// Its phase.
    pub phase: String,
    /// When it ended, or was made.
    pub when: Option<Timestamp>,
    /// How many errors it has.
    pub errors: i64,
    /// How many warnings it has.
    pub warnings: i64,
    /// Why, as far as its status says.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// How a namespace is protected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRow {
    /// Its name.
    pub name: String,
    /// The schedules that take it.
    pub schedules: Vec<String>,
    /// Whether selectors or lists of resources leave out part of it in all of them.
    pub in_part: bool,
    /// Whether it belongs to Kubernetes or to the server.
    pub system: bool,
    /// Whether its label leaves it out of backups.
    pub left_out: bool,
    /// The newest backup that completed and took the whole of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<String>,
    /// When that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_good: Option<Timestamp>,
}

/// A claim whose data no schedule saves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Why not.
    pub why: &'static str,
}

/// A day of UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Day {
    /// Which one.
    pub date: Date,
    /// Backups that completed.
    pub completed: usize,
    /// Backups with errors on single items.
    pub partially_failed: usize,
    /// Backups that failed.
    pub failed: usize,
    /// Items of those that can be restored.
    pub items: i64,
    /// Bytes of volumes that were moved or copied.
    pub bytes: u64,
    /// How long they took together.
    pub seconds: i64,
}

/// A location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocationRow {
    /// Its name.
    pub name: String,
    /// Whether it can be used.
    pub available: bool,
    /// Why not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Report {
    /// Whether nothing asks for somebody's attention, as far as can be seen.
    pub fn is_well(&self) -> bool {
        let Summary { partially_failed, failed, runs_missed, .. } = &self.summary;
        let nothing = |count: Option<usize>| count.unwrap_or_default() == 0;
        partially_failed + failed + runs_missed == 0
            && nothing(self.summary.namespaces_not_covered)
            && nothing(self.summary.claims_not_covered)
            && self.locations.iter().all(|location| location.available)
            && self.schedules.iter().all(|schedule| schedule.problem.is_empty())
            && self.not_seen.is_empty()
    }
}

/// Bytes for people.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// A length of time for people.
pub fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (0, hours, minutes, _) => format!("{hours}h{minutes}m"),
        (days, hours, ..) => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_times_are_short() {
        for (bytes, expected) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 << 20, "1.5 GiB"), (u64::MAX, "16.0 EiB")]
        {
            assert_eq!(bytes_text(bytes), expected);
        }
        for (seconds, expected) in [(0, "0s"), (61, "1m1s"), (7260, "2h1m"), (90_000, "1d1h")] {
            assert_eq!(time_text(Duration::from_secs(seconds)), expected);
        }
    }
}

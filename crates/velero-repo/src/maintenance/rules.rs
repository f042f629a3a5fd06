//! The rules of maintenance. Pure: every one is a function of times, entries and the history.

use std::collections::HashMap;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};

use super::schedule::{NextTimes, Schedule};
use super::{COLLECT, DELETE_PACKS, DELETE_PACKS_QUICK, Mode, REWRITE, REWRITE_QUICK};
use crate::index::ContentEntry;
use crate::repository::{LogRetention, MaintenanceCycle, MaintenanceParameters};
use crate::store::BlobInfo;
use crate::{blob_name, manifest};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
/// How far the clocks of the store and of this machine may be apart.
pub(super) const MOST_SKEW: i64 = 5 * MINUTE;
/// How long the maintenance of somebody else keeps us away.
const OTHERS: i64 = HOUR;
/// Younger contents are not moved: their writer may still be at work.
const REWRITE_AGE: i64 = 2 * HOUR;
/// Younger contents are not marked as deleted: the manifest that needs them may come.
const COLLECT_AGE: i64 = 24 * HOUR;
/// Two collections must be so far apart before what the first marked is dropped.
const BETWEEN_COLLECTIONS: i64 = 4 * HOUR;
/// And this much before the first one began.
const DROP_MARGIN: i64 = HOUR;
/// Younger packs stay.
const PACK_AGE: i64 = 24 * HOUR;
/// Packs of a session stay so long after its last word.
const SESSION_AGE: i64 = 96 * HOUR;
/// Packs stay so long after contents were moved: readers know the old places.
const AFTER_REWRITE: i64 = HOUR;
/// Below this share of the pack size a pack is short.
const SHORT_PERCENT: u64 = 60;

/// Seconds from a time to another, negative when that is earlier; never overflows.
fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second().saturating_sub(from.as_second())
}

fn plus(time: Timestamp, nanoseconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_nanos(nanoseconds)).unwrap_or(Timestamp::MAX)
}

/// The time of a blob.
pub(super) fn time_of(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What is due by the schedule.
pub(super) fn due(schedule: &Schedule, parameters: &MaintenanceParameters, now: Timestamp) -> Option<Mode> {
    if parameters.full.enabled && now >= schedule.next_full {
        return Some(Mode::Full);
    }
    (parameters.quick.enabled && now >= schedule.next_quick).then_some(Mode::Quick)
}

/// When somebody else began a maintenance less than an hour ago: the next times tell when they were set.
pub(super) fn begun_by_others(
    schedule: &Schedule,
    parameters: &MaintenanceParameters,
    now: Timestamp,
    ours: Option<NextTimes>,
) -> Option<Timestamp> {
    if ours == Some(schedule.next()) {
        return None;
    }
    let begun = |next: Timestamp, cycle: &MaintenanceCycle| plus(next, cycle.interval.saturating_neg());
    [begun(schedule.next_full, &parameters.full), begun(schedule.next_quick, &parameters.quick)]
        .into_iter()
        .filter(|begun| (-MOST_SKEW..OTHERS).contains(&seconds(*begun, now)))
        .max()
}

/// The next times once a maintenance has begun.
pub(super) fn next_times(
    schedule: &Schedule,
    parameters: &MaintenanceParameters,
    mode: Mode,
    now: Timestamp,
) -> NextTimes {
    let quick = plus(now, parameters.quick.interval);
    match mode {
        Mode::Quick => NextTimes { full: schedule.next_full, quick },
        Mode::Full => NextTimes { full: plus(now, parameters.full.interval), quick },
    }
}

/// Whether two clocks are too far apart for ages to mean anything.
pub(super) fn is_skewed(store: Timestamp, local: Timestamp) -> bool {
    seconds(store, local).abs() > MOST_SKEW
}

/// What a collection does with a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Collected {
    /// It holds manifests, which collect themselves.
    System,
    /// A snapshot needs it.
    InUse,
    /// A snapshot needs it and it is marked as deleted.
    Undelete,
    /// No snapshot needs it yet.
    TooRecent,
    /// No snapshot needs it.
    Delete,
}

/// What a collection that began at a time does with a content.
pub(super) fn collected(entry: &ContentEntry, is_live: bool, start: Timestamp) -> Collected {
    match (entry.id.prefix() == Some(manifest::PREFIX), is_live) {
        (true, _) => Collected::System,
        (false, true) if entry.deleted => Collected::Undelete,
        (false, true) => Collected::InUse,
        (false, false) if start.as_second() - i64::from(entry.timestamp) < COLLECT_AGE => Collected::TooRecent,
        (false, false) => Collected::Delete,
    }
}

/// Whether contents may be moved: packs must have been deleted since they last were.
pub(super) fn may_rewrite(schedule: &Schedule) -> bool {
    let deleted = schedule.last_end(DELETE_PACKS).max(schedule.last_end(DELETE_PACKS_QUICK));
    schedule.last_end(REWRITE).is_none_or(|rewritten| deleted.is_some_and(|deleted| deleted >= rewritten))
}

/// Whether a content of a short pack may be moved.
pub(super) fn is_old_enough_to_rewrite(entry: &ContentEntry, now: Timestamp) -> bool {
    now.as_second() - i64::from(entry.timestamp) >= REWRITE_AGE
}

/// Which packs are short, by number; the only short one of its kind is left alone.
pub(super) fn short_packs<'a>(packs: impl Iterator<Item = (&'a str, u64)> + Clone, max_pack_size: u64) -> Vec<bool> {
    let is_short = |used: u64| used > 0 && used < max_pack_size * SHORT_PERCENT / 100;
    let mut kinds: HashMap<Option<char>, u64> = HashMap::new();
    for (name, _) in packs.clone().filter(|(_, used)| is_short(*used)) {
        *kinds.entry(name.chars().next()).or_default() += 1;
    }
    let has_others = |name: &str| kinds.get(&name.chars().next()).is_some_and(|count| *count > 1);
    packs.map(|(name, used)| is_short(used) && has_others(name)).collect()
}

/// Up to when deleted entries may be dropped: an hour before a collection that ended four hours before the latest began.
pub(super) fn safe_drop_time(schedule: &Schedule) -> Option<Timestamp> {
    let mut runs: Vec<_> = schedule.successes(COLLECT).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.start));
    let (latest, earlier) = runs.split_first()?;
    let safe = earlier.iter().find(|run| seconds(run.end, latest.start) > BETWEEN_COLLECTIONS)?;
    safe.start.checked_sub(SignedDuration::from_secs(DROP_MARGIN)).ok()
}

/// Whether packs may be deleted: readers have had an hour to learn where contents went.
pub(super) fn may_delete_packs(schedule: &Schedule, now: Timestamp) -> bool {
    let rewritten = schedule.last_end(REWRITE).max(schedule.last_end(REWRITE_QUICK));
    rewritten.is_none_or(|rewritten| seconds(rewritten, now) >= AFTER_REWRITE)
}

/// What becomes of a pack or session marker that no index names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its name is not one we know.
    Unknown,
    /// It is too young.
    Young,
    /// Its session is alive.
    InSession,
    /// It goes.
    Delete,
}

/// What becomes of a pack or session marker that no index names; sessions with the time of their last word.
pub(super) fn fate(blob: &BlobInfo, sessions: &HashMap<String, Timestamp>, start: Timestamp) -> Fate {
    let session = blob_name::session_in(&blob.id).filter(|_| is_pack_or_marker(&blob.id));
    let Some(session) = session else { return Fate::Unknown };
    if seconds(time_of(blob.modified), start) < PACK_AGE {
        return Fate::Young;
    }
    match sessions.get(session) {
        Some(last_word) if seconds(*last_word, start) < SESSION_AGE => Fate::InSession,
        _ => Fate::Delete,
    }
}

/// A letter, 32 digits, a dash and a session.
fn is_pack_or_marker(name: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|letter| matches!(letter, b'0'..=b'9' | b'a'..=b'f'));
    let Some((before, session)) = name.split_once('-') else { return false };
    before.len() == 33
        && before.starts_with(['p', 'q', 's'])
        && digits(&before[1..])
        && session.strip_prefix('s').is_some_and(|rest| rest.len() >= 16 && digits(rest))
}

/// How many logs stay, of logs with the newest first.
pub(super) fn logs_that_stay(logs: &[BlobInfo], retention: &LogRetention, now: Timestamp) -> usize {
    let none = *retention == LogRetention::default();
    let standard = MaintenanceParameters::of_velero(std::time::Duration::ZERO).log_retention;
    let limit = if none { &standard } else { retention };
    let mut bytes = 0_u64;
    let stays = |(number, log): &(usize, &BlobInfo)| {
        bytes = bytes.saturating_add(log.size);
        let over = |limit: i64, value: u64| limit > 0 && value > limit.unsigned_abs();
        let age = seconds(time_of(log.modified), now).max(0).unsigned_abs().saturating_mul(1_000_000_000);
        !over(limit.max_total_size, bytes) && !over(limit.max_count, *number as u64 + 1) && !over(limit.max_age, age)
    };
    logs.iter().enumerate().take_while(stays).count()
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;

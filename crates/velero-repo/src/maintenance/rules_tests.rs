use std::time::Duration;

use super::*;
use crate::content_id::ContentId;
use crate::maintenance::Run;

const DAY: i64 = 24 * HOUR;
const SESSION: &str = "sfc2defdaab67c819147";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn parameters() -> MaintenanceParameters {
    MaintenanceParameters::of_velero(Duration::from_secs(24 * 3600))
}

fn schedule(next_full: i64, next_quick: i64) -> Schedule {
    Schedule { next_full: at(next_full), next_quick: at(next_quick), ..Schedule::default() }
}

fn with_runs(runs: &[(&str, i64, i64, bool)]) -> Schedule {
    let mut schedule = Schedule::default();
    for (task, start, end, success) in runs {
        let (start, end) = (at(*start), at(*end));
        schedule.add(task, Run { start, end, success: *success, error: String::new(), extra: Vec::new() });
    }
    schedule
}

fn entry(prefix: Option<char>, age: i64, deleted: bool) -> ContentEntry {
    ContentEntry {
        id: prefix.map_or(ContentId::data([1; 16]), |letter| ContentId::with_prefix(letter, [1; 16]).unwrap()),
        timestamp: u32::try_from(at(-age).as_second()).unwrap(),
        deleted,
        pack: 0,
        offset: 0,
        packed_length: 1,
        original_length: 1,
        compression: 0,
        format_version: 3,
        key_id: 0,
    }
}

fn blob(id: &str, age: i64) -> BlobInfo {
    BlobInfo { id: id.to_owned(), size: 10, modified: at(-age).into() }
}

#[test]
fn what_is_due_is_done_full_before_quick() {
    let mut without_full = parameters();
    without_full.full.enabled = false;
    for (full, quick, parameters, expected) in [
        (0, 0, parameters(), Some(Mode::Full)),
        (1, 0, parameters(), Some(Mode::Quick)),
        (1, 1, parameters(), None),
        (0, 1, parameters(), Some(Mode::Full)),
        (0, 1, without_full, None),
    ] {
        assert_eq!(due(&schedule(full, quick), &parameters, at(0)), expected);
    }
    assert_eq!(due(&Schedule::default(), &parameters(), at(0)), Some(Mode::Full), "never maintained");
}

#[test]
fn the_next_times_tell_whether_somebody_else_began_less_than_an_hour_ago() {
    let begun = |full: i64, quick: i64, ours: Option<NextTimes>| {
        begun_by_others(&schedule(full, quick), &parameters(), at(0), ours)
            .map(|time| time.as_second() - at(0).as_second())
    };
    assert_eq!(begun(-HOUR, 0, None), None, "an hour ago");
    assert_eq!(begun(-HOUR, 1, None), Some(1 - HOUR));
    assert_eq!(begun(DAY - 60, -HOUR, None), Some(-60));
    assert_eq!(begun(DAY + 60, -HOUR, None), Some(60), "by a clock that is a little ahead");
    assert_eq!(begun(9 * DAY, 9 * DAY, None), None, "set by hand");
    assert_eq!(begun(-HOUR, 1, Some(schedule(-HOUR, 1).next())), None, "it was us");
    assert_eq!(begun_by_others(&Schedule::default(), &parameters(), at(0), None), None);
    let next = next_times(&schedule(7, 7), &parameters(), Mode::Quick, at(0));
    assert_eq!(next, NextTimes { full: at(7), quick: at(HOUR) });
    assert_eq!(
        next_times(&schedule(7, 7), &parameters(), Mode::Full, at(0)),
        NextTimes { full: at(DAY), quick: at(HOUR) }
    );
}

#[test]
fn clocks_may_be_five_minutes_apart() {
    for (seconds, expected) in [(0, false), (300, false), (-300, false), (301, true), (-301, true)] {
        assert_eq!(is_skewed(at(seconds), at(0)), expected, "{seconds}");
    }
}

#[test]
fn contents_are_collected_when_no_snapshot_needs_them_for_a_day() {
    for (prefix, age, deleted, is_live, expected) in [
        (Some('m'), 9 * DAY, true, false, Collected::System),
        (None, 9 * DAY, false, true, Collected::InUse),
        (None, 0, true, true, Collected::Undelete),
        (Some('k'), DAY - 1, false, false, Collected::TooRecent),
        (Some('k'), DAY, false, false, Collected::Delete),
        (None, DAY - 1, true, false, Collected::TooRecent),
        (None, -DAY, false, false, Collected::TooRecent),
    ] {
        assert_eq!(collected(&entry(prefix, age, deleted), is_live, at(0)), expected, "{prefix:?} {age} {deleted}");
    }
    assert!(is_old_enough_to_rewrite(&entry(None, 2 * HOUR, false), at(0)));
    assert!(!is_old_enough_to_rewrite(&entry(None, 2 * HOUR - 1, false), at(0)));
}

#[test]
fn contents_are_moved_once_packs_were_deleted_since_and_packs_an_hour_after_contents_moved() {
    for (runs, rewrite, delete) in [
        (&[][..], true, true),
        (&[(REWRITE, -DAY, -DAY, true)], false, true),
        (&[(REWRITE, -DAY, -DAY, true), (DELETE_PACKS, -HOUR, -HOUR, false)], false, true),
        (&[(REWRITE, -DAY, -DAY, true), (DELETE_PACKS, -HOUR, -HOUR, true)], true, true),
        (&[(REWRITE, -HOUR, -HOUR, true), (DELETE_PACKS, -DAY, -DAY, true)], false, true),
        (&[(REWRITE, -HOUR, 1 - HOUR, true)], false, false),
        (&[(REWRITE, -HOUR, 1 - HOUR, false)], true, true),
        (&[(REWRITE_QUICK, -HOUR, 1 - HOUR, true)], true, false),
    ] {
        let schedule = with_runs(runs);
        assert_eq!((may_rewrite(&schedule), may_delete_packs(&schedule, at(0))), (rewrite, delete), "{runs:?}");
    }
}

#[test]
fn what_two_collections_four_hours_apart_agree_on_is_dropped() {
    for (runs, expected) in [
        (&[][..], None),
        (&[(COLLECT, 0, 10, true)], None),
        (&[(COLLECT, -4 * HOUR - 20, -4 * HOUR, true), (COLLECT, 0, 10, true)], None),
        (&[(COLLECT, -4 * HOUR - 20, -4 * HOUR - 1, true), (COLLECT, 0, 10, true)], Some(-5 * HOUR - 20)),
        (&[(COLLECT, -4 * HOUR - 20, -4 * HOUR - 1, false), (COLLECT, 0, 10, true)], None),
        (
            &[(COLLECT, -9 * HOUR, -9 * HOUR, true), (COLLECT, -HOUR, -HOUR, true), (COLLECT, 0, 10, true)],
            Some(-10 * HOUR),
        ),
    ] {
        assert_eq!(safe_drop_time(&with_runs(runs)), expected.map(at), "{runs:?}");
    }
}

#[test]
fn packs_go_when_they_are_a_day_old_and_their_session_is_over() {
    let pack = format!("p{}-{SESSION}", "0a".repeat(16));
    let marker = format!("s{}-{SESSION}", "0a".repeat(16));
    let none = HashMap::new();
    let alive = HashMap::from([(SESSION.to_owned(), at(1 - 96 * HOUR))]);
    let over = HashMap::from([(SESSION.to_owned(), at(-96 * HOUR))]);
    for (name, age, sessions, expected) in [
        (&pack, DAY, &none, Fate::Delete),
        (&pack, DAY - 1, &none, Fate::Young),
        (&pack, -DAY, &none, Fate::Young),
        (&pack, 9 * DAY, &alive, Fate::InSession),
        (&pack, 9 * DAY, &over, Fate::Delete),
        (&marker, 9 * DAY, &alive, Fate::InSession),
        (&marker, 9 * DAY, &over, Fate::Delete),
    ] {
        assert_eq!(fate(&blob(name, age), sessions, at(0)), expected, "{name} {age}");
    }
    for unknown in ["p", "secret", "pictures-s1", "q0a-sfc2defdaab67c819147", &pack.replace("0a", "0A"), &pack[1..]] {
        assert_eq!(fate(&blob(unknown, 9 * DAY), &none, at(0)), Fate::Unknown, "{unknown}");
    }
}

#[test]
fn short_packs_are_those_below_sixty_percent_unless_alone_of_their_kind() {
    for (packs, expected) in [
        (&[("p1", 59), ("q1", 59)][..], &[false, false][..]),
        (&[("p1", 59), ("p2", 60), ("q1", 1)], &[false, false, false]),
        (&[("p1", 59), ("p2", 1), ("q1", 1), ("p3", 99)], &[true, true, false, false]),
        (&[("p1", 0), ("p2", 1)], &[false, false]),
    ] {
        assert_eq!(short_packs(packs.iter().copied(), 100), expected, "{packs:?}");
    }
}

#[test]
fn logs_beyond_size_count_or_age_go() {
    let logs: Vec<_> = (0..5).map(|day| blob("_log_", day * DAY)).collect();
    let limits = |max_total_size, max_count, max_age| LogRetention {
        max_total_size,
        max_count,
        max_age: max_age * DAY * 1_000_000_000,
    };
    for (limits, expected) in [
        (limits(0, 0, 0), 5),
        (limits(1, 0, 0), 0),
        (limits(25, 0, 0), 2),
        (limits(0, 3, 0), 3),
        (limits(0, 0, 2), 3),
        (limits(1000, 1000, 1000), 5),
    ] {
        assert_eq!(logs_that_stay(&logs, &limits, at(0)), expected, "{limits:?}");
    }
}

//! The runs a schedule asked for, and what became of them.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use velero_rules::cron::CronSchedule;

/// A run that is younger may not have begun.
const GRACE: Duration = Duration::from_secs(600);
/// A schedule that asks for more is counted no further: every minute for half a year.
const MOST: usize = 262_800;

/// What is known of a schedule in the time that counts.
pub(crate) struct History<'a> {
    /// From when on runs are expected.
    pub(crate) from: Timestamp,
    /// Now.
    pub(crate) now: Timestamp,
    /// When its backups were made, in order.
    pub(crate) made: &'a [Timestamp],
    /// When a run was left out because somebody asked for it.
    pub(crate) last_skipped: Option<Timestamp>,
    /// Whether it is paused now; since when is not known, but not before its last backup.
    pub(crate) paused: bool,
}

/// How many runs there were of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) expected: usize,
    pub(crate) skipped: usize,
    pub(crate) missed: usize,
}

/// Counts the runs of a schedule. A run was made if there is a backup from its moment on, before the next run.
pub(crate) fn count(cron: &CronSchedule, history: &History<'_>) -> Runs {
    let next = |after: Timestamp| cron.next(after, &TimeZone::UTC).filter(|next| *next < history.now);
    // A run at the very beginning counts, too.
    let before = history.from.checked_sub(Duration::from_secs(1)).unwrap_or(history.from);
    let mut runs = Runs::default();
    let mut run = next(before);
    while let Some(moment) = run.filter(|_| runs.expected < MOST) {
        run = next(moment).filter(|following| *following > moment);
        let end = run.unwrap_or(history.now);
        let is_within = |time: &Timestamp| moment <= *time && *time < end;
        let first = history.made.partition_point(|made| *made < moment);
        let is_made = history.made.get(first).is_some_and(|made| *made < end || run.is_none());
        if !is_made && history.now.duration_since(moment).unsigned_abs() < GRACE {
            continue;
        }
        runs.expected += 1;
        let is_skipped = history.last_skipped.as_ref().is_some_and(is_within)
            || (history.paused && history.made.last().is_none_or(|made| *made < moment));
        match (is_made, is_skipped) {
            (true, _) => {}
            (false, true) => runs.skipped += 1,
            (false, false) => runs.missed += 1,
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-03-{text}:00Z").parse().unwrap()
    }

    fn counted(cron: &str, made: &[&str], last_skipped: Option<&str>, paused: bool) -> (usize, usize, usize) {
        let made: Vec<Timestamp> = made.iter().map(|text| at(text)).collect();
        let (from, now) = (at("01T00:00"), at("08T00:00"));
        let history = History { from, now, made: &made, last_skipped: last_skipped.map(at), paused };
        let runs = count(&CronSchedule::parse(cron).unwrap(), &history);
        (runs.expected, runs.skipped, runs.missed)
    }

    #[test]
    fn a_run_was_made_if_there_is_a_backup_before_the_next_one() {
        let all = ["01T03:00", "02T03:01", "03T05:00", "04T03:00", "05T03:00", "06T03:00", "07T03:00"];
        assert_eq!(counted("0 3 * * *", &all, None, false), (7, 0, 0));
        assert_eq!(counted("0 3 * * *", &all[1..], None, false), (7, 0, 1));
        // Somebody took another one by hand: it does not stand for a run of another day.
        let by_hand = ["01T03:00", "01T12:00", "02T03:00", "05T03:00", "06T03:00", "07T03:00"];
        assert_eq!(counted("0 3 * * *", &by_hand, None, false), (7, 0, 2));
        assert_eq!(counted("0 3 * * *", &[], None, false), (7, 0, 7));
    }

    #[test]
    fn what_was_left_out_on_purpose_is_not_missed() {
        let some = ["01T03:00", "02T03:00", "03T03:00"];
        assert_eq!(counted("0 3 * * *", &some, Some("05T03:00"), false), (7, 1, 3));
        assert_eq!(counted("0 3 * * *", &some, None, true), (7, 4, 0));
        let with_gap = ["01T03:00", "03T03:00"];
        assert_eq!(counted("0 3 * * *", &with_gap, None, true), (7, 4, 1));
    }

    #[test]
    fn a_run_of_just_now_is_not_missed_yet_and_many_runs_have_an_end() {
        assert_eq!(counted("55 23 * * *", &[], None, false), (6, 0, 6));
        assert_eq!(counted("0 0 * * *", &[], None, false), (7, 0, 7));
        assert_eq!(counted("@every 24h", &["01T00:00"], None, false).2, 6);
        let (expected, _, missed) = counted("* * * * *", &[], None, false);
        assert_eq!((expected, missed), (7 * 24 * 60 - 9, 7 * 24 * 60 - 9));
    }
}

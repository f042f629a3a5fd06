//! Compares with what the libraries of the original answer: `robfig/cron` v3.0.1 and `gobwas/glob` v0.2.3.
//!
//! The files in `golden/` hold one JSON list a line, made by those libraries from random input: an expression, a moment
//! and the next activation; a pattern, a text and whether it matches. A null stands for "none" and "not a pattern".
//! Empty texts are left out: there the original lets a lone `?` and `[!a]` match, and no name is ever empty.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use velero_rules::cron::CronSchedule;
use velero_rules::wildcard::Wildcard;

fn rows<T: serde::de::DeserializeOwned>(lines: &str) -> Vec<T> {
    lines.lines().map(|line| serde_json::from_str(line).expect("a golden line is JSON")).collect()
}

#[test]
fn schedules_run_when_the_original_runs_them() {
    let rows: Vec<(String, i64, Option<i64>)> = rows(include_str!("golden/cron.jsonl"));
    assert!(rows.len() > 300);
    for (expression, after, expected) in rows {
        let schedule = CronSchedule::parse(&expression).unwrap();
        let next = schedule.next(Timestamp::from_second(after).unwrap(), &TimeZone::UTC);
        assert_eq!(next.map(Timestamp::as_second), expected, "{expression} after {after}");
    }
}

#[test]
fn patterns_match_what_the_original_matches() {
    let rows: Vec<(String, String, Option<bool>)> = rows(include_str!("golden/glob.jsonl"));
    assert!(rows.len() > 300);
    for (pattern, text, expected) in rows {
        let found = Wildcard::compile(&pattern).ok().map(|wildcard| wildcard.matches(&text));
        assert_eq!(found, expected, "{pattern:?} {text:?}");
    }
}

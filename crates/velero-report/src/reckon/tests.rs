use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::facts::{LocationFact, NamespaceFact, RestoreFact, VolumeFact};
use crate::protection::Scope;

const MEBIBYTE: u64 = 1 << 20;

fn at(text: &str) -> Timestamp {
    format!("2026-03-{text}:00Z").parse().unwrap()
}

fn backup(schedule: &str, made: &str, ending: Option<Ending>, items: i64) -> BackupFact {
    let made = at(made);
    BackupFact {
        name: format!("{schedule}-{}", made.strftime("%d%H")),
        schedule: schedule.to_owned(),
        phase: ending.map_or("InProgress".to_owned(), |ending| format!("{ending:?}")),
        ending,
        made: Some(made),
        started: Some(made),
        ended: ending.and_then(|_| made.checked_add(SignedDuration::from_secs(90)).ok()),
        seconds: 90,
        items,
        scope: Scope { included: ["shop".to_owned()].into(), ..Scope::default() },
        ..BackupFact::default()
    }
}

fn schedule(name: &str, cron: &str, template: &Value, paused: bool) -> Schedule {
    let object = json!({
        "apiVersion": "velero.io/v1", "kind": "Schedule",
        "metadata": {"name": name, "namespace": "velero", "creationTimestamp": "2026-02-01T00:00:00Z"},
        "spec": {"schedule": cron, "template": template, "paused": paused},
    });
    serde_json::from_value(object).unwrap()
}

/// A week: one schedule that ran, failed once and was held up once, one that is paused, one that nobody can read.
fn week() -> Facts {
    use Ending::{Completed, Failed, PartiallyFailed};
    let namespace = |name: &str| NamespaceFact {
        name: name.to_owned(),
        is_left_out: name == "scratch",
        ..NamespaceFact::default()
    };
    let claim = |namespace: &str, name: &str| ClaimFact {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..ClaimFact::default()
    };
    let volume = |backup: &str, mebibytes: u64, is_complete| VolumeFact {
        backup: backup.to_owned(),
        bytes: mebibytes * MEBIBYTE,
        is_complete,
    };
    let mut failed = backup("daily", "03T03:00", Some(Failed), 0);
    failed.reason = "the store <did> not answer".to_owned();
    Facts {
        now: at("08T00:00"),
        since: at("01T00:00"),
        namespace: "velero".to_owned(),
        default_ttl: Duration::from_secs(720 * 3600),
        backups: vec![
            backup("daily", "01T03:00", Some(Completed), 100),
            backup("daily", "02T03:00", Some(PartiallyFailed), 110),
            failed,
            backup("daily", "05T03:00", Some(Completed), 120),
            backup("daily", "06T03:00", Some(Completed), 130),
            backup("daily", "07T03:00", None, 0),
            backup("weekly", "02T00:00", Some(Completed), 9),
        ],
        restores: vec![
            RestoreFact {
                name: "r1".to_owned(),
                ending: Some(Completed),
                made: Some(at("04T00:00")),
                ..Default::default()
            },
            RestoreFact {
                name: "r2".to_owned(),
                ending: Some(Failed),
                made: Some(at("04T00:00")),
                ..Default::default()
            },
        ],
        schedules: Some(vec![
            schedule("weekly", "0 0 * * 1", &json!({"includedNamespaces": ["yard"]}), true),
            schedule("daily", "0 3 * * *", &json!({"includedNamespaces": ["shop"]}), false),
            schedule("odd", "sometimes", &json!({}), false),
        ]),
        locations: vec![LocationFact { name: "default".to_owned(), is_available: true, message: String::new() }],
        volumes: vec![volume("daily-0103", 10, true), volume("daily-0503", 20, true), volume("daily-0603", 5, false)],
        namespaces: Some(["yard", "shop", "scratch", "kube-system", "velero"].map(namespace).to_vec()),
        claims: Some(vec![claim("shop", "orders"), claim("yard", "tools")]),
        not_seen: Vec::new(),
    }
}

#[test]
fn a_week_is_told_as_it_was() {
    let report = reckon(&week());
    let daily = &report.schedules[0];
    assert_eq!((daily.name.as_str(), daily.expected, daily.missed, daily.skipped), ("daily", 7, 1, 0));
    assert_eq!((daily.completed, daily.partially_failed, daily.failed, daily.unfinished), (3, 1, 1, 1));
    assert_eq!(daily.last_good, at("06T03:00").checked_add(SignedDuration::from_secs(90)).ok());
    let figures: Vec<(i64, u64)> = daily.history.iter().map(|point| (point.items, point.bytes / MEBIBYTE)).collect();
    assert_eq!(figures, [(100, 10), (120, 20), (130, 0)]);
    let odd = &report.schedules[1];
    assert!(odd.problem.contains("invalid schedule") && odd.expected == 0, "{odd:?}");
    let weekly = &report.schedules[2];
    assert_eq!((weekly.expected, weekly.missed, weekly.paused, weekly.next), (1, 0, true, None));
    let failures: Vec<&str> = report.failures.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(failures, ["r2", "daily-0303", "daily-0203"]);
    let expected = Summary {
        backups: 7,
        completed: 4,
        partially_failed: 1,
        failed: 1,
        unfinished: 1,
        runs_expected: 8,
        runs_skipped: 0,
        runs_missed: 1,
        restores: 2,
        restores_completed: 1,
        items: 469,
        bytes: 30 * MEBIBYTE,
        namespaces: Some(3),
        namespaces_not_covered: Some(1),
        claims: Some(2),
        claims_not_covered: Some(1),
    };
    assert_eq!(report.summary, expected);
    assert!(!report.is_well());
}

#[test]
fn namespaces_and_claims_say_who_covers_them() {
    let report = reckon(&week());
    let names: Vec<&str> = report.namespaces.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["scratch", "yard", "shop", "kube-system", "velero"]);
    let shop = &report.namespaces[2];
    assert_eq!(
        (shop.schedules.as_slice(), shop.last_backup.as_deref()),
        (&["daily".to_owned()][..], Some("daily-0603"))
    );
    assert!(report.namespaces[0].left_out && report.namespaces[3].system);
    let mut facts = week();
    for (made, expected) in [("06T03:00", Some("daily-0603")), ("06T03:01", None)] {
        facts.namespaces.as_mut().unwrap()[1].made = Some(at(made));
        assert_eq!(reckon(&facts).namespaces[2].last_backup.as_deref(), expected, "made at {made}");
    }
    let claims: Vec<(&str, &str)> = report.claims_not_covered.iter().map(|row| (row.name.as_str(), row.why)).collect();
    assert_eq!(claims, [("tools", "no schedule takes its namespace")]);
}

#[test]
fn every_day_has_a_row_and_their_sums_are_the_summary() {
    let report = reckon(&week());
    assert_eq!(report.days.len(), 8, "seven days, and the one that has just begun");
    assert_eq!(report.days.iter().map(|day| day.completed).sum::<usize>(), report.summary.completed);
    assert_eq!(report.days[1].completed + report.days[1].partially_failed, 2);
}

#[test]
fn what_may_not_be_seen_is_not_guessed() {
    let facts = Facts {
        schedules: None,
        namespaces: None,
        claims: None,
        not_seen: vec!["namespaces: you may not list them".to_owned()],
        ..week()
    };
    let report = reckon(&facts);
    assert_eq!((report.summary.namespaces, report.summary.claims_not_covered), (None, None));
    assert!(report.namespaces.is_empty() && report.claims_not_covered.is_empty());
    assert!(!report.is_well(), "what is not known is not well");
    assert_eq!(report.summary.completed, 4);
    let some = Facts { namespaces: None, ..week() };
    let claims = reckon(&some).claims_not_covered;
    assert_eq!(claims.len(), 1, "claims say which namespaces there are: {claims:?}");
}

#[test]
fn runs_count_from_when_the_schedule_was_there_and_its_backups_are_kept() {
    let mut facts = week();
    facts.default_ttl = Duration::from_secs(48 * 3600);
    assert_eq!(reckon(&facts).schedules[0].expected, 2, "older backups have expired");
    let mut facts = week();
    let schedules = facts.schedules.as_mut().unwrap();
    schedules[1].metadata.creation_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at("07T12:00")));
    assert_eq!(reckon(&facts).schedules[0].expected, 7, "it was made anew: its backups are older");
    facts.backups.clear();
    assert_eq!(reckon(&facts).schedules[0].expected, 0, "it is half a day old");
}

#[test]
fn a_page_holds_no_markup_of_others_and_every_chart_has_words() {
    let mut facts = week();
    facts.not_seen.push("<script>alert(1)</script>".to_owned());
    let page = crate::html(&reckon(&facts));
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("the store &lt;did&gt; not answer"), "{page}");
    assert_eq!(page.matches("<svg role=\"img\" aria-label=").count(), page.matches("<svg").count());
    assert!(page.contains("default-src 'none'") && !page.contains("http://") && !page.contains("https://"), "{page}");
    for open in ["table", "tr", "td", "th", "ul", "li", "div", "svg", "g", "p", "main"] {
        let (begun, ended) = (
            page.matches(&format!("<{open}>")).count() + page.matches(&format!("<{open} ")).count(),
            page.matches(&format!("</{open}>")).count(),
        );
        assert_eq!(begun, ended, "<{open}>");
    }
}

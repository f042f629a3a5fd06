//! The first page: is everything safe?

use std::sync::Arc;

use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use velero_api::labels::valid_value;

use super::{Answer, backups, layout, parts, restores, schedules};
use crate::chart::{self, Bar};
use crate::digests::{BackupDigest, Endings};
use crate::index::{Bytes, version_of};
use crate::kept::{Dated, Newest};
use crate::memo::SharedMarkup;
use crate::problem::Problem;
use crate::rows::{BackupRow, LocationRow, RestoreRow, ScheduleRow};
use crate::server::Shared;
use crate::text;
use crate::user::{Right, User};

/// How many backups the chart has.
const BARS: usize = 60;
/// Of how many of the last backups the charts may tell: who looks at none but the newest is quick however many there are.
const LOOKED_AT: usize = 1000;
/// How many lines each list has.
const LINES: usize = 10;
/// What is looked back on.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// What the part about backups is made for: how often backups, copies and uploads have changed, and the second it tells of.
pub(crate) type Key = ([u64; 3], i64);

/// What is known of all backups.
struct Glance {
    all: usize,
    /// How those of the last day ended.
    endings: Endings,
    under_way: Vec<Arc<BackupRow>>,
    /// How many are under way that are not among these.
    more_under_way: usize,
    /// Those of the last day in which something went wrong.
    failures: Vec<Arc<BackupRow>>,
    /// The newest.
    last: Vec<Arc<BackupRow>>,
}

/// How much data of volumes backups have saved.
struct Saved {
    total: u64,
    /// The newest backups.
    last: Bytes,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User) -> Answer {
    let rights = ["backups", "restores", "schedules", "backupstoragelocations", "podvolumebackups", "datauploads"]
        .map(|resource| Right::to("list", resource));
    let [backups, restores, schedules, locations, copies, uploads] = user.may_each(rights).await?;
    let [backups_right, restores_right, schedules_right, locations_right, ..] = rights;
    let followed = shared.index.overview_changes([backups, restores, schedules, locations]);
    let (since, now) = (version_of(&followed), Timestamp::now());
    let body = html! {
        h1 { "Overview" }
        div #overview data-live=[(!followed.is_empty()).then_some("overview")] data-since=(since) {
            @if locations {
                (parts::unreadable("/locations", &shared.index.locations.unreadable().await?))
                (of_locations(&shared.index.locations.rows().await?))
            } @else { (user.missing(locations_right).note()) }
            @if backups {
                (parts::unreadable("/backups", &shared.index.backups.unreadable().await?))
                (glance(&shared, copies && uploads, now).await?)
            } @else { (user.missing(backups_right).note()) }
            @if backups && schedules { (failing_schedules(&shared, now).await?) }
            @if restores {
                (parts::unreadable("/restores", &shared.index.restores.unreadable().await?))
                (failed_restores(&shared, now).await?)
            } @else { (user.missing(restores_right).note()) }
            @if schedules {
                (coming_runs(&shared, now).await?)
                (parts::unreadable("/schedules", &shared.index.schedules.unreadable().await?))
            } @else { (user.missing(schedules_right).note()) }
        }
        p.none { "Velero " (shared.means.version) " in namespace " (user.namespace()) }
    };
    Ok::<_, Problem>(layout::page(&user, "/", "Overview", &body))
}

/// The part about backups, made once a change for all who may see it.
async fn glance(shared: &Shared, with_bytes: bool, now: Timestamp) -> Result<SharedMarkup, Problem> {
    let index = &shared.index;
    let versions = [index.backups.version(), index.copies.version(), index.uploads.version()];
    let make = async {
        let found = index.backups.read(|kept| Glance::of(kept.digest(), now)).await?;
        let saved = match with_bytes {
            true => {
                let labels: Vec<String> = found.last.iter().map(|row| valid_value(&row.name)).collect();
                Some(Saved { total: index.all_bytes().await?, last: index.bytes_of(&labels).await? })
            }
            false => None,
        };
        Ok::<_, Problem>(of_backups(&found, saved.as_ref(), now))
    };
    shared.glances[usize::from(with_bytes)].get((versions, now.as_second()), make).await
}

/// The part about schedules, made once a change for all who may see it.
async fn coming_runs(shared: &Shared, now: Timestamp) -> Result<SharedMarkup, Problem> {
    let schedules = &shared.index.schedules;
    let make = async { Ok::<_, Problem>(of_schedules(&schedules.rows().await?, now)) };
    shared.coming_runs.get((schedules.version(), now.as_second()), make).await
}

/// The part about schedules whose last backup is no good, made once a change for all who may see both.
async fn failing_schedules(shared: &Shared, now: Timestamp) -> Result<SharedMarkup, Problem> {
    let (backups, schedules) = (&shared.index.backups, &shared.index.schedules);
    let make = async {
        let mut found: Vec<_> =
            backups.read(|kept| kept.digest().last_failures.values().cloned().collect::<Vec<_>>()).await?;
        // What a schedule that is gone has left is no failure to come.
        schedules.read(|kept| found.retain(|row| kept.rows().contains_key(&*row.schedule))).await?;
        Ok::<_, Problem>(of_failing_schedules(&found, now))
    };
    shared.failing_schedules.get(([backups.version(), schedules.version()], now.as_second()), make).await
}

/// The part about restores, made once a change for all who may see it.
async fn failed_restores(shared: &Shared, now: Timestamp) -> Result<SharedMarkup, Problem> {
    let restores = &shared.index.restores;
    let make = async {
        let found = restores.read(|kept| of_last_day(&kept.digest().failures, now, LINES + 1)).await?;
        Ok::<_, Problem>(of_restores(&found, now))
    };
    shared.failed_restores.get((restores.version(), now.as_second()), make).await
}

/// When the time began that is looked back on.
fn yesterday(now: Timestamp) -> Timestamp {
    now.checked_sub(DAY).unwrap_or(Timestamp::MIN)
}

/// The newest rows, as far as they are of the last day.
fn of_last_day<R: Dated>(rows: &Newest<R>, now: Timestamp, most: usize) -> Vec<Arc<R>> {
    let is_of_it = |row: &&Arc<R>| row.created().is_some_and(|created| created >= yesterday(now));
    rows.iter().take_while(is_of_it).take(most).cloned().collect()
}

impl Glance {
    fn of(backups: &BackupDigest, now: Timestamp) -> Self {
        Self {
            all: backups.newest.len(),
            endings: backups.since(yesterday(now)),
            under_way: backups.under_way.iter().take(LINES).cloned().collect(),
            more_under_way: backups.under_way.len().saturating_sub(LINES),
            failures: of_last_day(&backups.failures, now, LINES),
            last: backups.newest.iter().take(LOOKED_AT).cloned().collect(),
        }
    }
}

fn of_locations(rows: &[Arc<LocationRow>]) -> Markup {
    let bad: Vec<_> = rows.iter().filter(|row| &*row.phase != "Available").collect();
    html! {
        @if rows.is_empty() { div.note { p { "There is no backup location: backups have no place to go." } } }
        @for row in &bad {
            div.note { p { strong { "Location " (row.name) " is " (row.phase) ": " } (row.message) " " a href="/locations" { "Locations" } } }
        }
        @if !rows.is_empty() && bad.is_empty() { p { span.good { "All locations can be used." } } }
    }
}

fn of_backups(found: &Glance, saved: Option<&Saved>, now: Timestamp) -> Markup {
    let Glance { all, endings: Endings { good, partly, failed }, under_way, more_under_way, failures, last } = found;
    let more_failures = (partly + failed).saturating_sub(failures.len());
    html! {
        h2 { "Backups of the last 24 hours" }
        (parts::facts(&[
            ("Good", html! { span.good { (good) } }),
            ("With errors", html! { span.doubtful[*partly > 0] { (partly) } }),
            ("Failed", html! { span.bad[*failed > 0] { (failed) } }),
            ("All backups", html! { a href="/backups" { (all) } }),
            ("Data of volumes in them", used(saved)),
        ]))
        @if !under_way.is_empty() { h2 { "Under way" } (list(under_way, now)) (more(*more_under_way)) }
        @if !failures.is_empty() { h2 { "What went wrong" } (list(failures, now)) (more(more_failures)) }
        (charts(last, saved.map(|saved| &saved.last)))
    }
}

fn list(rows: &[Arc<BackupRow>], now: Timestamp) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { "Name" } th { "Phase" } th { "Created" } th { "Progress" } th { "Problems" } th { "Schedule" } th { "Location" }
                th { "Expires" }
            } }
            tbody { @for row in rows { (backups::table_row(row, now)) } }
        } }
    }
}

/// That a list is not all of it.
fn more(count: usize) -> Markup {
    html! { @if count > 0 { p { "and " (count) " more: see " a href="/backups" { "all backups" } } } }
}

/// How long the last backups took and how much they saved of volumes.
fn charts(rows: &[Arc<BackupRow>], bytes: Option<&Bytes>) -> Markup {
    let took = |row: &Arc<BackupRow>| u64::try_from(row.run.ended?.duration_since(row.run.started?).as_secs()).ok();
    let durations = last(rows, took, |row, value| format!("{}: {value} s, {}", row.name, row.phase));
    let saved = |row: &Arc<BackupRow>| bytes?.get(&valid_value(&row.name)).copied();
    let sizes = last(rows, saved, |row, value| format!("{}: {}, {}", row.name, size(value), row.phase));
    let most = |bars: &[Bar]| bars.iter().map(|bar| bar.value).max().unwrap_or_default();
    let took = format!("How long the last {} backups took, {} seconds at most.", durations.len(), most(&durations));
    let words =
        format!("How much the last {} backups with data of volumes hold, {} at most.", sizes.len(), size(most(&sizes)));
    html! {
        (chart::bars("Duration of the last backups", &took, &durations))
        (chart::bars("Size of the last backups", &words, &sizes))
    }
}

/// Bars for the last backups that have a value, oldest first.
fn last(
    rows: &[Arc<BackupRow>],
    value: impl Fn(&Arc<BackupRow>) -> Option<u64>,
    title: impl Fn(&BackupRow, u64) -> String,
) -> Vec<Bar> {
    let found = rows.iter().filter_map(|row| Some((row, value(row)?))).take(BARS);
    let bar =
        |(row, value): (&Arc<BackupRow>, u64)| Bar { value, phase: row.phase.to_string(), title: title(row, value) };
    let mut bars: Vec<Bar> = found.map(bar).collect();
    bars.reverse();
    bars
}

fn size(bytes: u64) -> String {
    text::size(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// How much data of volumes there is in backups, for those who may list what tells it.
fn used(saved: Option<&Saved>) -> Markup {
    match saved {
        None => html! { span.none { "not shown: you may not list podvolumebackups and datauploads" } },
        Some(saved) => html! { (size(saved.total)) ", before what is the same was left out" },
    }
}

fn of_failing_schedules(rows: &[Arc<BackupRow>], now: Timestamp) -> Markup {
    let (shown, rest) = rows.split_at(rows.len().min(LINES));
    html! {
        @if !rows.is_empty() {
            h2 { "Schedules whose last backup is no good" }
            ul { @for row in shown { li {
                a href=(format!("/schedules/{}", row.schedule)) { (row.schedule) } ": "
                a href=(format!("/backups/{}", row.name)) { (row.name) } " " (parts::phase(&row.phase)) " "
                (parts::moment(row.run.created, now))
            } } }
            @if !rest.is_empty() { p { "and " (rest.len()) " more schedules" } }
        }
    }
}

fn of_restores(rows: &[Arc<RestoreRow>], now: Timestamp) -> Markup {
    let (shown, rest) = rows.split_at(rows.len().min(LINES));
    html! {
        @if !rows.is_empty() {
            h2 { "What went wrong in restores of the last 24 hours" }
            (restores::table(shown, now))
            @if !rest.is_empty() { p { "and more: see " a href="/restores" { "all restores" } } }
        }
    }
}

fn of_schedules(rows: &[Arc<ScheduleRow>], now: Timestamp) -> Markup {
    let mut coming: Vec<_> = rows.iter().filter_map(|row| Some((schedules::next(row, now)?, row))).collect();
    coming.sort_by_key(|(next, _)| *next);
    let paused = rows.iter().filter(|row| row.paused).count();
    let refused: Vec<String> = rows.iter().filter(|row| row.is_refused()).map(|row| row.name.to_string()).collect();
    html! {
        h2 { "Schedules" }
        @if !refused.is_empty() {
            div.note { p { strong { "Schedules that never run, since the server refuses them: " } (parts::names(&refused, "")) } }
        }
        @if rows.is_empty() { div.note { p { "There is no schedule: nothing is backed up by itself." } } }
        @else { p { (rows.len()) " schedules, " (paused) " of them paused. " a href="/schedules" { "All schedules" } } }
        ul { @for (next, row) in coming.iter().take(LINES) { li {
            a href=(format!("/schedules/{}", row.name)) { (row.name) } ": next " (parts::moment(Some(*next), now)) ", last " (parts::moment(row.last, now))
        } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Kept;
    use crate::rows::Run;

    #[test]
    fn the_overview_of_ten_thousand_backups_is_small() {
        let now = Timestamp::from_second(100_000).unwrap();
        let mut kept = Kept::<BackupRow>::default();
        for number in 60_000..70_000 {
            let moment = Timestamp::from_second(number).ok();
            let run = Run { created: moment, started: moment, ended: moment, ..Run::default() };
            let name = format!("b-{number}");
            let row = BackupRow { name: name.as_str().into(), phase: "Failed".into(), run, ..BackupRow::default() };
            kept.put(name, Some(row));
        }
        let last: Bytes = (60_000..70_000).map(|number| (format!("b-{number}"), 1 << 20)).collect();
        let found = Glance::of(kept.digest(), now);
        assert_eq!((found.all, found.endings.failed, found.last.len()), (10_000, 10_000, LOOKED_AT));
        let text = of_backups(&found, Some(&Saved { total: 10_000 << 20, last }), now).into_string();
        assert!(text.len() < 50 << 10, "{} bytes", text.len());
        assert!(text.contains("b-69999") && !text.contains("b-60000"));
        assert_eq!(text.matches("<svg").count(), 2, "durations and sizes");
        assert!(text.contains("9.8 GiB") && text.contains("1.0 MiB at most"), "{text}");
        assert!(text.contains("and 9990 more"), "what is not named is counted: {text}");
    }

    #[test]
    fn of_many_that_are_under_way_some_are_named_and_all_are_counted() {
        let now = Timestamp::from_second(100_000).unwrap();
        let mut kept = Kept::<BackupRow>::default();
        for number in 0..LINES + 3 {
            let run = Run { created: Some(now), is_under_way: true, ..Run::default() };
            let name = format!("b-{number}");
            let row = BackupRow { name: name.as_str().into(), phase: "InProgress".into(), run, ..BackupRow::default() };
            kept.put(name, Some(row));
        }
        let text = of_backups(&Glance::of(kept.digest(), now), None, now).into_string();
        assert!(text.contains("and 3 more") && !text.contains("What went wrong"), "{text}");
    }

    #[test]
    fn schedules_whose_last_backup_is_no_good_are_named_however_long_ago_it_was() {
        let now = Timestamp::from_second(100_000_000).unwrap();
        let row = |number: usize| {
            let run = Run { created: Some(Timestamp::UNIX_EPOCH), ..Run::default() };
            let (name, schedule) = (format!("b-{number}").into(), format!("weekly-{number}").into());
            Arc::new(BackupRow { name, schedule, phase: "PartiallyFailed".into(), run, ..BackupRow::default() })
        };
        let rows: Vec<_> = (0..LINES + 2).map(row).collect();
        let text = of_failing_schedules(&rows, now).into_string();
        assert!(text.contains("href=\"/schedules/weekly-0\"") && text.contains("href=\"/backups/b-0\""), "{text}");
        assert!(text.contains("PartiallyFailed") && text.contains("and 2 more schedules"), "{text}");
        assert_eq!(of_failing_schedules(&[], now).into_string(), "");
    }

    #[test]
    fn restores_of_the_last_day_in_which_something_went_wrong_are_named() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let mut kept = Kept::<RestoreRow>::default();
        for (name, phase, ago) in [("new", "Failed", 10), ("good", "Completed", 10), ("old", "Failed", 90_000)] {
            let run = Run { created: Timestamp::from_second(1_000_000 - ago).ok(), ..Run::default() };
            let row = RestoreRow { name: name.into(), phase: phase.into(), run, ..RestoreRow::default() };
            kept.put(name.to_owned(), Some(row));
        }
        let told = |most| of_restores(&of_last_day(&kept.digest().failures, now, most), now).into_string();
        let text = told(LINES + 1);
        assert!(text.contains("href=\"/restores/new\"") && !text.contains("/restores/old"), "{text}");
        assert!(!text.contains("/restores/good") && !text.contains("and more"), "{text}");
        assert_eq!(told(0), "");
        let row = of_last_day(&kept.digest().failures, now, 1).remove(0);
        assert!(of_restores(&vec![row; LINES + 1], now).into_string().contains("and more"));
    }

    #[test]
    fn schedules_that_never_run_are_named() {
        let row = |name: &str, phase: &str| {
            Arc::new(ScheduleRow { name: name.into(), phase: phase.into(), ..ScheduleRow::default() })
        };
        let now = Timestamp::UNIX_EPOCH;
        let text = of_schedules(&[row("good", "Enabled"), row("bad", "FailedValidation")], now).into_string();
        assert!(text.contains("never run") && text.contains("</strong>bad</p>"), "{text}");
        assert!(!of_schedules(&[row("good", "Enabled")], now).into_string().contains("never run"));
    }

    #[test]
    fn a_location_that_cannot_be_used_is_said_with_its_reason() {
        let row = LocationRow {
            name: "a".into(),
            phase: "Unavailable".into(),
            message: "<no bucket>".into(),
            ..Default::default()
        };
        let text = of_locations(&[Arc::new(row)]).into_string();
        assert!(text.contains("&lt;no bucket&gt;") && !text.contains("All locations"), "{text}");
        assert!(of_locations(&[]).into_string().contains("no place to go"));
    }
}

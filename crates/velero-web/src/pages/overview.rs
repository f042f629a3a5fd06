//! The first page: is everything safe?

use std::sync::Arc;

use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use velero_api::labels::valid_value;

use super::{Answer, backups, layout, parts, schedules};
use crate::chart::{self, Bar};
use crate::index::Bytes;
use crate::problem::Problem;
use crate::rows::{BackupRow, LocationRow, ScheduleRow};
use crate::server::Shared;
use crate::text;
use crate::user::{Right, User};

/// How many backups the chart has.
const BARS: usize = 60;
/// How many lines each list has.
const LINES: usize = 10;
/// What is looked back on.
const DAY: SignedDuration = SignedDuration::from_hours(24);

pub(crate) async fn show(State(shared): State<Shared>, user: User) -> Answer {
    let rights = ["backups", "schedules", "backupstoragelocations"].map(|resource| Right::to("list", resource));
    let [backups, schedules, locations] = user.may_each(rights).await?;
    let [backups_right, schedules_right, locations_right] = rights;
    let now = Timestamp::now();
    let body = html! {
        h1 { "Overview" }
        div #overview data-live="backups" {
            @if locations { (of_locations(&shared.index.locations.rows().await?)) }
            @else { (user.missing(locations_right).note()) }
            @if backups { (of_backups(shared.index.backups.rows().await?, bytes(&shared, &user).await?.as_ref(), now)) }
            @else { (user.missing(backups_right).note()) }
            @if schedules { (of_schedules(&shared.index.schedules.rows().await?, now)) }
            @else { (user.missing(schedules_right).note()) }
        }
        p.none { "Velero " (shared.means.version) " in namespace " (user.namespace()) }
    };
    Ok::<_, Problem>(layout::page(&user, "/", "Overview", &body))
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

fn of_backups(mut rows: Vec<Arc<BackupRow>>, bytes: Option<&Bytes>, now: Timestamp) -> Markup {
    rows.sort_by(|one, other| other.run.created.cmp(&one.run.created).then_with(|| one.name.cmp(&other.name)));
    let is_of_today = |row: &&Arc<BackupRow>| row.run.created.is_some_and(|created| now.duration_since(created) <= DAY);
    let count = |phase: &str| rows.iter().filter(is_of_today).filter(|row| &*row.phase == phase).count();
    let running: Vec<_> = rows.iter().filter(|row| row.run.is_under_way).take(LINES).collect();
    let is_failure = |row: &&Arc<BackupRow>| matches!(&*row.phase, "Failed" | "PartiallyFailed" | "FailedValidation");
    let failures: Vec<_> = rows.iter().filter(is_of_today).filter(is_failure).take(LINES).collect();
    let (completed, partly) = (count("Completed"), count("PartiallyFailed"));
    let failed = count("Failed") + count("FailedValidation");
    html! {
        h2 { "Backups of the last 24 hours" }
        (parts::facts(&[
            ("Good", html! { span.good { (completed) } }),
            ("With errors", html! { span.doubtful[partly > 0] { (partly) } }),
            ("Failed", html! { span.bad[failed > 0] { (failed) } }),
            ("All backups", html! { a href="/backups" { (rows.len()) } }),
            ("Data of volumes in them", used(&rows, bytes)),
        ]))
        @if !running.is_empty() { h2 { "Under way" } (list(&running, now)) }
        @if !failures.is_empty() { h2 { "What went wrong" } (list(&failures, now)) }
        (charts(&rows, bytes))
    }
}

fn list(rows: &[&Arc<BackupRow>], now: Timestamp) -> Markup {
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

/// How many bytes of volumes backups have saved, for those who may list what tells it.
pub(crate) async fn bytes(shared: &Shared, user: &User) -> Result<Option<Bytes>, Problem> {
    let rights = ["podvolumebackups", "datauploads"].map(|resource| Right::to("list", resource));
    match user.may_each(rights).await? {
        [true, true] => shared.index.bytes().await.map(Some),
        _ => Ok(None),
    }
}

/// How much of volumes there is in backups that still exist.
fn used(rows: &[Arc<BackupRow>], bytes: Option<&Bytes>) -> Markup {
    match bytes {
        None => html! { span.none { "not shown: you may not list podvolumebackups and datauploads" } },
        Some(bytes) => {
            let sum: u64 = rows.iter().filter_map(|row| bytes.get(&valid_value(&row.name))).sum();
            html! { (size(sum)) ", before what is the same was left out" }
        }
    }
}

fn of_schedules(rows: &[Arc<ScheduleRow>], now: Timestamp) -> Markup {
    let mut coming: Vec<_> = rows.iter().filter_map(|row| Some((schedules::next(row, now)?, row))).collect();
    coming.sort_by_key(|(next, _)| *next);
    let paused = rows.iter().filter(|row| row.paused).count();
    html! {
        h2 { "Schedules" }
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
    use crate::rows::Run;

    #[test]
    fn the_overview_of_ten_thousand_backups_is_small() {
        let now = Timestamp::from_second(100_000).unwrap();
        let row = |number: i64| {
            let moment = Timestamp::from_second(number).ok();
            let run = Run { created: moment, started: moment, ended: moment, ..Run::default() };
            Arc::new(BackupRow {
                name: format!("b-{number}").into(),
                phase: "Failed".into(),
                run,
                ..BackupRow::default()
            })
        };
        let bytes: Bytes = (60_000..70_000).map(|number| (format!("b-{number}"), 1 << 20)).collect();
        let text = of_backups((60_000..70_000).map(row).collect(), Some(&bytes), now).into_string();
        assert!(text.len() < 50 << 10, "{} bytes", text.len());
        assert!(text.contains("b-69999") && !text.contains("b-60000"));
        assert_eq!(text.matches("<svg").count(), 2, "durations and sizes");
        assert!(text.contains("9.8 GiB") && text.contains("1.0 MiB at most"), "{text}");
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

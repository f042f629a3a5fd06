//! The schedules, with their last and next run.

use axum::extract::{Query, State};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;
use velero_rules::cron::CronSchedule;
use velero_rules::schedule::ScheduleHistory;

use super::{Answer, layout, parts};
use crate::rows::ScheduleRow;
use crate::server::Shared;
use crate::text;
use crate::user::{Right, User};

/// How many schedules a page of the list has.
const PAGE: usize = 50;

/// What the list is to show.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// A part of the name.
    search: String,
    page: usize,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    user.must(Right::to("list", "schedules")).await?;
    let since = shared.index.schedules.version();
    let mut rows = shared.index.schedules.rows().await?;
    let unreadable = shared.index.schedules.unreadable().await?;
    let (all, search) = (rows.len(), wanted.search.trim().to_lowercase());
    rows.retain(|row| row.name.contains(&search));
    let [may_pause, may_run] = user.may_each([Right::to("patch", "schedules"), Right::to("create", "backups")]).await?;
    let (now, shown) = (Timestamp::now(), rows.get(wanted.page.saturating_mul(PAGE)..).unwrap_or_default());
    let body = html! {
        h1 { "Schedules" }
        (parts::search("Name", &wanted.search))
        div #list data-live="schedules" data-since=(since) {
            (parts::unreadable("/schedules", &unreadable))
            p { (rows.len()) " of " (all) " schedules" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Name" } th { "Phase" } th { "When" } th { "Last" } th { "Next" } th { "Takes" } th { "Actions" } } }
                tbody {
                    @for row in shown.iter().take(PAGE) { (table_row(&user, row, now, may_pause, may_run)) }
                    @if all == 0 { tr { td colspan="7" { "There is no schedule: nothing is backed up by itself." } } }
                    @else if shown.is_empty() { tr { td colspan="7" { "No schedule is like that." } } }
                }
            } }
            (parts::pager(wanted.page, shown.len() > PAGE, &parts::entry("search", &wanted.search)))
            (missing(may_pause, may_run))
        }
    };
    Ok(layout::page(&user, "/schedules", "Schedules", &body))
}

fn table_row(user: &User, row: &ScheduleRow, now: Timestamp, may_pause: bool, may_run: bool) -> Markup {
    html! {
        tr {
            td { a href=(format!("/schedules/{}", row.name)) { (row.name) } }
            td { (parts::phase(if row.paused { "Paused" } else { &row.phase })) }
            td { code { (row.cron) } }
            td { (parts::moment(row.last, now)) }
            td { (parts::moment(next(row, now), now)) }
            td { (parts::names(&row.whole.spec.template.included_namespaces, "all namespaces")) }
            td { (actions(user, row, may_pause, may_run)) }
        }
    }
}

/// What can be done with a schedule.
pub(crate) fn actions(user: &User, row: &ScheduleRow, may_pause: bool, may_run: bool) -> Markup {
    let button = |verb: &str, label: &str| {
        let action = format!("/schedules/{}/{verb}", row.name);
        html! { form method="post" action=(action) { (layout::form_token(user)) button { (label) } } }
    };
    html! {
        div.actions {
            @if may_run { (button("run", "Back up now")) }
            @if may_pause { @if row.paused { (button("resume", "Resume")) } @else { (button("pause", "Pause")) } }
        }
    }
}

/// What cannot be done with schedules for want of a right.
pub(crate) fn missing(may_pause: bool, may_run: bool) -> Markup {
    html! {
        @if !may_run { p.none { "You may not create backups: no schedule can be run from here." } }
        @if !may_pause { p.none { "You may not patch schedules: none can be paused or resumed from here." } }
    }
}

/// When a schedule runs next, as far as its expression tells: as the server reckons it.
pub(crate) fn next(row: &ScheduleRow, now: Timestamp) -> Option<Timestamp> {
    if row.paused || row.is_refused() {
        return None;
    }
    let cron = CronSchedule::parse(&row.cron).ok()?;
    let history = ScheduleHistory {
        created: text::moment(row.whole.metadata.creation_timestamp.as_ref()).unwrap_or(now),
        last_backup: row.last,
        last_skipped: text::moment(row.whole.status.last_skipped.as_ref()),
    };
    history.next_run(&cron, &TimeZone::system())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_done_for_want_of_a_right_is_said() {
        assert_eq!(missing(true, true).into_string(), "");
        let text = missing(false, true).into_string();
        assert!(text.contains("patch schedules") && !text.contains("create backups"), "{text}");
        assert!(missing(true, false).into_string().contains("create backups"));
    }

    #[test]
    fn a_schedule_that_does_not_run_has_no_next_time() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        let row =
            |cron: &str, paused| ScheduleRow { cron: cron.into(), paused, last: Some(now), ..ScheduleRow::default() };
        assert!(next(&row("*/5 * * * *", false), now).is_some_and(|next| next > now));
        assert_eq!(next(&row("*/5 * * * *", true), now), None);
        assert_eq!(next(&row("whenever", false), now), None);
    }
}

//! The schedules, with their last and next run.

use axum::extract::{Query, State};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;
use velero_rules::cron::CronSchedule;

use super::{Answer, layout, parts};
use crate::rows::ScheduleRow;
use crate::server::Shared;
use crate::user::{Right, User};

/// How many schedules a page of the list has.
const PAGE: usize = 50;

/// What the list is to show.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    page: usize,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    user.must(Right::to("list", "schedules")).await?;
    let rows = shared.index.schedules.rows().await?;
    let [may_pause, may_run] = user.may_each([Right::to("patch", "schedules"), Right::to("create", "backups")]).await?;
    let now = Timestamp::now();
    let shown = rows.get(wanted.page.saturating_mul(PAGE)..).unwrap_or_default();
    let body = html! {
        h1 { "Schedules" }
        div #list data-live="schedules" {
            div.scroll { table {
                thead { tr { th { "Name" } th { "Phase" } th { "When" } th { "Last" } th { "Next" } th { "Takes" } th { "Actions" } } }
                tbody {
                    @for row in shown.iter().take(PAGE) { (table_row(&user, row, now, may_pause, may_run)) }
                    @if rows.is_empty() { tr { td colspan="7" { "There is no schedule: nothing is backed up by itself." } } }
                }
            } }
            (parts::pager(wanted.page, shown.len() > PAGE, ""))
        }
    };
    Ok(layout::page(&user, "/schedules", "Schedules", &body))
}

fn table_row(user: &User, row: &ScheduleRow, now: Timestamp, may_pause: bool, may_run: bool) -> Markup {
    let address = format!("/schedules/{}", row.name);
    let button = |verb: &str, label: &str| {
        html! { form method="post" action=(format!("{address}/{verb}")) { (layout::form_token(user)) button { (label) } } }
    };
    html! {
        tr {
            td { a href=(format!("/backups?schedule={}", row.name)) { (row.name) } }
            td { (parts::phase(if row.paused { "Paused" } else { &row.phase })) }
            td { code { (row.cron) } }
            td { (parts::moment(row.last, now)) }
            td { (parts::moment(next(row, now), now)) }
            td { (parts::names(&row.scope.included, "all namespaces")) }
            td { div.actions {
                @if may_run { (button("run", "Back up now")) }
                @if may_pause { @if row.paused { (button("resume", "Resume")) } @else { (button("pause", "Pause")) } }
            } }
        }
    }
}

/// When a schedule runs next, as far as its expression tells.
pub(crate) fn next(row: &ScheduleRow, now: Timestamp) -> Option<Timestamp> {
    if row.paused || &*row.phase == "FailedValidation" {
        return None;
    }
    let cron = CronSchedule::parse(&row.cron).ok()?;
    let after = row.last.or(row.created).unwrap_or(now);
    cron.next(after, &TimeZone::system())
}

#[cfg(test)]
mod tests {
    use super::*;

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

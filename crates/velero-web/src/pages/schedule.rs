//! One schedule: what it takes, when it runs, what can be done with it, and the same as text.

use axum::extract::{Path, State};
use jiff::Timestamp;
use maud::{Markup, html};
use velero_api::metadata::name;
use velero_api::v1::Schedule;

use super::{Answer, layout, parts, schedules};
use crate::command;
use crate::rows::{Row, ScheduleRow, without_noise};
use crate::server::Shared;
use crate::user::{Right, User};

pub(crate) async fn show(State(shared): State<Shared>, user: User, Path(wanted): Path<String>) -> Answer {
    let since = shared.index.schedules.version();
    let schedule: Schedule = user.get(&wanted).await?;
    let [may_pause, may_run] = user.may_each([Right::to("patch", "schedules"), Right::to("create", "backups")]).await?;
    let row = ScheduleRow::of(&schedule).unwrap_or_default();
    let body = html! {
        h1 { "Schedule " (wanted) }
        div #state data-live="schedules" data-name=(wanted) data-since=(since) {
            (state(&schedule, &row, Timestamp::now()))
            (schedules::actions(&user, &row, may_pause, may_run))
            (schedules::missing(may_pause, may_run))
        }
        p { a href=(format!("/backups?schedule={wanted}")) { "Its backups" } }
        h2 { "What it takes" }
        (parts::scope(&schedule.spec.template))
        (parts::texts(&without_noise(&schedule), &command::of_schedule(&schedule)))
        (commands(&schedule))
    };
    Ok(layout::page(&user, "/schedules", &wanted, &body))
}

fn state(schedule: &Schedule, row: &ScheduleRow, now: Timestamp) -> Markup {
    html! {
        (parts::facts(&[
            ("Phase", parts::phase(if row.paused { "Paused" } else { &row.phase })),
            ("When", html! { code { (row.cron) } }),
            ("Last backup", parts::moment(row.last, now)),
            ("Next backup", parts::moment(schedules::next(row, now), now)),
            ("Kept for", html! {
                @if schedule.spec.template.ttl.is_zero() { span.none { "as the server is set up" } } @else { (schedule.spec.template.ttl) }
            }),
        ]))
        @for problem in &schedule.status.validation_errors { div.note { p { strong { "Refused: " } (problem) } } }
    }
}

/// What the buttons do, as commands.
fn commands(schedule: &Schedule) -> Markup {
    let (name, namespace) = (name(schedule), velero_api::metadata::namespace(schedule));
    let pause = if schedule.spec.paused { "unpause" } else { "pause" };
    let all = [
        command::plain(&["velero", "backup", "create", "--from-schedule", name], namespace),
        command::plain(&["velero", "schedule", pause, name], namespace),
        command::plain(&["velero", "schedule", "delete", name], namespace),
    ];
    html! { details { summary { "What can be done, as commands" } @for command in &all { (parts::as_command(command)) } } }
}

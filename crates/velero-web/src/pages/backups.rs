//! The list of backups, newest first.

use std::sync::Arc;

use axum::extract::{Query, State};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::{Answer, layout, parts};
use crate::rows::BackupRow;
use crate::server::Shared;
use crate::user::{Right, User};

/// How many backups a page of the list has.
const PAGE: usize = 50;

/// What the list is to show.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// A part of the name, the schedule or the location.
    search: String,
    phase: String,
    schedule: String,
    page: usize,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    user.must(Right::to("list", "backups")).await?;
    let rows = shared.index.backups.rows().await?;
    let may_create = user.may(Right::to("create", "backups")).await?;
    let now = Timestamp::now();
    let all = rows.len();
    let rows = select(rows, &wanted);
    let body = html! {
        h1 { "Backups" }
        @if may_create { p { a.button.main href="/new-backup" { "Back up now" } } }
        (filters(&wanted))
        div #list data-live="backups" {
            p { (rows.len()) " of " (all) " backups" }
            (table(&rows, &wanted, now))
        }
    };
    Ok(layout::page(&user, "/backups", "Backups", &body))
}

/// The rows that are wanted, newest first.
fn select(mut rows: Vec<Arc<BackupRow>>, wanted: &Wanted) -> Vec<Arc<BackupRow>> {
    let search = wanted.search.trim().to_lowercase();
    rows.retain(|row| {
        let found =
            [&row.name, &row.schedule, &row.location].into_iter().any(|text| text.to_lowercase().contains(&search));
        found
            && (wanted.phase.is_empty() || *row.phase == *wanted.phase)
            && (wanted.schedule.is_empty() || *row.schedule == *wanted.schedule)
    });
    rows.sort_by(|one, other| other.run.created.cmp(&one.run.created).then_with(|| one.name.cmp(&other.name)));
    rows
}

fn filters(wanted: &Wanted) -> Markup {
    let phases = ["", "Completed", "PartiallyFailed", "Failed", "FailedValidation", "InProgress", "New", "Deleting"];
    html! {
        form.search method="get" role="search" {
            label { "Name, schedule or location " input type="search" name="search" value=(wanted.search); }
            label { "Phase "
                select name="phase" {
                    @for phase in phases {
                        option value=(phase) selected[phase == wanted.phase] { @if phase.is_empty() { "any" } @else { (phase) } }
                    }
                }
            }
            @if !wanted.schedule.is_empty() { input type="hidden" name="schedule" value=(wanted.schedule); }
            button { "Show" }
        }
    }
}

fn table(rows: &[Arc<BackupRow>], wanted: &Wanted, now: Timestamp) -> Markup {
    let first = wanted.page.saturating_mul(PAGE);
    let shown = rows.get(first..).unwrap_or_default();
    let entries = [("search", &wanted.search), ("phase", &wanted.phase), ("schedule", &wanted.schedule)];
    let rest: String = entries.iter().map(|(name, value)| parts::entry(name, value)).collect();
    html! {
        div.scroll tabindex="0" {
            table {
                thead { tr {
                    th { "Name" } th { "Phase" } th { "Created" } th { "Progress" } th { "Problems" } th { "Schedule" }
                    th { "Location" } th { "Expires" }
                } }
                tbody {
                    @for row in shown.iter().take(PAGE) { (table_row(row, now)) }
                    @if shown.is_empty() { tr { td colspan="8" { "No backup is like that." } } }
                }
            }
        }
        (parts::pager(wanted.page, shown.len() > PAGE, &rest))
    }
}

/// One backup of a table.
pub(crate) fn table_row(row: &BackupRow, now: Timestamp) -> Markup {
    html! {
        tr {
            td { a href=(format!("/backups/{}", row.name)) { (row.name) } }
            td { (parts::phase(&row.phase)) }
            td { (parts::moment(row.run.created, now)) }
            td { (parts::progress(&row.run, now)) }
            td { (parts::counts(&row.run)) }
            td { @if row.schedule.is_empty() { span.none { "–" } } @else { (row.schedule) } }
            td { (row.location) }
            td { (parts::moment(row.expires, now)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Run;

    fn row(name: &str, phase: &str, created: i64, schedule: &str) -> Arc<BackupRow> {
        Arc::new(BackupRow {
            name: name.into(),
            phase: phase.into(),
            schedule: schedule.into(),
            run: Run { created: Timestamp::from_second(created).ok(), ..Run::default() },
            ..BackupRow::default()
        })
    }

    fn names(wanted: &Wanted) -> Vec<String> {
        let rows =
            vec![row("a", "Completed", 1, "daily"), row("b", "Failed", 3, ""), row("c", "Completed", 2, "daily")];
        select(rows, wanted).iter().map(|row| row.name.to_string()).collect()
    }

    #[test]
    fn the_newest_come_first_and_filters_add_up() {
        assert_eq!(names(&Wanted::default()), ["b", "c", "a"]);
        assert_eq!(names(&Wanted { search: " DAILY ".to_owned(), ..Wanted::default() }), ["c", "a"]);
        assert_eq!(names(&Wanted { phase: "Failed".to_owned(), ..Wanted::default() }), ["b"]);
        let both = Wanted { schedule: "daily".to_owned(), search: "a".to_owned(), phase: "Failed".to_owned(), page: 0 };
        assert!(names(&both).is_empty());
    }

    #[test]
    fn ten_thousand_backups_make_a_small_page() {
        let rows: Vec<_> =
            (0..10_000).map(|number| row(&format!("daily-{number:05}"), "Completed", number, "daily")).collect();
        let rows = select(rows, &Wanted::default());
        let text = table(&rows, &Wanted::default(), Timestamp::UNIX_EPOCH).into_string();
        assert!(text.len() < 50 << 10, "{} bytes", text.len());
        assert!(text.contains("daily-09999") && !text.contains("daily-09949") && text.contains("?page=1"));
        let last = Wanted { page: 199, ..Wanted::default() };
        let text = table(&rows, &last, Timestamp::UNIX_EPOCH).into_string();
        assert!(text.contains("daily-00000") && !text.contains("rel=\"next\""));
        let far = Wanted { page: usize::MAX, ..Wanted::default() };
        assert!(table(&rows, &far, Timestamp::UNIX_EPOCH).into_string().contains("No backup"));
    }
}

//! The list of backups, newest first.

use std::sync::Arc;

use axum::extract::{Query, State};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::{Answer, layout, parts};
use crate::kept::Newest;
use crate::problem::Problem;
use crate::rows::BackupRow;
use crate::server::Shared;
use crate::user::{Right, User};

/// How many backups a page of the list has.
const PAGE: usize = 50;

/// The phases that can be asked for, those of most backups first.
const PHASES: [&str; 13] = [
    "Completed",
    "PartiallyFailed",
    "Failed",
    "FailedValidation",
    "New",
    "Queued",
    "ReadyToStart",
    "InProgress",
    "WaitingForPluginOperations",
    "WaitingForPluginOperationsPartiallyFailed",
    "Finalizing",
    "FinalizingPartiallyFailed",
    "Deleting",
];

/// What the list is to show.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// A part of the name, the schedule or the location.
    search: String,
    phase: String,
    schedule: String,
    page: usize,
}

impl Wanted {
    fn is_everything(&self) -> bool {
        self.search.trim().is_empty() && self.phase.is_empty() && self.schedule.is_empty()
    }

    fn wants(&self, row: &BackupRow, search: &str) -> bool {
        let found =
            [&row.name, &row.schedule, &row.location].into_iter().any(|text| text.to_lowercase().contains(search));
        found
            && (self.phase.is_empty() || *row.phase == *self.phase)
            && (self.schedule.is_empty() || *row.schedule == *self.schedule)
    }
}

/// A page of the list.
struct Found {
    all: usize,
    matched: usize,
    shown: Vec<Arc<BackupRow>>,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    user.must(Right::to("list", "backups")).await?;
    let may_create = user.may(Right::to("create", "backups")).await?;
    let (since, now) = (shared.index.backups.version(), Timestamp::now());
    let make = async { Ok::<_, Problem>(list(&find(&shared, &wanted).await?, &wanted, now)) };
    let list = shared.lists.get((since, now.as_second(), wanted.clone()), make).await?;
    let unreadable = shared.index.backups.unreadable().await?;
    let body = html! {
        h1 { "Backups" }
        @if may_create { p { a.button.main href="/new-backup" { "Back up now" } } }
        @else { p.none { "You may not create backups." } }
        (filters(&wanted))
        div #list data-live="backups" data-since=(since) { (parts::unreadable("/backups", &unreadable)) (list) }
    };
    Ok(layout::page(&user, "/backups", "Backups", &body))
}

/// Finds the rows of a page. Who looks for nothing gets them without a look at the others.
async fn find(shared: &Shared, wanted: &Wanted) -> Result<Found, Problem> {
    let backups = &shared.index.backups;
    if wanted.is_everything() {
        return backups.read(|kept| everything(&kept.digest().newest, wanted.page)).await;
    }
    let rows: Vec<Arc<BackupRow>> =
        backups.read(|kept| kept.digest().newest.iter().cloned().collect::<Vec<_>>()).await?;
    Ok(select(&rows, wanted))
}

fn everything(rows: &Newest<BackupRow>, page: usize) -> Found {
    let shown = rows.iter().skip(page.saturating_mul(PAGE)).take(PAGE).cloned().collect();
    Found { all: rows.len(), matched: rows.len(), shown }
}

/// The rows that are wanted, of all, newest first.
fn select(rows: &[Arc<BackupRow>], wanted: &Wanted) -> Found {
    let search = wanted.search.trim().to_lowercase();
    let matched: Vec<&Arc<BackupRow>> = rows.iter().filter(|row| wanted.wants(row, &search)).collect();
    let shown = matched.iter().skip(wanted.page.saturating_mul(PAGE)).take(PAGE).copied().cloned().collect();
    Found { all: rows.len(), matched: matched.len(), shown }
}

fn filters(wanted: &Wanted) -> Markup {
    // A phase that this version does not know is still the one that is asked for.
    let other = Some(wanted.phase.as_str()).filter(|phase| !phase.is_empty() && !PHASES.contains(phase));
    html! {
        form.search method="get" role="search" {
            label { "Name, schedule or location " input type="search" name="search" value=(wanted.search); }
            label { "Phase "
                select name="phase" {
                    option value="" { "any" }
                    @for phase in PHASES.into_iter().chain(other) {
                        option value=(phase) selected[phase == wanted.phase] { (phase) }
                    }
                }
            }
            @if !wanted.schedule.is_empty() { input type="hidden" name="schedule" value=(wanted.schedule); }
            button { "Show" }
        }
    }
}

fn list(Found { all, matched, shown }: &Found, wanted: &Wanted, now: Timestamp) -> Markup {
    let behind = wanted.page.saturating_mul(PAGE).saturating_add(shown.len());
    let entries = [("search", &wanted.search), ("phase", &wanted.phase), ("schedule", &wanted.schedule)];
    let rest: String = entries.iter().map(|(name, value)| parts::entry(name, value)).collect();
    html! {
        p { (matched) " of " (all) " backups" }
        div.scroll tabindex="0" {
            table {
                thead { tr {
                    th { "Name" } th { "Phase" } th { "Created" } th { "Progress" } th { "Problems" } th { "Schedule" }
                    th { "Location" } th { "Expires" }
                } }
                tbody {
                    @for row in shown { (table_row(row, now)) }
                    @if shown.is_empty() { tr { td colspan="8" { "No backup is like that." } } }
                }
            }
        }
        (parts::pager(wanted.page, !shown.is_empty() && behind < *matched, &rest))
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

    fn newest(rows: impl IntoIterator<Item = Arc<BackupRow>>) -> Newest<BackupRow> {
        let mut newest = Newest::default();
        for row in rows {
            newest.add(&row);
        }
        newest
    }

    fn names(wanted: &Wanted) -> Vec<String> {
        let rows =
            newest([row("a", "Completed", 1, "daily"), row("b", "Failed", 3, ""), row("c", "Completed", 2, "daily")]);
        let rows: Vec<_> = rows.iter().cloned().collect();
        select(&rows, wanted).shown.iter().map(|row| row.name.to_string()).collect()
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
    fn the_phase_that_is_asked_for_is_the_one_that_is_chosen() {
        let chosen = |phase: &str| {
            let text = filters(&Wanted { phase: phase.to_owned(), ..Wanted::default() }).into_string();
            text.matches(" selected>").count() == usize::from(!phase.is_empty())
                && (phase.is_empty() || text.contains(&format!("<option value=\"{phase}\" selected>")))
        };
        for phase in ["", "Finalizing", "WaitingForPluginOperations", "PhaseOfTomorrow"] {
            assert!(chosen(phase), "{phase}");
        }
    }

    #[test]
    fn ten_thousand_backups_make_a_small_page() {
        let rows = newest((0..10_000).map(|number| row(&format!("daily-{number:05}"), "Completed", number, "daily")));
        let text = |wanted: &Wanted| list(&everything(&rows, wanted.page), wanted, Timestamp::UNIX_EPOCH).into_string();
        let first = text(&Wanted::default());
        assert!(first.len() < 50 << 10, "{} bytes", first.len());
        assert!(first.contains("10000 of 10000 backups") && first.contains("?page=1"), "{first}");
        assert!(first.contains("daily-09999") && !first.contains("daily-09949"), "{first}");
        let last = text(&Wanted { page: 199, ..Wanted::default() });
        assert!(last.contains("daily-00000") && !last.contains("rel=\"next\""), "{last}");
        assert!(text(&Wanted { page: usize::MAX, ..Wanted::default() }).contains("No backup"));
    }

    #[test]
    fn what_is_found_by_a_search_has_the_pages_that_it_needs() {
        let rows: Vec<_> = (0..120).map(|number| row(&format!("daily-{number}"), "Completed", number, "")).collect();
        let page = |page: usize| {
            let wanted = Wanted { search: "daily".to_owned(), page, ..Wanted::default() };
            let found = select(&rows, &wanted);
            let text = list(&found, &wanted, Timestamp::UNIX_EPOCH).into_string();
            (found.matched, found.shown.len(), text.contains("rel=\"next\""))
        };
        assert_eq!(
            [page(0), page(1), page(2), page(3)],
            [(120, 50, true), (120, 50, true), (120, 20, false), (120, 0, false)]
        );
    }
}

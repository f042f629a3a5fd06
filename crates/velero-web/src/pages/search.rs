//! Which backup holds this object? The lists of the newest backups are read first; the page says how far it came and goes on.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Query, State};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use tokio::time::timeout_at;
use velero_api::v1::DownloadTargetKind;

use super::{Answer, layout, parts};
use crate::files::{FileProblem, Listing, READING, Search};
use crate::rows::BackupRow;
use crate::server::Shared;
use crate::text::address_part;
use crate::user::{Right, User};

/// How many backups are looked at for one page.
const BACKUPS: usize = 25;
/// How many objects of a backup are named.
const NAMED: usize = 5;

/// What is looked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    kind: String,
    namespace: String,
    name: String,
    /// The last backup that was looked at, as `<when it was made>.<name>`; empty at the beginning.
    after: String,
}

impl Wanted {
    fn search(&self) -> Option<Search> {
        let [kind, namespace, name] = [&self.kind, &self.namespace, &self.name].map(|text| text.trim().to_owned());
        let says_something = !(kind.is_empty() && namespace.is_empty() && name.is_empty());
        says_something.then_some(Search::Object { kind, namespace, name })
    }

    fn rest(&self) -> String {
        let entries = [("kind", &self.kind), ("namespace", &self.namespace), ("name", &self.name)];
        entries.iter().map(|(name, value)| parts::entry(name, value)).collect()
    }
}

/// What was found.
#[derive(Default)]
struct Findings {
    /// Backups that hold it, with what they hold.
    holding: Vec<(Arc<BackupRow>, Listing)>,
    /// Backups whose list could not be read, and why.
    unread: Vec<(String, String)>,
    /// How many were looked at now.
    looked_at: usize,
    /// How many are left to look at.
    left: usize,
    /// The last one that was looked at.
    last: Option<Arc<BackupRow>>,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    user.must_all([Right::to("list", "backups"), Right::FILES]).await?;
    let result = match wanted.search() {
        None => html! {},
        Some(search) => {
            let rows = rest_of(shared.index.backups.rows().await?, &wanted.after);
            let unreadable = shared.index.backups.unreadable().await?;
            let found = result(&look(&shared, rows, &search).await, &wanted);
            html! { (parts::unreadable("/backups", &unreadable)) (found) }
        }
    };
    let body = html! {
        h1 { "Which backup holds this object?" }
        form.search method="get" role="search" {
            label { "Kind " input name="kind" value=(wanted.kind) placeholder="Deployment"; }
            label { "Namespace " input name="namespace" value=(wanted.namespace); }
            label { "Name, or a part of it " input type="search" name="name" value=(wanted.name); }
            button { "Search" }
        }
        (result)
    };
    Ok(layout::page(&user, "/search", "Search", &body))
}

/// The backups that have lists and come after the last one that was looked at, newest first.
fn rest_of(mut rows: Vec<Arc<BackupRow>>, after: &str) -> Vec<Arc<BackupRow>> {
    rows.retain(|row| row.has_files);
    rows.sort_by(|one, other| place(one).cmp(&place(other)));
    let Some((seconds, name)) = after.split_once('.') else { return rows };
    let Ok(seconds) = seconds.parse::<i64>() else { return rows };
    rows.retain(|row| place(row) > (seconds.saturating_neg(), name));
    rows
}

/// Where a backup stands in the order.
fn place(row: &BackupRow) -> (i64, &str) {
    (-made(row), &row.name)
}

fn made(row: &BackupRow) -> i64 {
    row.run.created.map(Timestamp::as_second).unwrap_or_default()
}

/// Looks at one list after the other until there are enough or the time is over; at one in any case.
async fn look(shared: &Shared, rows: Vec<Arc<BackupRow>>, search: &Search) -> Findings {
    let mut findings = Findings { left: rows.len(), ..Findings::default() };
    let deadline = Instant::now() + READING;
    let _place = shared.file_places.acquire().await;
    for row in rows.into_iter().take(BACKUPS) {
        if findings.looked_at > 0 && Instant::now() > deadline {
            break;
        }
        let kind = DownloadTargetKind::BackupResourceList;
        let read = Listing::read(&*shared.means.files, kind, &row.name, search.clone(), 0);
        let read = timeout_at(deadline.into(), read).await;
        findings.looked_at += 1;
        findings.left -= 1;
        findings.last = Some(Arc::clone(&row));
        match read.unwrap_or_else(|_| Err(FileProblem::Away("reading its list took too long".to_owned()))) {
            Ok(listing) if listing.matched > 0 => findings.holding.push((row, listing)),
            Ok(_) => {}
            Err(problem) => findings.unread.push((row.name.to_string(), problem.to_string())),
        }
    }
    findings
}

fn result(findings: &Findings, wanted: &Wanted) -> Markup {
    let Findings { holding, unread, looked_at, left, last } = findings;
    html! {
        p {
            strong { (holding.len()) " of " (looked_at) " backups hold it" }
            @if wanted.after.is_empty() { ", the newest that there are. " } @else { ", older than those before. " }
            @if *left > 0 { (left) " older ones were not looked at yet." } @else { "There are no others." }
        }
        @if !holding.is_empty() { (table(holding)) }
        @if !unread.is_empty() {
            div.note role="note" {
                p { strong { (unread.len()) " backups may hold it too: " } "their lists could not be read." }
                ul { @for (backup, problem) in unread { li { (backup) ": " (problem) } } }
            }
        }
        @if let Some(last) = last.as_ref().filter(|_| *left > 0) {
            nav.pager aria-label="Further backups" {
                a rel="next" href=(format!("?after={}.{}{}", made(last), last.name, wanted.rest())) { "Look at older backups" }
            }
        }
    }
}

fn table(holding: &[(Arc<BackupRow>, Listing)]) -> Markup {
    let now = Timestamp::now();
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { "Backup" } th { "Phase" } th { "Created" } th { "Objects" } } }
            tbody {
                @for (row, listing) in holding {
                    tr {
                        td { a href=(format!("/backups/{}", row.name)) { (row.name) } }
                        td { (parts::phase(&row.phase)) }
                        td { (parts::moment(row.run.created, now)) }
                        td { (objects(&row.name, listing)) }
                    }
                }
            }
        } }
    }
}

fn objects(backup: &str, listing: &Listing) -> Markup {
    let address = |kind: &str, name: &str| {
        format!("/backups/{backup}/object?kind={}&name={}", address_part(kind), address_part(name))
    };
    html! {
        @for object in listing.found.iter().take(NAMED) {
            div { (object.kind) " " a href=(address(&object.kind, &object.name)) { (object.name) } }
        }
        @if listing.matched > NAMED {
            a href=(format!("/backups/{backup}/objects")) { "and " (listing.matched - NAMED) " more" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Run;

    fn row(name: &str, created: i64, has_files: bool) -> Arc<BackupRow> {
        let run = Run { created: Timestamp::from_second(created).ok(), ..Run::default() };
        Arc::new(BackupRow { name: name.into(), run, has_files, ..BackupRow::default() })
    }

    #[test]
    fn backups_are_looked_at_newest_first_and_each_once() {
        let rows = || vec![row("old", 1, true), row("b", 5, true), row("a", 5, true), row("running", 9, false)];
        let names =
            |after: &str| -> Vec<String> { rest_of(rows(), after).iter().map(|row| row.name.to_string()).collect() };
        assert_eq!(names(""), ["a", "b", "old"]);
        assert_eq!(names("5.a"), ["b", "old"]);
        assert_eq!(names("5.aa"), ["b", "old"], "that one is gone meanwhile");
        assert_eq!(names("1.old"), [""; 0]);
        assert_eq!(names("nonsense"), ["a", "b", "old"]);
        assert_eq!(names(&format!("{}.x", i64::MIN)), [""; 0]);
    }

    #[test]
    fn the_page_says_how_far_it_came_and_leads_on() {
        let wanted = Wanted { name: "we&b".to_owned(), ..Wanted::default() };
        let unread = vec![("b".to_owned(), "<b>away</b>".to_owned())];
        let findings =
            Findings { unread, looked_at: 25, left: 75, last: Some(row("a", 5, true)), ..Default::default() };
        let text = result(&findings, &wanted).into_string();
        assert!(text.contains("0 of 25 backups") && text.contains("75 older ones"), "{text}");
        assert!(text.contains("?after=5.a&amp;name=we%26b") && !text.contains("<b>away"), "{text}");
        let all = Findings { looked_at: 3, ..Findings::default() };
        assert!(!result(&all, &wanted).into_string().contains("rel=\"next\""));
    }

    #[test]
    fn an_empty_question_is_none() {
        assert_eq!(Wanted { name: "  ".to_owned(), ..Wanted::default() }.search(), None);
    }
}

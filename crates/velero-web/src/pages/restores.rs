//! The list of restores, newest first.

use std::sync::Arc;

use axum::extract::{Query, State};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::{Answer, layout, parts};
use crate::rows::RestoreRow;
use crate::server::Shared;
use crate::user::{Right, User};

/// How many restores a page of the list has.
const PAGE: usize = 50;

/// What the list is to show.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// A part of the name or the backup.
    search: String,
    page: usize,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    user.must(Right::to("list", "restores")).await?;
    let since = shared.index.restores.version();
    let rows = select(shared.index.restores.rows().await?, &wanted);
    let unreadable = shared.index.restores.unreadable().await?;
    let body = html! {
        h1 { "Restores" }
        p { "A restore begins at its backup: choose one from the " a href="/backups" { "list of backups" } "." }
        (parts::search("Name or backup", &wanted.search))
        div #list data-live="restores" data-since=(since) { (parts::unreadable("/restores", &unreadable)) (list(&rows, &wanted)) }
    };
    Ok(layout::page(&user, "/restores", "Restores", &body))
}

fn select(mut rows: Vec<Arc<RestoreRow>>, wanted: &Wanted) -> Vec<Arc<RestoreRow>> {
    let search = wanted.search.trim().to_lowercase();
    rows.retain(|row| row.name.to_lowercase().contains(&search) || row.backup.to_lowercase().contains(&search));
    rows.sort_by(|one, other| other.run.created.cmp(&one.run.created).then_with(|| one.name.cmp(&other.name)));
    rows
}

fn list(rows: &[Arc<RestoreRow>], wanted: &Wanted) -> Markup {
    let rest = rows.get(wanted.page.saturating_mul(PAGE)..).unwrap_or_default();
    html! {
        (table(&rest[..rest.len().min(PAGE)], Timestamp::now()))
        (parts::pager(wanted.page, rest.len() > PAGE, &parts::entry("search", &wanted.search)))
    }
}

/// A table of restores.
pub(crate) fn table(rows: &[Arc<RestoreRow>], now: Timestamp) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { "Name" } th { "Phase" } th { "Created" } th { "Progress" } th { "Problems" } th { "Backup" } } }
            tbody {
                @for row in rows {
                    tr {
                        td { a href=(format!("/restores/{}", row.name)) { (row.name) } }
                        td { (parts::phase(&row.phase)) }
                        td { (parts::moment(row.run.created, now)) }
                        td { (parts::progress(&row.run, now)) }
                        td { (parts::counts(&row.run)) }
                        td { (row.backup) }
                    }
                }
                @if rows.is_empty() { tr { td colspan="6" { "No restore is like that." } } }
            }
        } }
    }
}

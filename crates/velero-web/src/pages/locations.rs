//! The backup locations, and what is wrong with them.

use axum::extract::{Query, State};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::{Answer, layout, parts};
use crate::rows::LocationRow;
use crate::server::Shared;
use crate::user::{Right, User};

/// How many locations a page of the list has.
const PAGE: usize = 50;

/// What the list is to show.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    page: usize,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    user.must(Right::to("list", "backupstoragelocations")).await?;
    let since = shared.index.locations.version();
    let rows = shared.index.locations.rows().await?;
    let unreadable = shared.index.locations.unreadable().await?;
    let (now, shown) = (Timestamp::now(), rows.get(wanted.page.saturating_mul(PAGE)..).unwrap_or_default());
    let body = html! {
        h1 { "Locations" }
        div #list data-live="locations" data-since=(since) {
            (parts::unreadable("/locations", &unreadable))
            p { (rows.len()) " locations" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Name" } th { "Phase" } th { "Provider" } th { "Bucket" } th { "Looked at" } th { "What is wrong" } } }
                tbody {
                    @for row in shown.iter().take(PAGE) { (table_row(row, now)) }
                    @if rows.is_empty() { tr { td colspan="6" { "There is no location: backups have no place to go." } } }
                    @else if shown.is_empty() { tr { td colspan="6" { "There are not so many locations." } } }
                }
            } }
            (parts::pager(wanted.page, shown.len() > PAGE, ""))
        }
    };
    Ok(layout::page(&user, "/locations", "Locations", &body))
}

fn table_row(row: &LocationRow, now: Timestamp) -> Markup {
    html! {
        tr {
            td { a href=(format!("/locations/{}", row.name)) { (row.name) } @if row.is_default { " (default)" } @if row.is_read_only { " (read only)" } }
            td { (parts::phase(&row.phase)) }
            td { (row.provider) }
            td { (row.bucket) @if !row.prefix.is_empty() { "/" (row.prefix) } }
            td { (parts::moment(row.validated, now)) }
            td { @if row.message.is_empty() { span.none { "–" } } @else { (row.message) } }
        }
    }
}

//! One backup location: whether it can be used, what lies in it, and the same as text.

use axum::extract::{Path, State};
use jiff::Timestamp;
use maud::{Markup, html};
use velero_api::metadata::name;
use velero_api::v1::BackupStorageLocation;

use super::{Answer, layout, parts};
use crate::command;
use crate::problem::Problem;
use crate::rows::{LocationRow, Row, without_noise};
use crate::server::Shared;
use crate::text;
use crate::user::{Right, User};

pub(crate) async fn show(State(shared): State<Shared>, user: User, Path(wanted): Path<String>) -> Answer {
    let since = shared.index.locations.version();
    let location: BackupStorageLocation = user.get(&wanted).await?;
    let row = LocationRow::of(&location).unwrap_or_default();
    let used = used(&shared, &user, &wanted).await?;
    let check = ["velero", "backup-location", "check", name(&location)];
    let body = html! {
        h1 { "Location " (wanted) }
        div #state data-live="locations" data-name=(wanted) data-since=(since) {
            (state(&row, Timestamp::now()))
            (used)
        }
        (parts::texts(&without_noise(&location), &command::of_location(&location)))
        details {
            summary { "Why it cannot be used, as a command" }
            (parts::as_command(&command::plain(&check, user.namespace())))
        }
    };
    Ok(layout::page(&user, "/locations", &wanted, &body))
}

fn state(row: &LocationRow, now: Timestamp) -> Markup {
    html! {
        (parts::facts(&[
            ("Phase", parts::phase(&row.phase)),
            ("Looked at", parts::moment(row.validated, now)),
            ("Provider", html! { (row.provider) }),
            ("Bucket", html! { (row.bucket) @if !row.prefix.is_empty() { "/" (row.prefix) } }),
            ("Default", html! { @if row.is_default { "yes" } @else { "no" } }),
            ("Can be written", html! { @if row.is_read_only { "no: read only" } @else { "yes" } }),
        ]))
        @if !row.message.is_empty() { div.note { p { strong { "What is wrong: " } (row.message) } } }
    }
}

/// How many backups lie there, and how much they have saved of volumes.
async fn used(shared: &Shared, user: &User, location: &str) -> Result<Markup, Problem> {
    let right = Right::to("list", "backups");
    let rights = [right, Right::to("list", "podvolumebackups"), Right::to("list", "datauploads")];
    let [backups, copies, uploads] = user.may_each(rights).await?;
    if !backups {
        return Ok(user.missing(right).note());
    }
    let mut own = shared.index.backups.rows().await?;
    own.retain(|row| *row.location == *location);
    let sum = match copies && uploads {
        true => Some(shared.index.sum_of(&own).await?),
        false => None,
    };
    let unreadable = shared.index.backups.unreadable().await?;
    Ok(html! {
        (parts::unreadable("/backups", &unreadable))
        (parts::facts(&[
            ("Backups in it", html! { (own.len()) }),
            ("Data of volumes in them", match sum {
                Some(sum) => html! { (text::size(i64::try_from(sum).unwrap_or(i64::MAX))) },
                None => html! { span.none { "not shown: you may not list podvolumebackups and datauploads" } },
            }),
        ]))
    })
}

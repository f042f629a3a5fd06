//! The log of a backup or restore, with a search.

use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use velero_api::v1::{Backup, DownloadTargetKind, Restore};

use super::{Answer, layout, parts};
use crate::files::{LogPage, Wanted};
use crate::server::Shared;
use crate::user::{Right, User};

pub(crate) async fn of_backup(
    State(shared): State<Shared>,
    user: User,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    user.get::<Backup>(&name).await?;
    show(&shared, &user, ("backup", "/backups", DownloadTargetKind::BackupLog), &name, wanted).await
}

pub(crate) async fn of_restore(
    State(shared): State<Shared>,
    user: User,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    user.get::<Restore>(&name).await?;
    show(&shared, &user, ("restore", "/restores", DownloadTargetKind::RestoreLog), &name, wanted).await
}

async fn show(
    shared: &Shared,
    user: &User,
    (word, place, kind): (&str, &str, DownloadTargetKind),
    name: &str,
    wanted: Wanted,
) -> Answer {
    user.must(Right::FILES).await?;
    let _place = shared.file_places.acquire().await;
    let page = LogPage::read(&*shared.means.files, kind, name, wanted.clone()).await?;
    let title = format!("Log of {word} {name}");
    let body = html! {
        h1 { "Log of " (word) " " a href=(format!("{place}/{name}")) { (name) } }
        (parts::search("Lines with", &wanted.search))
        (text(&page))
        (parts::pager(wanted.page, page.more, &parts::entry("search", &wanted.search)))
    };
    Ok(layout::page(user, place, &title, &body))
}

fn text(page: &LogPage) -> Markup {
    html! {
        @if page.given_up {
            div.note { p { "The log is so long that it was not read to its end: `velero backup logs` gives all of it." } }
        }
        @if page.lines.is_empty() { p { "No line is like that." } }
        pre.log tabindex="0" {
            @for line in &page.lines { span.number { (format!("{:>6} ", line.number)) } (line.text) "\n" }
        }
    }
}

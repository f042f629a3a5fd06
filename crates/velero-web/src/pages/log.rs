//! The log of a backup or restore, with a search.

use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use velero_api::v1::{Backup, DownloadTargetKind, Restore};

use super::{Answer, layout, parts};
use crate::files::{LONGEST_LINE, LogPage, Wanted};
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
        (text(&page, !wanted.search.is_empty()))
        (parts::pager(wanted.page, page.more, &parts::entry("search", &wanted.search)))
    };
    Ok(layout::page(user, place, &title, &body))
}

fn text(page: &LogPage, is_searched: bool) -> Markup {
    html! {
        @if page.given_up {
            div.note { p { "The log is so long that it was not read to its end: `velero backup logs` gives all of it." } }
        }
        @if is_searched && page.cut > 0 {
            div.note { p { (page.cut) " lines have more than " (LONGEST_LINE) " bytes: of those the search saw the beginning only." } }
        }
        @if page.lines.is_empty() {
            p { @if page.given_up { "What was read has no such line." } @else { "No line is like that." } }
        }
        pre.log tabindex="0" {
            @for line in &page.lines {
                span.number { (format!("{:>6} ", line.number)) } (line.text) @if line.is_cut { "…" } "\n"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::LogLine;

    #[test]
    fn what_was_not_read_to_its_end_is_said() {
        let line = |number, is_cut| LogLine { number, text: format!("<b>{number}"), is_cut };
        let page = LogPage { lines: vec![line(1, true), line(2, false)], cut: 1, ..LogPage::default() };
        let shown = text(&page, true).into_string();
        assert!(shown.contains("&lt;b&gt;1…\n") && shown.contains("&lt;b&gt;2\n"), "{shown}");
        assert!(shown.contains("1 lines have more than 4096 bytes"), "{shown}");
        assert!(!text(&page, false).into_string().contains("4096"), "nothing was searched");
    }

    #[test]
    fn only_who_has_read_all_knows_that_no_line_is_like_that() {
        let none = |given_up| text(&LogPage { given_up, ..LogPage::default() }, true).into_string();
        assert!(none(false).contains("No line is like that"));
        let given_up = none(true);
        assert!(!given_up.contains("No line is like that") && given_up.contains("has no such line"), "{given_up}");
    }
}

//! The second step of a restore: what it would do, and the button that starts it.

use axum::extract::{Path, Query, State};
use axum::response::Redirect;
use kube::api::DeleteParams;
use maud::{Markup, html};
use serde::Deserialize;
use velero_api::records::Results;
use velero_api::v1::{DownloadTargetKind, Ending, Restore};
use velero_api::{dry_run, metadata};
use velero_engine::restore::{ItemPreview, PreviewAction};

use super::Done;
use crate::form::Fields;
use crate::pages::{Answer, layout, parts};
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};
use crate::{command, files};

/// How many objects a page has.
const PAGE: usize = 100;

/// What the server has found out.
#[derive(Deserialize)]
struct Report {
    items: Vec<ItemPreview>,
    #[serde(default)]
    warnings: Results,
    #[serde(default)]
    errors: Results,
}

/// Which objects are shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    page: usize,
}

pub(crate) async fn show(
    State(shared): State<Shared>,
    user: User,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let since = shared.index.restores.version();
    let question = question(&user, &name).await?;
    user.must(Right::FILES).await?;
    let restore = dry_run::wanted(&question);
    let answer = match question.status.phase().ending() {
        None => {
            html! { p { "The server is looking. " a href="" { "Load the page again" } " to see whether it is done." } }
        }
        Some(Ending::Completed) => found(&shared, &user, &name, wanted.page).await?,
        Some(_) => html! {
            @for problem in &question.status.validation_errors { div.note { p { strong { "It would be refused: " } (problem) } } }
            @if !question.status.failure_reason.is_empty() { div.note { p { (question.status.failure_reason) } } }
        },
    };
    let body = html! {
        h1 { "What restore " (metadata::name(&restore)) " would do" }
        p { "From backup " (restore.spec.backup_name) ". Nothing has been changed yet." }
        div #state data-live="restores" data-since=(since) { (answer) }
        (parts::texts(&as_asked(&restore), &command::of_restore(&restore)))
    };
    Ok(layout::page(&user, "/restores", "What it would do", &body))
}

async fn question(user: &User, name: &str) -> Result<Restore, Problem> {
    let question: Restore = user.get(name).await?;
    match dry_run::is_asked(&question) {
        true => Ok(question),
        false => Err(Problem::NotFound(format!("restore {name:?} is no dry run"))),
    }
}

async fn found(shared: &Shared, user: &User, name: &str, page: usize) -> Result<Markup, Problem> {
    let report: Report = {
        let _place = shared.file_places.acquire().await;
        files::document(&*shared.means.files, &files::target(DownloadTargetKind::RestoreResults, name)).await?
    };
    let count = |action: PreviewAction| report.items.iter().filter(|item| item.action == action).count();
    let shown = report.items.get(page.saturating_mul(PAGE)..).unwrap_or_default();
    Ok(html! {
        (parts::facts(&[
            ("Created", html! { (count(PreviewAction::Create)) }),
            ("Changed", html! { (count(PreviewAction::Update)) }),
            ("Left alone", html! { (count(PreviewAction::Skip)) }),
            ("There and different", html! { (count(PreviewAction::Conflict)) }),
            ("Failing", html! { (count(PreviewAction::Fail)) }),
        ]))
        form.actions method="post" { (layout::form_token(user)) button.main { "Start the restore" } }
        (parts::causes("Errors", &report.errors))
        (parts::causes("Warnings", &report.warnings))
        (table(shown))
        (parts::pager(page, shown.len() > PAGE, ""))
    })
}

fn table(items: &[ItemPreview]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { "What" } th { "Object" } th { "Why, and what changes" } } }
            tbody {
                @for item in items.iter().take(PAGE) {
                    tr {
                        td { (word(item.action)) }
                        td { (item.resource) " " @if let Some(namespace) = &item.namespace { (namespace) "/" } (item.name) }
                        td { (item.reason)
                            @if !item.changes.is_empty() { details { summary { (item.changes.len()) @if item.changes.len() == 1 { " change" } @else { " changes" } }
                                pre { (command::yaml(&item.changes)) } } }
                        }
                    }
                }
            }
        } }
    }
}

fn word(action: PreviewAction) -> &'static str {
    match action {
        PreviewAction::Create => "create",
        PreviewAction::Update => "change",
        PreviewAction::Skip => "leave alone",
        PreviewAction::Conflict => "there and different",
        PreviewAction::Fail => "fail",
    }
}

/// Starts the restore that was looked at, and removes the question.
pub(crate) async fn start(State(_): State<Shared>, user: User, Path(name): Path<String>, _form: Fields) -> Done {
    let question = question(&user, &name).await?;
    let made = user.create(&as_asked(&dry_run::wanted(&question))).await?;
    // The server removes it after an hour in any case; who may not delete it has restored nevertheless.
    let _ = user.api::<Restore>().delete(&name, &DeleteParams::default()).await;
    Ok(Redirect::to(&format!("/restores/{}", metadata::name(&made))))
}

/// The restore without what makes it a question.
fn as_asked(restore: &Restore) -> Restore {
    let name = metadata::name(restore);
    Restore::new(metadata::namespace(restore), name, restore.spec.clone())
}

#[cfg(test)]
mod tests {
    use velero_api::v1::RestoreSpec;

    use super::*;

    #[test]
    fn what_is_started_is_what_was_looked_at_and_no_question() {
        let spec = RestoreSpec { backup_name: "b".to_owned(), ..RestoreSpec::default() };
        let wish = Restore::new("velero", "r", spec);
        let mut question = dry_run::ask(&wish, "dry-run-1");
        dry_run::take(&mut question, "v1", "b");
        let started = as_asked(&dry_run::wanted(&question));
        assert!(!dry_run::is_asked(&started));
        assert_eq!((&started.spec, metadata::name(&started)), (&wish.spec, "r"));
        assert_eq!(metadata::namespace(&started), "velero");
    }
}

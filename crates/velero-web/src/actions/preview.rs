//! The second step of a restore: what it would do, and the button that starts it.

use axum::extract::{Path, Query, State};
use axum::response::Redirect;
use kube::api::DeleteParams;
use maud::{Markup, html};
use serde::Deserialize;
use velero_api::v1::{Ending, Restore};
use velero_api::{dry_run, metadata};
use velero_engine::restore::{ItemPreview, PreviewAction};

use super::Done;
use crate::command;
use crate::files::Preview;
use crate::form::Fields;
use crate::pages::{Answer, layout, parts};
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

/// How much is shown of what changes in an object.
const LONGEST_CHANGES: usize = 16 << 10;

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
    let ending = question.status.phase().ending();
    // Once there is an answer nothing changes any more, and the report is not read again.
    let live = ending.is_none().then_some("restores");
    let answer = match ending {
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
        div #state data-live=[live] data-since=(since) { (answer) }
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
    let found = {
        let _place = shared.file_places.acquire().await;
        Preview::read(&*shared.means.files, name, page).await?
    };
    let count = |action: PreviewAction| html! { (found.count(action)) };
    Ok(html! {
        (parts::facts(&[
            ("Created", count(PreviewAction::Create)),
            ("Changed", count(PreviewAction::Update)),
            ("Left alone", count(PreviewAction::Skip)),
            ("There and different", count(PreviewAction::Conflict)),
            ("Failing", count(PreviewAction::Fail)),
        ]))
        form.actions method="post" { (layout::form_token(user)) button.main { "Start the restore" } }
        (parts::causes("Errors", &found.errors))
        (parts::causes("Warnings", &found.warnings))
        (table(&found.shown))
        (parts::pager(page, found.more, ""))
    })
}

fn table(items: &[ItemPreview]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { "What" } th { "Object" } th { "Why, and what changes" } } }
            tbody {
                @for item in items {
                    tr {
                        td { (word(item.action)) }
                        td { (item.resource) " " @if let Some(namespace) = &item.namespace { (namespace) "/" } (item.name) }
                        td { (item.reason)
                            @if !item.changes.is_empty() { details { summary { (item.changes.len()) @if item.changes.len() == 1 { " change" } @else { " changes" } }
                                pre { (changes(item)) } } }
                        }
                    }
                }
            }
        } }
    }
}

/// What changes in an object, as far as it is shown: it may be a megabyte.
fn changes(item: &ItemPreview) -> String {
    let text = command::yaml(&item.changes);
    match text.char_indices().nth(LONGEST_CHANGES) {
        Some((end, _)) => format!("{}\n… and more: the command shows all of it", &text[..end]),
        None => text,
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
    use serde_json::json;
    use velero_api::v1::RestoreSpec;

    use super::*;

    #[test]
    fn a_change_of_any_size_makes_a_small_row() {
        let item = |value: &str| -> ItemPreview {
            let item = json!({"action": "update", "apiVersion": "v1", "kind": "ConfigMap", "resource": "configmaps",
                "name": "big", "changes": [{"path": "/data/k", "to": value}]});
            serde_json::from_value(item).unwrap()
        };
        let long = table(&[item(&"<é>".repeat(100_000))]).into_string();
        assert!(long.len() < 200 << 10 && long.contains("and more") && !long.contains("<é>"), "{} bytes", long.len());
        let short = table(&[item("new")]).into_string();
        assert!(short.contains("new") && !short.contains("and more"), "{short}");
    }

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

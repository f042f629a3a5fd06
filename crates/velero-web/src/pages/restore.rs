//! One restore: how far it is and what went wrong.

use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use maud::{Markup, html};
use velero_api::metadata::{name, namespace};
use velero_api::v1::{DownloadTargetKind, Restore};
use velero_rules::cancellation;

use super::paged::Lists;
use super::{Answer, layout, operations, parts, transfers, volumes};
use crate::files::FileProblem;
use crate::index::version_of;
use crate::problem::Problem;
use crate::rows::{RestoreRow, Row, without_noise};
use crate::server::Shared;
use crate::user::{Right, User};
use crate::{command, files};

pub(crate) async fn show(
    State(shared): State<Shared>,
    user: User,
    Path(wanted): Path<String>,
    Query(lists): Query<Lists>,
) -> Answer {
    let since = version_of(&shared.index.restore_changes());
    let restore: Restore = user.get(&wanted).await?;
    let [may_read, may_cancel] = user.may_each([Right::FILES, Right::to("patch", "restores")]).await?;
    let files = parts::beside(of_files(&shared, &user, &restore, may_read, lists)).await;
    let transfers = match restore.status.phase().stage().is_under_way() {
        true => transfers::of_restore(&user, &wanted).await,
        false => html! {},
    };
    let body = html! {
        h1 { "Restore " (wanted) }
        div #state data-live="restores" data-name=(wanted) data-since=(since) {
            (state(&restore))
            (actions(&user, &restore, may_read, may_cancel))
            (transfers)
            (files)
        }
        (parts::texts(&without_noise(&restore), &command::of_restore(&restore)))
        (commands(&restore))
    };
    Ok(layout::page(&user, "/restores", &wanted, &body))
}

fn state(restore: &Restore) -> Markup {
    let now = Timestamp::now();
    let row = RestoreRow::of(restore).unwrap_or_default();
    let (spec, status) = (&restore.spec, &restore.status);
    let operations = parts::operations(
        status.restore_item_operations_attempted,
        status.restore_item_operations_completed,
        status.restore_item_operations_failed,
    );
    let mappings: Vec<String> = spec.namespace_mapping.iter().map(|(from, to)| format!("{from} → {to}")).collect();
    html! {
        (parts::facts(&[
            ("Phase", parts::phase(status.phase().as_str())),
            ("Progress", parts::progress(&row.run, now)),
            ("Problems", parts::counts(&row.run)),
            ("Started", parts::moment(row.run.started, now)),
            ("Ended", parts::moment(row.run.ended, now)),
            ("Backup", html! { a href=(format!("/backups/{}", spec.backup_name)) { (spec.backup_name) } }),
            ("Namespaces", parts::names(&spec.included_namespaces, "all")),
            ("Other names", parts::names(&mappings, "none")),
            ("Operations", operations),
            ("Hooks", parts::hooks(status.hook_status.as_ref())),
        ]))
        @if !status.failure_reason.is_empty() { div.note { p { strong { "Why it failed: " } (status.failure_reason) } } }
        @for problem in &status.validation_errors { div.note { p { strong { "Refused: " } (problem) } } }
    }
}

fn actions(user: &User, restore: &Restore, may_read: bool, may_cancel: bool) -> Markup {
    let (address, stage) = (format!("/restores/{}", name(restore)), restore.status.phase().stage());
    let can_be_cancelled = cancellation::obstacle(stage, restore.metadata.deletion_timestamp.is_some()).is_none();
    html! {
        div.actions {
            @if may_read && stage.has_log() {
                a.button href=(format!("{address}/log")) { "Log" }
                a.button href=(format!("{address}/objects")) { "Objects" }
            }
            @if may_cancel && can_be_cancelled {
                form method="post" action=(format!("{address}/cancel")) { (layout::form_token(user)) button.danger { "Cancel" } }
            }
        }
        @if !may_cancel && can_be_cancelled { p.none { "You may not patch restores: it cannot be cancelled from here." } }
    }
}

/// What the files of the restore say: problems by cause, operations and volumes.
async fn of_files(shared: &Shared, user: &User, restore: &Restore, may_read: bool, lists: Lists) -> Markup {
    if !may_read {
        return user.missing(Right::FILES).note();
    }
    let (files, name, status) = (&*shared.means.files, name(restore), &restore.status);
    if !status.phase().stage().has_log() {
        return html! {};
    }
    let Ok(_place) = shared.file_places.acquire().await else { return html! {} };
    let results = async {
        let has_some = status.errors + status.warnings > 0;
        if has_some { Some(files::results(files, DownloadTargetKind::RestoreResults, name).await) } else { None }
    };
    let operations = async {
        let has_some = status.restore_item_operations_attempted > 0;
        if has_some { Some(files::restore_operations(files, name).await) } else { None }
    };
    let (results, operations, volumes) = tokio::join!(results, operations, files::restored_volumes(files, name));
    html! {
        (parts::results(results))
        @match operations {
            Some(Ok(operations)) => (operations::of_restore(&operations, &lists.operations())),
            Some(Err(problem)) => (Problem::from(problem).note()),
            None => {},
        }
        @match volumes {
            Ok(volumes) => (volumes::restored(&volumes, &lists.volumes())),
            // Restores that failed early, and those of older servers, have none.
            Err(FileProblem::None(_)) => {},
            Err(problem) => (Problem::from(problem).note()),
        }
    }
}

/// What the buttons do, as commands.
fn commands(restore: &Restore) -> Markup {
    let (name, namespace) = (name(restore), namespace(restore));
    let all: [&[&str]; 4] = [
        &["velero", "restore", "describe", name, "--details"],
        &["velero", "restore", "logs", name],
        &["velero", "restore", "cancel", name],
        &["velero", "restore", "delete", name],
    ];
    html! {
        details {
            summary { "What can be done, as commands" }
            @for words in all { (parts::as_command(&command::plain(words, namespace))) }
        }
    }
}

//! One backup: how far it is, what it took, what went wrong, and what can be done with it.

use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use maud::{Markup, html};
use velero_api::metadata::{name, namespace};
use velero_api::v1::{Backup, DownloadTargetKind};
use velero_rules::cancellation;

use super::paged::Lists;
use super::{Answer, deletions, layout, operations, parts, transfers, volumes};
use crate::index::version_of;
use crate::problem::Problem;
use crate::rows::{BackupRow, Row, without_noise};
use crate::server::Shared;
use crate::user::{Right, User};
use crate::{command, files};

/// What may be done with a backup.
struct May {
    read_files: bool,
    restore: bool,
    cancel: bool,
    delete: bool,
}

pub(crate) async fn show(
    State(shared): State<Shared>,
    user: User,
    Path(wanted): Path<String>,
    Query(lists): Query<Lists>,
) -> Answer {
    let since = version_of(&shared.index.backup_changes());
    let backup: Backup = user.get(&wanted).await?;
    let rights = [
        Right::FILES,
        Right::to("create", "restores"),
        Right::to("patch", "backups"),
        Right::to("create", "deletebackuprequests"),
    ];
    let [read_files, restore, cancel, delete] = user.may_each(rights).await?;
    let may = May { read_files, restore, cancel, delete };
    let files = parts::beside(of_files(&shared, &user, &backup, &may, lists));
    let (files, deletions) = tokio::join!(files, deletions::of_backup(&user, &backup));
    let transfers = match backup.status.phase().stage().is_under_way() {
        true => transfers::of_backup(&user, &wanted).await,
        false => html! {},
    };
    let body = html! {
        h1 { "Backup " (wanted) }
        div #state data-live="backups" data-name=(wanted) data-since=(since) {
            (state(&backup))
            (deletions)
            (actions(&user, &backup, &may))
            (transfers)
            (files)
        }
        h2 { "What it takes" }
        (parts::scope(&backup.spec))
        (parts::texts(&without_noise(&backup), &command::of_backup(&backup)))
        (commands(&backup))
    };
    Ok(layout::page(&user, "/backups", &wanted, &body))
}

fn state(backup: &Backup) -> Markup {
    let now = Timestamp::now();
    let row = BackupRow::of(backup).unwrap_or_default();
    let status = &backup.status;
    let operations = parts::operations(
        status.backup_item_operations_attempted,
        status.backup_item_operations_completed,
        status.backup_item_operations_failed,
    );
    html! {
        (parts::facts(&[
            ("Phase", parts::phase(&row.phase)),
            ("Progress", parts::progress(&row.run, now)),
            ("Problems", parts::counts(&row.run)),
            ("Started", parts::moment(row.run.started, now)),
            ("Ended", parts::moment(row.run.ended, now)),
            ("Expires", parts::moment(row.expires, now)),
            ("Location", html! { (row.location) }),
            ("Operations", operations),
            ("Hooks", parts::hooks(status.hook_status.as_ref())),
        ]))
        @if !status.failure_reason.is_empty() { div.note { p { strong { "Why it failed: " } (status.failure_reason) } } }
        @for problem in &status.validation_errors { div.note { p { strong { "Refused: " } (problem) } } }
    }
}

/// What can be done; what cannot be for want of a right is said.
fn actions(user: &User, backup: &Backup, may: &May) -> Markup {
    let (address, phase) = (format!("/backups/{}", name(backup)), backup.status.phase());
    let is_being_deleted = backup.metadata.deletion_timestamp.is_some();
    let can_be_cancelled = cancellation::obstacle(phase.stage(), is_being_deleted).is_none();
    html! {
        div.actions {
            @if may.read_files && phase.stage().has_log() {
                a.button href=(format!("{address}/log")) { "Log" }
                a.button href=(format!("{address}/objects")) { "Objects" }
                a.button href=(format!("{address}/compare")) { "Compare" }
            }
            @if may.restore && phase.is_restorable() {
                a.button.main href=(format!("/new-restore?backup={}", name(backup))) { "Restore" }
            }
            @if may.cancel && can_be_cancelled {
                form method="post" action=(format!("{address}/cancel")) { (layout::form_token(user)) button.danger { "Cancel" } }
            }
            @if may.delete && !is_being_deleted { a.button.danger href=(format!("{address}/delete")) { "Delete" } }
        }
        @if !may.restore { p.none { "You may not create restores." } }
        @if !may.delete { p.none { "You may not delete backups." } }
        @if !may.cancel && can_be_cancelled { p.none { "You may not patch backups: it cannot be cancelled from here." } }
    }
}

/// What the files of the backup say: problems by cause, and volumes.
async fn of_files(shared: &Shared, user: &User, backup: &Backup, may: &May, lists: Lists) -> Markup {
    if !may.read_files {
        return user.missing(Right::FILES).note();
    }
    let (files, name, status) = (&*shared.means.files, name(backup), &backup.status);
    if !status.phase().stage().has_log() {
        return html! {};
    }
    let Ok(_place) = shared.file_places.acquire().await else { return html! {} };
    let results = async {
        let has_some = status.errors + status.warnings > 0;
        if has_some { Some(files::results(files, DownloadTargetKind::BackupResults, name).await) } else { None }
    };
    let operations = async {
        let has_some = status.backup_item_operations_attempted > 0;
        if has_some { Some(files::operations(files, name).await) } else { None }
    };
    let (results, operations, volumes) = tokio::join!(results, operations, files::volumes(files, name));
    html! {
        (parts::results(results))
        @match operations {
            Some(Ok(operations)) => (operations::of_backup(&operations, &lists.operations())),
            Some(Err(problem)) => (Problem::from(problem).note()),
            None => {},
        }
        @match volumes {
            Ok(volumes) => (volumes::saved(&volumes, &lists.volumes())),
            Err(problem) => (Problem::from(problem).note()),
        }
    }
}

/// What the buttons do, as commands.
fn commands(backup: &Backup) -> Markup {
    let (name, namespace) = (name(backup), namespace(backup));
    let restore = format!("--from-backup={name}");
    let all: [&[&str]; 6] = [
        &["velero", "backup", "describe", name, "--details"],
        &["velero", "backup", "logs", name],
        &["velero", "backup", "download", name],
        &["velero", "restore", "create", &restore],
        &["velero", "backup", "cancel", name],
        &["velero", "backup", "delete", name],
    ];
    html! {
        details {
            summary { "What can be done, as commands" }
            @for words in all { (parts::as_command(&command::plain(words, namespace))) }
        }
    }
}

//! One backup: how far it is, what it took, what went wrong, and what can be done with it.

use axum::extract::{Path, State};
use jiff::Timestamp;
use maud::{Markup, html};
use velero_api::metadata::name;
use velero_api::records::BackupVolumeInfo;
use velero_api::v1::{Backup, DownloadTargetKind};
use velero_rules::cancellation;

use super::{Answer, layout, parts};
use crate::files;
use crate::problem::Problem;
use crate::rows::{BackupRow, Row};
use crate::server::Shared;
use crate::user::{Right, User};
use crate::{command, text};

/// How many volumes are shown.
const MOST_VOLUMES: usize = 200;

/// What may be done with a backup.
struct May {
    read_files: bool,
    restore: bool,
    cancel: bool,
    delete: bool,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Path(wanted): Path<String>) -> Answer {
    let backup: Backup = user.get(&wanted).await?;
    let rights = [
        Right::FILES,
        Right::to("create", "restores"),
        Right::to("patch", "backups"),
        Right::to("create", "deletebackuprequests"),
    ];
    let [read_files, restore, cancel, delete] = user.may_each(rights).await?;
    let may = May { read_files, restore, cancel, delete };
    let files = of_files(&shared, &user, &backup, &may).await;
    let body = html! {
        h1 { "Backup " (wanted) }
        div #state data-live="backups" {
            (state(&backup))
            (actions(&user, &backup, &may))
            (files)
        }
        h2 { "What it takes" }
        (scope(&backup))
        details { summary { "As YAML" } pre { (command::yaml(&without_noise(&backup))) } }
        details { summary { "As a command" } pre { (command::of_backup(&backup, None)) } }
    };
    Ok(layout::page(&user, "/backups", &wanted, &body))
}

fn state(backup: &Backup) -> Markup {
    let now = Timestamp::now();
    let row = BackupRow::of(backup).unwrap_or_default();
    let status = &backup.status;
    let hooks = status.hook_status.clone().unwrap_or_default();
    let operations = html! {
        (status.backup_item_operations_completed) " of " (status.backup_item_operations_attempted) " done"
        @if status.backup_item_operations_failed > 0 { ", " span.bad { (status.backup_item_operations_failed) " failed" } }
    };
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
            ("Hooks", html! { (hooks.hooks_attempted) " run, " (hooks.hooks_failed) " failed" }),
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
    }
}

/// What the files of the backup say: problems by cause, and volumes.
async fn of_files(shared: &Shared, user: &User, backup: &Backup, may: &May) -> Markup {
    if !may.read_files {
        return user.missing(Right::FILES).note();
    }
    if !backup.status.phase().stage().has_log() {
        return html! {};
    }
    let (files, name) = (&*shared.means.files, name(backup));
    let Ok(_place) = shared.file_places.acquire().await else { return html! {} };
    let has_problems = backup.status.errors + backup.status.warnings > 0;
    let results = async {
        if has_problems { Some(files::results(files, DownloadTargetKind::BackupResults, name).await) } else { None }
    };
    let (results, volumes) = tokio::join!(results, files::volumes(files, name));
    html! {
        @match results {
            Some(Ok(results)) => { (parts::causes("Errors", &results.errors)) (parts::causes("Warnings", &results.warnings)) },
            Some(Err(problem)) => (Problem::from(problem).note()),
            None => {},
        }
        @match volumes {
            Ok(volumes) if volumes.is_empty() => {},
            Ok(volumes) => { h2 { "Volumes" } (volume_table(&volumes)) },
            Err(problem) => (Problem::from(problem).note()),
        }
    }
}

fn volume_table(volumes: &[BackupVolumeInfo]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { "Claim" } th { "Volume" } th { "How" } th { "Size" } th { "What became of it" } } }
            tbody {
                @for volume in volumes.iter().take(MOST_VOLUMES) {
                    tr {
                        td { (volume.pvc_namespace) "/" (volume.pvc_name) }
                        td { (volume.pv_name) }
                        td { @match &volume.backup_method { Some(method) => (method.as_str()), None => "–" }
                             @if volume.snapshot_data_moved { ", data moved" } }
                        td { (volume_size(volume)) }
                        td { (volume_end(volume)) }
                    }
                }
            }
        } }
        @if volumes.len() > MOST_VOLUMES { p { "and " (volumes.len() - MOST_VOLUMES) " more" } }
    }
}

fn volume_size(volume: &BackupVolumeInfo) -> String {
    let moved = volume.snapshot_data_movement_info.as_ref().map(|info| info.size);
    let copied = volume.pvb_info.as_ref().map(|info| info.size);
    let snapshot = volume.csi_snapshot_info.as_ref().map(|info| info.size);
    moved.or(copied).or(snapshot).map_or_else(|| "–".to_owned(), text::size)
}

fn volume_end(volume: &BackupVolumeInfo) -> Markup {
    html! {
        @if volume.skipped { span.doubtful { "left out" } @if !volume.skipped_reason.is_empty() { ": " (volume.skipped_reason) } }
        @else if let Some(result) = &volume.result {
            @if result.as_str() == "succeeded" { span.good { "saved" } } @else { span.bad { (result.as_str()) } }
        } @else { span.none { "not told" } }
    }
}

fn scope(backup: &Backup) -> Markup {
    let spec = &backup.spec;
    let volumes = match (spec.snapshot_volumes, spec.default_volumes_to_fs_backup) {
        (_, Some(true)) => "copied through the file systems of pods",
        (Some(false), _) => "no snapshots",
        _ => "snapshots, where they can be taken",
    };
    let selected = spec.label_selector.is_some() || !spec.or_label_selectors.is_empty();
    parts::facts(&[
        ("Namespaces", parts::names(&spec.included_namespaces, "all")),
        ("but not", parts::names(&spec.excluded_namespaces, "none")),
        ("Types", parts::names(&spec.included_resources, "all")),
        ("but not", parts::names(&spec.excluded_resources, "none")),
        ("Labels", html! { @if selected { "only some: see the YAML" } @else { span.none { "any" } } }),
        ("Volumes", html! { (volumes) }),
    ])
}

/// The object without what only the API server wants to know.
fn without_noise(backup: &Backup) -> Backup {
    let mut backup = backup.clone();
    backup.metadata.managed_fields = None;
    backup
}

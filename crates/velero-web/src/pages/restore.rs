//! One restore: how far it is and what went wrong.

use axum::extract::{Path, State};
use jiff::Timestamp;
use maud::{Markup, html};
use velero_api::metadata::name;
use velero_api::v1::{DownloadTargetKind, Restore};
use velero_rules::cancellation;

use super::{Answer, layout, parts};
use crate::problem::Problem;
use crate::rows::{RestoreRow, Row};
use crate::server::Shared;
use crate::user::{Right, User};
use crate::{command, files};

pub(crate) async fn show(State(shared): State<Shared>, user: User, Path(wanted): Path<String>) -> Answer {
    let restore: Restore = user.get(&wanted).await?;
    let [may_read, may_cancel] = user.may_each([Right::FILES, Right::to("patch", "restores")]).await?;
    let problems = problems(&shared, &user, &restore, may_read).await;
    let mut shown = restore.clone();
    shown.metadata.managed_fields = None;
    let body = html! {
        h1 { "Restore " (wanted) }
        div #state data-live="restores" {
            (state(&restore))
            (actions(&user, &restore, may_read, may_cancel))
            (problems)
        }
        details { summary { "As YAML" } pre { (command::yaml(&shown)) } }
        details { summary { "As a command" } pre { (command::of_restore(&restore)) } }
    };
    Ok(layout::page(&user, "/restores", &wanted, &body))
}

fn state(restore: &Restore) -> Markup {
    let now = Timestamp::now();
    let row = RestoreRow::of(restore).unwrap_or_default();
    let (spec, status) = (&restore.spec, &restore.status);
    let hooks = status.hook_status.clone().unwrap_or_default();
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
            ("Hooks", html! { (hooks.hooks_attempted) " run, " (hooks.hooks_failed) " failed" }),
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
    }
}

async fn problems(shared: &Shared, user: &User, restore: &Restore, may_read: bool) -> Markup {
    if !may_read {
        return user.missing(Right::FILES).note();
    }
    let status = &restore.status;
    if !status.phase().stage().has_log() || status.errors + status.warnings == 0 {
        return html! {};
    }
    let Ok(_place) = shared.file_places.acquire().await else { return html! {} };
    match files::results(&*shared.means.files, DownloadTargetKind::RestoreResults, name(restore)).await {
        Ok(results) => {
            html! { (parts::causes("Errors", &results.errors)) (parts::causes("Warnings", &results.warnings)) }
        }
        Err(problem) => Problem::from(problem).note(),
    }
}

//! Deletes a backup with all its data, once its name has been typed.

use axum::extract::{Path, State};
use axum::response::Redirect;
use maud::html;
use velero_api::metadata;
use velero_api::v1::{Backup, DeleteBackupRequest};

use super::Done;
use crate::command;
use crate::form::Fields;
use crate::pages::{Answer, layout, parts};
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

pub(crate) async fn show(State(_): State<Shared>, user: User, Path(name): Path<String>) -> Answer {
    let backup: Backup = user.get(&name).await?;
    user.must(Right::to("create", "deletebackuprequests")).await?;
    let body = html! {
        h1 { "Delete backup " (name) }
        div.note { p { "Its files, its snapshots, its data of volumes and the records of its restores are deleted too. "
            "That cannot be taken back." } }
        form.fields method="post" {
            (layout::form_token(&user))
            input type="hidden" name="uid" value=(metadata::uid(&backup));
            label { "Type the name of the backup" input name="typed" required autocomplete="off" spellcheck="false"; }
            div.actions { button.danger { "Delete" } a.button href=(format!("/backups/{name}")) { "Keep it" } }
        }
        (parts::texts(&DeleteBackupRequest::of(&backup), &command::plain(&["velero", "backup", "delete", &name], user.namespace())))
    };
    Ok(layout::page(&user, "/backups", "Delete a backup", &body))
}

pub(crate) async fn submit(State(_): State<Shared>, user: User, Path(name): Path<String>, form: Fields) -> Done {
    let backup: Backup = user.get(&name).await?;
    user.must(Right::to("create", "deletebackuprequests")).await?;
    if form.get("typed") != name {
        let typed = form.get("typed");
        return Err(Problem::Bad(format!(
            "{typed:?} was typed and the backup is called {name:?}: nothing was deleted"
        )));
    }
    if form.get("uid") != metadata::uid(&backup) {
        return Err(Problem::Changed(format!("backup {name:?} is not the one that was shown: nothing was deleted")));
    }
    user.create(&DeleteBackupRequest::of(&backup)).await?;
    Ok(Redirect::to(&format!("/backups/{name}")))
}

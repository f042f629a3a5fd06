//! Deletes a backup with all its data, once its name has been typed.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::response::Redirect;
use maud::html;
use velero_api::v1::{Backup, DeleteBackupRequest, DeleteBackupRequestSpec};
use velero_api::{labels, metadata};

use super::Done;
use crate::form::Fields;
use crate::pages::{Answer, layout};
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

pub(crate) async fn show(State(_): State<Shared>, user: User, Path(name): Path<String>) -> Answer {
    user.get::<Backup>(&name).await?;
    user.must(Right::to("create", "deletebackuprequests")).await?;
    let body = html! {
        h1 { "Delete backup " (name) }
        div.note { p { "Its files, its snapshots, its data of volumes and the records of its restores are deleted too. "
            "That cannot be taken back." } }
        form.fields method="post" {
            (layout::form_token(&user))
            label { "Type the name of the backup" input name="typed" required autocomplete="off" spellcheck="false"; }
            div.actions { button.danger { "Delete" } a.button href=(format!("/backups/{name}")) { "Keep it" } }
        }
        details { summary { "As a command" } pre { "velero backup delete " (name) } }
    };
    Ok(layout::page(&user, "/backups", "Delete a backup", &body))
}

pub(crate) async fn submit(State(_): State<Shared>, user: User, Path(name): Path<String>, form: Fields) -> Done {
    let backup: Backup = user.get(&name).await?;
    if form.get("typed") != name {
        let typed = form.get("typed");
        return Err(Problem::Bad(format!(
            "{typed:?} was typed and the backup is called {name:?}: nothing was deleted"
        )));
    }
    user.create(&request(user.namespace(), &backup)).await?;
    Ok(Redirect::to(&format!("/backups/{name}")))
}

/// The request, as the command makes it.
fn request(namespace: &str, backup: &Backup) -> DeleteBackupRequest {
    let name = metadata::name(backup);
    let spec = DeleteBackupRequestSpec { backup_name: name.to_owned(), ..DeleteBackupRequestSpec::default() };
    let mut request = DeleteBackupRequest { spec, ..DeleteBackupRequest::default() };
    request.metadata.namespace = Some(namespace.to_owned());
    request.metadata.generate_name = Some(format!("{name}-"));
    request.metadata.labels = Some(BTreeMap::from([
        (labels::BACKUP_NAME.to_owned(), labels::valid_value(name)),
        (labels::BACKUP_UID.to_owned(), metadata::uid(backup).to_owned()),
    ]));
    request
}

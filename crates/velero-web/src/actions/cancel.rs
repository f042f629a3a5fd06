//! Asks the server to end a backup or restore: by the annotation that the commands write too.

use axum::extract::{Path, State};
use axum::response::Redirect;
use jiff::Timestamp;
use velero_api::annotations::CANCEL_REQUESTED;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, Restore, Stage};
use velero_rules::cancellation;

use super::Done;
use crate::form::Fields;
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::User;

/// How often it is tried when somebody else wrote in between: progress is written every second.
const TRIES: usize = 10;

pub(crate) async fn backup(State(_): State<Shared>, user: User, Path(name): Path<String>, _form: Fields) -> Done {
    request::<Backup>(&user, &name, |backup| backup.status.phase().stage()).await?;
    Ok(Redirect::to(&format!("/backups/{name}")))
}

pub(crate) async fn restore(State(_): State<Shared>, user: User, Path(name): Path<String>, _form: Fields) -> Done {
    request::<Restore>(&user, &name, |restore| restore.status.phase().stage()).await?;
    Ok(Redirect::to(&format!("/restores/{name}")))
}

async fn request<K: VeleroResource>(user: &User, name: &str, stage: fn(&K) -> Stage) -> Result<(), Problem> {
    let mut tries = 0;
    loop {
        let object: K = user.get(name).await?;
        if let Some(obstacle) = cancellation::obstacle(stage(&object), object.meta().deletion_timestamp.is_some()) {
            return Err(Problem::Refused(format!(
                "{} {name:?} cannot be cancelled: {obstacle}",
                K::KIND.to_lowercase()
            )));
        }
        let mut asking = object.clone();
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default().to_string();
        asking.meta_mut().annotations.get_or_insert_default().insert(CANCEL_REQUESTED.to_owned(), now);
        tries += 1;
        match user.change(&object, &asking).await {
            Err(Problem::Changed(_)) if tries < TRIES => {}
            changed => return changed.map(drop),
        }
    }
}

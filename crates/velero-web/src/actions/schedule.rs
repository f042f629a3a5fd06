//! Pauses a schedule, lets it go on, and makes a backup of it now.

use axum::extract::{Path, State};
use axum::response::Redirect;
use jiff::Zoned;
use velero_api::v1::{Backup, Schedule};
use velero_rules::schedule::{backup_annotations, backup_labels, backup_name};

use super::Done;
use crate::form::Fields;
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::User;

/// How often it is tried when the server wrote in between.
const TRIES: usize = 5;

pub(crate) async fn pause(State(_): State<Shared>, user: User, Path(name): Path<String>, _form: Fields) -> Done {
    set_paused(&user, &name, true).await
}

pub(crate) async fn resume(State(_): State<Shared>, user: User, Path(name): Path<String>, _form: Fields) -> Done {
    set_paused(&user, &name, false).await
}

async fn set_paused(user: &User, name: &str, paused: bool) -> Done {
    for _ in 0..TRIES {
        let schedule: Schedule = user.get(name).await?;
        let mut changed = schedule.clone();
        changed.spec.paused = paused;
        match user.change(&schedule, &changed).await {
            Err(Problem::Changed(_)) => {}
            answer => return answer.map(|_| Redirect::to("/schedules")),
        }
    }
    Err(Problem::Changed(format!("schedule {name:?} changes all the time; try again")))
}

/// Makes a backup as the schedule would.
pub(crate) async fn run(State(_): State<Shared>, user: User, Path(name): Path<String>, _form: Fields) -> Done {
    let schedule: Schedule = user.get(&name).await?;
    let name = backup_name(&name, &Zoned::now());
    user.create(&of_schedule(&schedule, user.namespace(), &name)).await?;
    Ok(Redirect::to(&format!("/backups/{name}")))
}

fn of_schedule(schedule: &Schedule, namespace: &str, name: &str) -> Backup {
    let mut backup = Backup::new(namespace, name, schedule.spec.template.clone());
    backup.metadata.labels = Some(backup_labels(schedule));
    backup.metadata.annotations = backup_annotations(schedule);
    backup
}

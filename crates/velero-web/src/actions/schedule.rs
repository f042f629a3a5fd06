//! Pauses a schedule, lets it go on, and makes a backup of it now.

use axum::extract::{Path, State};
use axum::response::Redirect;
use jiff::Zoned;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use velero_api::metadata;
use velero_api::resource::VeleroResource;
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
            // Its own page is read from the API server: the list may not have heard of the change yet.
            answer => return answer.map(|_| Redirect::to(&format!("/schedules/{name}"))),
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
    if schedule.spec.use_owner_references_in_backup == Some(true) {
        backup.metadata.owner_references = Some(vec![owner(schedule)]);
    }
    backup
}

/// The schedule as the owner of its backups: they go with it.
fn owner(schedule: &Schedule) -> OwnerReference {
    OwnerReference {
        api_version: Schedule::api_version_text(),
        kind: Schedule::KIND.to_owned(),
        name: metadata::name(schedule).to_owned(),
        uid: metadata::uid(schedule).to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

#[cfg(test)]
mod tests {
    use velero_api::labels::SCHEDULE_NAME;
    use velero_api::v1::ScheduleSpec;

    use super::*;

    #[test]
    fn a_backup_that_is_made_now_is_as_the_schedule_would_make_it() {
        let mut schedule = Schedule::new("velero", "daily", ScheduleSpec::default());
        schedule.metadata.uid = Some("of-daily".to_owned());
        schedule.spec.template.included_namespaces = vec!["shop".to_owned()];
        let backup = of_schedule(&schedule, "velero", "daily-1");
        assert_eq!((&backup.spec, metadata::name(&backup)), (&schedule.spec.template, "daily-1"));
        assert_eq!(metadata::label(&backup, SCHEDULE_NAME), "daily");
        assert_eq!(backup.metadata.owner_references, None);
        schedule.spec.use_owner_references_in_backup = Some(true);
        let owners = of_schedule(&schedule, "velero", "daily-1").metadata.owner_references.unwrap();
        assert_eq!((owners[0].kind.as_str(), owners[0].uid.as_str()), ("Schedule", "of-daily"));
    }
}

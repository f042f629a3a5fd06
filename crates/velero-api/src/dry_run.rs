//! A dry run: a Restore that asks what a restore would do.
//!
//! It is the restore as somebody wants it, under another name, and it names two sources: the backup or the schedule, and
//! beside it a name that no object can have. A restore with two sources is refused by every version of Velero before
//! anything is done, so a server that does not know dry runs can never take one for a restore to carry out.

use crate::annotations::{DRY_RUN, DRY_RUN_SERVER};
use crate::v1::Restore;

/// The second source of a dry run. No object can have this name.
const NO_SOURCE: &str = "velero.io/dry-run";

/// The request for a dry run of this restore, under a name of its own.
pub fn ask(restore: &Restore, name: &str) -> Restore {
    let mut request = restore.clone();
    let wanted = request.metadata.name.replace(name.to_owned()).unwrap_or_default();
    request.metadata.annotations.get_or_insert_default().insert(DRY_RUN.to_owned(), wanted);
    let spec = &mut request.spec;
    let missing = if spec.backup_name.is_empty() { &mut spec.backup_name } else { &mut spec.schedule_name };
    if missing.is_empty() {
        NO_SOURCE.clone_into(missing);
    }
    request
}

/// Whether a restore is only to be looked at. Whatever else it says, it is never carried out.
pub fn is_asked(restore: &Restore) -> bool {
    restore.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DRY_RUN))
}

/// The restore that a request is about: under its own name, and without an identity, since there is none yet.
pub fn wanted(request: &Restore) -> Restore {
    let mut restore = request.clone();
    let metadata = &mut restore.metadata;
    metadata.name = metadata.annotations.as_ref().and_then(|all| all.get(DRY_RUN)).cloned();
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.finalizers = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(DRY_RUN_SERVER);
    }
    restore.status = Default::default();
    let spec = &mut restore.spec;
    if spec.schedule_name == NO_SOURCE {
        spec.schedule_name.clear();
    } else {
        spec.backup_name.clear();
    }
    restore
}

/// The version of the server that took a request; none while nobody did.
pub fn taken_by(request: &Restore) -> Option<&str> {
    request.metadata.annotations.as_ref()?.get(DRY_RUN_SERVER).map(String::as_str)
}

/// Marks a request as taken by a server of this version. `backup` is what is looked at; the files are stored beside it.
pub fn take(request: &mut Restore, version: &str, backup: &str) {
    request.metadata.annotations.get_or_insert_default().insert(DRY_RUN_SERVER.to_owned(), version.to_owned());
    if !backup.is_empty() {
        backup.clone_into(&mut request.spec.backup_name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restore(backup: &str, schedule: &str) -> Restore {
        let mut restore = Restore::new("velero", "r", Default::default());
        restore.spec.backup_name = backup.to_owned();
        restore.spec.schedule_name = schedule.to_owned();
        restore
    }

    #[test]
    fn a_request_always_names_two_sources_and_gives_the_restore_back() {
        for wish in [restore("b", ""), restore("", "daily")] {
            let mut request = ask(&wish, "dry-run-1");
            assert!(is_asked(&request) && !is_asked(&wish));
            assert_eq!(request.metadata.name.as_deref(), Some("dry-run-1"));
            let sources =
                |request: &Restore| [request.spec.backup_name.is_empty(), request.spec.schedule_name.is_empty()];
            assert_eq!(sources(&request), [false, false], "nobody may carry it out");
            assert_eq!(wanted(&request).spec, wish.spec);
            assert_eq!(wanted(&request).metadata.name.as_deref(), Some("r"));
            take(&mut request, "v1", "daily-1");
            assert_eq!(sources(&request), [false, false], "nor once it is taken");
            assert_eq!(taken_by(&request), Some("v1"));
            assert_eq!(request.spec.backup_name, "daily-1");
        }
        let mut of_schedule = ask(&restore("", "daily"), "dry-run-1");
        take(&mut of_schedule, "v1", "daily-1");
        assert_eq!(wanted(&of_schedule).spec, restore("", "daily").spec, "asked again, it is the same question");
    }

    #[test]
    fn a_restore_that_is_looked_at_has_no_identity() {
        let mut request = ask(&restore("b", ""), "dry-run-1");
        request.metadata.uid = Some("u".to_owned());
        let restore = wanted(&request);
        assert_eq!(restore.metadata.uid, None);
        assert!(is_asked(&restore), "actions can tell");
    }
}

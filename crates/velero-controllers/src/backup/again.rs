//! Takes a backup again whose server was interrupted while it ran.
//!
//! That it is to be taken again, and under which name, is written with its end, so that whoever comes next makes the one
//! that replaces it; its name says whether that was done already.

use velero_api::annotations::{
    ASKED_FIELDS, ASKED_SPEC, CANCEL_REQUESTED, CLEAN_UP_OWED, HOLDER_IDENTITY, OWED_HOOKS, RETRIED_AS,
    RETRY_INTERRUPTED, RETRY_NUMBER, RETRY_OF, RETRY_OWED, SCHEDULED_BY,
};
use velero_api::labels;
use velero_api::metadata::{annotation, label, name, namespace};
use velero_api::v1::{Backup, BackupPhase, BackupSpec};
use velero_rules::asked::{asked_fields, asked_spec};
use velero_rules::interrupted::{Interrupted, Retry};

use crate::lifecycle::cancellation::requested;
use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result};

/// What an annotation says of one run and not of the next.
const OF_THE_RUN: [&str; 11] = [
    HOLDER_IDENTITY,
    OWED_HOOKS,
    CLEAN_UP_OWED,
    CANCEL_REQUESTED,
    ASKED_FIELDS,
    ASKED_SPEC,
    RETRY_OWED,
    RETRIED_AS,
    RETRY_OF,
    RETRY_NUMBER,
    SCHEDULED_BY,
];
/// How it is noted what was asked for: as it is done now, and as older servers did.
const ASKED: [&str; 2] = [ASKED_FIELDS, ASKED_SPEC];

/// Notes on a backup that begins what its spec said before the server completed it, if it would be taken again.
pub(super) fn keep_asked(begins: &mut Backup, asked: &BackupSpec) {
    // Who writes one from the YAML of another brings the notes of that along.
    if let Some(annotations) = &mut begins.metadata.annotations {
        annotations.retain(|key, _| !ASKED.contains(&key.as_str()));
    }
    if retry(begins).is_none() {
        return;
    }
    if let Some(asked) = asked_fields(asked, &begins.spec) {
        begins.metadata.annotations.get_or_insert_default().insert(ASKED_FIELDS.to_owned(), asked);
    }
}

/// Notes on a backup whose server was interrupted that it is to be taken again, if it is; `ran` is the backup while it ran.
pub(crate) fn owe_retry(interrupted: &mut Backup, ran: &Backup) {
    let Some(Retry { name, .. }) = retry(interrupted) else { return };
    let annotations = interrupted.metadata.annotations.get_or_insert_default();
    annotations.insert(RETRY_OWED.to_owned(), name);
    let asked = ASKED.map(|key| (key.to_owned(), annotation(ran, key).to_owned()));
    annotations.extend(asked.into_iter().filter(|(_, asked)| !asked.is_empty()));
}

/// Takes the note off a backup that had ended after all: there is nothing to be taken again.
pub(super) fn forget_retry(ended: &mut Backup) {
    let is_failed = *ended.status.phase() == BackupPhase::Failed;
    if let Some(annotations) = ended.metadata.annotations.as_mut().filter(|_| !is_failed) {
        annotations.retain(|key, _| key != RETRY_OWED && !ASKED.contains(&key.as_str()));
    }
}

/// Whether a backup is to be taken again.
pub(super) fn owes_retry(backup: &Backup) -> bool {
    *backup.status.phase() == BackupPhase::Failed && !annotation(backup, RETRY_OWED).is_empty()
}

/// Makes the backup that replaces an interrupted one, and notes that.
pub(super) async fn take_again(context: &Context, backup: &Backup) -> Result<()> {
    let mut settled = backup.clone();
    let annotations = settled.metadata.annotations.get_or_insert_default();
    annotations.retain(|key, _| key != RETRY_OWED && !ASKED.contains(&key.as_str()));
    if let Some(retry) = retry(backup) {
        let is_taken = match context.objects.create(&replacement(backup, &retry)).await {
            // An earlier server was interrupted between making it and noting that; or the name is somebody else's.
            Err(Error::Cluster(error)) if error.is_already_exists() => {
                let there = context.objects.get::<Backup>(&retry.name).await?;
                there.is_some_and(|there| annotation(&there, RETRY_OF) == name(backup))
            }
            created => created.map(|_| true)?,
        };
        if is_taken {
            tracing::info!(backup = name(backup), again = retry.name, "The interrupted backup is taken again");
            annotations.insert(RETRIED_AS.to_owned(), retry.name);
        } else {
            let problem = format!("it is not taken again: another backup is called {}", retry.name);
            tracing::error!(backup = name(backup), "{problem}");
            let reason = &mut settled.status.failure_reason;
            *reason = if reason.is_empty() { problem } else { format!("{reason}; {problem}") };
        }
    }
    match context.objects.force(backup, &settled).await {
        Err(Error::Cluster(error)) if error.is_not_found() => Ok(()),
        written => written.map(drop),
    }
}

fn retry(backup: &Backup) -> Option<Retry> {
    let interrupted = Interrupted {
        name: name(backup),
        schedule: label(backup, labels::SCHEDULE_NAME),
        wish: annotation(backup, RETRY_INTERRUPTED),
        number: annotation(backup, RETRY_NUMBER),
        is_unwanted: requested(backup).is_some() || backup.metadata.deletion_timestamp.is_some(),
    };
    interrupted.retry()
}

/// The backup that replaces an interrupted one: it is asked for the same, and says whom it replaces. What the server had
/// made of the spec would count as the user's choice.
fn replacement(backup: &Backup, retry: &Retry) -> Backup {
    let asked = asked(backup).unwrap_or_else(|error| {
        tracing::warn!(backup = name(backup), %error, "What was asked for cannot be read; it is taken again as it ran");
        backup.spec.clone()
    });
    let mut replacement = Backup::new(namespace(backup), &retry.name, asked);
    let metadata = &mut replacement.metadata;
    metadata.labels.clone_from(&backup.metadata.labels);
    metadata.owner_references.clone_from(&backup.metadata.owner_references);
    let mut annotations = backup.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !OF_THE_RUN.contains(&key.as_str()));
    annotations.insert(RETRY_OF.to_owned(), name(backup).to_owned());
    annotations.insert(RETRY_NUMBER.to_owned(), retry.number.to_string());
    metadata.annotations = Some(annotations);
    replacement
}

fn asked(backup: &Backup) -> serde_json::Result<BackupSpec> {
    match annotation(backup, ASKED_SPEC) {
        "" => asked_spec(annotation(backup, ASKED_FIELDS), &backup.spec),
        whole => serde_json::from_str(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduled() -> Backup {
        let mut backup = Backup::new("velero", "daily-1", Default::default());
        backup.spec.included_namespaces = vec!["shop".to_owned()];
        backup.status.phase = Some(BackupPhase::Failed);
        backup.metadata.uid = Some("u".to_owned());
        backup.metadata.labels = Some([(labels::SCHEDULE_NAME.to_owned(), "daily".to_owned())].into());
        let notes = [("team", "a"), (CLEAN_UP_OWED, "files"), (OWED_HOOKS, "[]"), (SCHEDULED_BY, "u")];
        backup.metadata.annotations = Some(notes.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        backup
    }

    #[test]
    fn what_replaces_an_interrupted_backup_takes_the_same_and_says_whom_it_replaces() {
        let mut ran = scheduled();
        let asked = ran.spec.clone();
        ran.spec.excluded_namespaces = vec!["labelled-out".to_owned()];
        keep_asked(&mut ran, &asked);
        let mut backup = scheduled();
        backup.spec = ran.spec.clone();
        owe_retry(&mut backup, &ran);
        assert!(owes_retry(&backup));
        assert_eq!(annotation(&backup, RETRY_OWED), "daily-1-retry-1");
        let again = replacement(&backup, &retry(&backup).unwrap());
        assert_eq!((name(&again), namespace(&again)), ("daily-1-retry-1", "velero"));
        assert_eq!(again.spec, asked, "what the server left out is not the choice of the user");
        assert_eq!(again.status, Default::default());
        assert_eq!(label(&again, labels::SCHEDULE_NAME), "daily");
        let notes = [("team", "a"), (RETRY_NUMBER, "1"), (RETRY_OF, "daily-1")];
        let notes: std::collections::BTreeMap<_, _> =
            notes.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(again.metadata.annotations, Some(notes));
        let second = retry(&again).unwrap();
        assert_eq!(second.name, "daily-1-retry-2");
        assert_eq!(retry(&replacement(&again, &second)), None, "twice is enough");
    }

    #[test]
    fn what_an_older_server_noted_of_a_backup_is_understood() {
        let mut ran = scheduled();
        let asked = ran.spec.clone();
        ran.spec.excluded_namespaces = vec!["labelled-out".to_owned()];
        let mut backup = ran.clone();
        let note = (ASKED_SPEC.to_owned(), serde_json::to_string(&asked).unwrap());
        ran.metadata.annotations.as_mut().unwrap().extend([note]);
        owe_retry(&mut backup, &ran);
        let again = replacement(&backup, &retry(&backup).unwrap());
        assert_eq!(again.spec, asked);
        assert_eq!(annotation(&again, ASKED_SPEC), "");
    }

    #[test]
    fn what_was_asked_of_another_backup_is_not_asked_of_one_that_is_written_from_it() {
        let mut copied = scheduled();
        let notes = [(ASKED_FIELDS, r#"{"includedNamespaces":["old"]}"#), (ASKED_SPEC, "{}")];
        let notes = notes.map(|(key, value)| (key.to_owned(), value.to_owned()));
        copied.metadata.annotations.as_mut().unwrap().extend(notes);
        let asked = copied.spec.clone();
        keep_asked(&mut copied, &asked);
        assert_eq!((annotation(&copied, ASKED_FIELDS), annotation(&copied, ASKED_SPEC)), ("", ""));
        assert_eq!(annotation(&copied, "team"), "a");
        let mut failed = copied.clone();
        owe_retry(&mut failed, &copied);
        assert_eq!(replacement(&failed, &retry(&failed).unwrap()).spec, asked);
    }

    #[test]
    fn one_that_had_ended_after_all_is_owed_nothing() {
        for (phase, is_owed) in [(BackupPhase::Failed, true), (BackupPhase::Completed, false)] {
            let mut backup = scheduled();
            let mut ran = scheduled();
            ran.metadata.annotations.as_mut().unwrap().insert(ASKED_FIELDS.to_owned(), "{}".to_owned());
            owe_retry(&mut backup, &ran);
            backup.status.phase = Some(phase);
            forget_retry(&mut backup);
            for note in [RETRY_OWED, ASKED_FIELDS] {
                assert_eq!(!annotation(&backup, note).is_empty(), is_owed, "{note} {}", backup.status.phase());
            }
            assert_eq!(annotation(&backup, "team"), "a");
        }
    }

    #[test]
    fn what_somebody_cancelled_is_not_taken_again() {
        let mut backup = scheduled();
        let cancelled = (CANCEL_REQUESTED.to_owned(), "true".to_owned());
        backup.metadata.annotations.as_mut().unwrap().extend([cancelled]);
        owe_retry(&mut backup, &scheduled());
        assert!(!owes_retry(&backup));
    }
}

//! The only way a backup or restore gets another phase.

use crate::lifecycle::kind::Kind;
use crate::runtime::clock;
use crate::runtime::error::{Error, Result};
use crate::runtime::holder::unsign;
use velero_api::annotations::{ASKED_FIELDS, ASKED_SPEC};
use velero_api::metadata::name;

/// Moves a backup or restore to a phase if the table of moves has it, and its conditions and notes with it.
pub(crate) fn move_to<K: Kind>(object: &mut K, phase: K::Phase) -> Result<()> {
    let current = object.phase();
    if !K::can_become(current, &phase) {
        let problem = format!("it cannot move from phase {current} to {phase}");
        return Err(Error::invalid(K::KIND, name(object), problem));
    }
    object.put_phase(phase);
    drop_notes(object);
    object.put_conditions(clock::now());
    Ok(())
}

/// Takes off a backup or restore what is noted beside other phases than the one it is in. Nobody holds one that is not
/// InProgress, and what it was asked for is needed beside its spec only while it runs or may be gone on with.
pub(crate) fn drop_notes<K: Kind>(object: &mut K) {
    let runs = *object.phase() == K::IN_PROGRESS;
    let can_be_resumed = K::IS_RESUMED && *object.phase() != K::COMPLETED;
    if !runs {
        unsign(object);
    }
    if !runs
        && !can_be_resumed
        && let Some(annotations) = &mut object.meta_mut().annotations
    {
        annotations.retain(|key, _| ![ASKED_FIELDS, ASKED_SPEC].contains(&key.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase};

    use super::*;

    #[test]
    fn a_move_that_is_not_in_the_table_is_refused() {
        let mut backup = Backup::new("velero", "b", Default::default());
        move_to(&mut backup, BackupPhase::Queued).unwrap();
        let error = move_to(&mut backup, BackupPhase::Completed).unwrap_err().to_string();
        assert!(error.contains("Queued") && error.contains("Completed"), "{error}");
        assert_eq!(*backup.status.phase(), BackupPhase::Queued);
        let mut restore = Restore::new("velero", "r", Default::default());
        move_to(&mut restore, RestorePhase::InProgress).unwrap();
        restore.metadata.annotations = Some([(ASKED_FIELDS.to_owned(), "{}".to_owned())].into());
        move_to(&mut restore, RestorePhase::Completed).unwrap();
        let error = move_to(&mut restore, RestorePhase::Failed).unwrap_err().to_string();
        assert!(error.contains("Completed") && error.contains("Failed"), "{error}");
        assert_eq!(*restore.status.phase(), RestorePhase::Completed);
        assert!(restore.metadata.annotations.unwrap().is_empty(), "nobody resumes it");
    }

    #[test]
    fn what_was_asked_for_is_known_of_a_failed_restore_and_not_of_a_failed_backup() {
        let notes =
            || Some([(ASKED_FIELDS.to_owned(), "{}".to_owned()), (ASKED_SPEC.to_owned(), "{}".to_owned())].into());
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.annotations = notes();
        backup.status.phase = Some(BackupPhase::InProgress);
        move_to(&mut backup, BackupPhase::Failed).unwrap();
        assert!(backup.metadata.annotations.unwrap().is_empty(), "whoever takes it again notes it anew");
        let mut restore = Restore::new("velero", "r", Default::default());
        restore.metadata.annotations = notes();
        restore.status.phase = Some(RestorePhase::InProgress);
        move_to(&mut restore, RestorePhase::Failed).unwrap();
        assert!(restore.metadata.annotations.unwrap().contains_key(ASKED_FIELDS));
    }
}

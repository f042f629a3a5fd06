//! The deletion of a backup, step by step.
//!
//! ```text
//! inspect ── can everything go that the backup owns? otherwise it is refused, and nothing was touched
//!   └─ begin ── the request says that it is worked on, and on which backup
//!        └─ take over ── who works on the backup is asked to leave, and given the time they need
//!             └─ mark ── the backup is Deleting: no restore begins from it any more
//!                  └─ end work ── its operations, and the restores that run from it
//!                       └─ snapshots ── files ── restores ── the object
//! ```
//!
//! Who carries it out says what is known ([`enter`]), does the step that comes back, and asks again. Every step can be
//! done twice. So a deletion whose server died, whose write met another one or whose answer was lost is entered again,
//! and is soon where it was.

use velero_api::v1::{BackupPhase, DeleteBackupRequestPhase};

use crate::retention::LocationState;

/// What is known of a backup that is to be deleted.
#[derive(Debug, Clone, Copy)]
pub struct BackupFacts<'a> {
    /// Its identity.
    pub uid: &'a str,
    /// Where it is in its life.
    pub phase: &'a BackupPhase,
    /// The name of its location; empty while it has none.
    pub location: &'a str,
    /// The state of that location.
    pub location_state: LocationState,
}

/// What a look at the files of a backup has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// Everything it owns can be removed.
    Removable,
    /// The files under its name are those of another backup; it owns none.
    OfAnother,
}

/// What is known of a deletion.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Where the request is in its life.
    pub request: &'a DeleteBackupRequestPhase,
    /// The name of the backup that the request asks for.
    pub backup_name: &'a str,
    /// The identity of the backup that the request is for; empty when it does not say.
    pub wanted_uid: &'a str,
    /// Whether the request is as old as requests get.
    pub is_old: bool,
    /// The backup of that name.
    pub backup: Option<BackupFacts<'a>>,
    /// What its files tell, once they were looked at.
    pub inspection: Option<Inspection>,
    /// Whether nobody else works on the backup until this deletion ends.
    pub is_held: bool,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the request was dealt with, and goes when its time is over.
    Expire,
    /// Say in the request why the backup is not deleted; nothing was touched.
    Refuse(String),
    /// Look again later, for this reason.
    Wait(String),
    /// Look whether everything can be removed that the backup owns, without touching it.
    Inspect,
    /// Say in the request that it is worked on.
    Begin,
    /// Ask who works on the backup to leave it.
    TakeOver,
    /// Say in the backup that it is being deleted.
    Mark,
    /// Cancel its operations, end the restores from it, and wait a while until they have ended.
    EndWork,
    /// Remove its snapshots.
    RemoveSnapshots,
    /// Remove its files.
    RemoveFiles,
    /// Remove its restores.
    RemoveRestores,
    /// Remove the backup itself.
    RemoveObject,
    /// Say in the request what came of it.
    Finish,
}

/// The step a deletion goes on with, from what is known. It comes to the removal only with everything checked.
pub fn enter(facts: &Facts<'_>) -> Step {
    let is_resumed = match facts.request {
        DeleteBackupRequestPhase::New => false,
        DeleteBackupRequestPhase::InProgress => true,
        _ => return Step::Expire,
    };
    if facts.backup_name.is_empty() {
        return Step::Refuse("spec.backupName is required".to_owned());
    }
    let wanted = |backup: &BackupFacts<'_>| facts.wanted_uid.is_empty() || facts.wanted_uid == backup.uid;
    let backup = match facts.backup {
        Some(backup) if wanted(&backup) => backup,
        _ if is_resumed => return Step::Finish,
        None => return Step::Refuse("backup not found".to_owned()),
        Some(_) => {
            let problem = "the backup that was to be deleted is gone; another one has its name now";
            return Step::Refuse(problem.to_owned());
        }
    };
    let owns_files = has_run(&backup) && facts.inspection != Some(Inspection::OfAnother);
    if owns_files && let Some(step) = before_removal(facts, &backup, is_resumed) {
        return step;
    }
    match (is_resumed, facts.is_held) {
        (false, _) => Step::Begin,
        (true, false) => Step::TakeOver,
        (true, true) if owns_files => Step::Mark,
        (true, true) => Step::RemoveRestores,
    }
}

/// Whether a backup has come so far that it may own more than its object.
fn has_run(backup: &BackupFacts<'_>) -> bool {
    !backup.location.is_empty() && backup.phase.stage().has_begun()
}

/// What is to be done before files may be removed; `None` when nothing is.
fn before_removal(facts: &Facts<'_>, backup: &BackupFacts<'_>, is_resumed: bool) -> Option<Step> {
    let place = backup.location;
    let unavailable =
        || format!("cannot delete backup because backup storage location {place} is currently in Unavailable state");
    match backup.location_state {
        LocationState::Ready => facts.inspection.is_none().then_some(Step::Inspect),
        // What was begun is not given up because of a store that is away for a while.
        LocationState::Unavailable | LocationState::CannotGet if is_resumed && !facts.is_old => {
            Some(Step::Wait(unavailable()))
        }
        LocationState::Unavailable | LocationState::CannotGet => Some(Step::Refuse(unavailable())),
        LocationState::NotFound => Some(Step::Refuse(format!("backup storage location {place} not found"))),
        LocationState::ReadOnly => Some(Step::Refuse(format!(
            "cannot delete backup because backup storage location {place} is currently in read-only mode"
        ))),
    }
}

/// The step after one of the removal. Where something is left, nothing of what comes later is touched: it is all that
/// is known of what is left.
pub fn after(step: &Step, is_complete: bool) -> Step {
    match step {
        _ if !is_complete => Step::Finish,
        Step::Mark => Step::EndWork,
        Step::EndWork => Step::RemoveSnapshots,
        Step::RemoveSnapshots => Step::RemoveFiles,
        Step::RemoveFiles => Step::RemoveRestores,
        Step::RemoveRestores => Step::RemoveObject,
        _ => Step::Finish,
    }
}

#[cfg(test)]
mod tests {
    use DeleteBackupRequestPhase::{InProgress, New, Processed};

    use super::*;

    const COMPLETED: BackupFacts<'static> = BackupFacts {
        uid: "u",
        phase: &BackupPhase::Completed,
        location: "default",
        location_state: LocationState::Ready,
    };

    fn facts(request: &DeleteBackupRequestPhase) -> Facts<'_> {
        Facts {
            request,
            backup_name: "b",
            wanted_uid: "",
            is_old: false,
            backup: Some(COMPLETED),
            inspection: None,
            is_held: false,
        }
    }

    fn refuses(step: &Step, piece: &str) {
        assert!(matches!(step, Step::Refuse(problem) if problem.contains(piece)), "{step:?}");
    }

    #[test]
    fn a_deletion_is_entered_where_it_was_left() {
        let removable = Some(Inspection::Removable);
        let foreign = Some(Inspection::OfAnother);
        for (request, inspection, is_held, expected) in [
            (New, None, false, Step::Inspect),
            (New, removable, false, Step::Begin),
            (New, foreign, false, Step::Begin),
            (InProgress, None, false, Step::Inspect),
            (InProgress, removable, false, Step::TakeOver),
            (InProgress, removable, true, Step::Mark),
            // It has begun before it was taken over: now it owns files.
            (InProgress, None, true, Step::Inspect),
            (InProgress, foreign, true, Step::RemoveRestores),
            (Processed, None, false, Step::Expire),
        ] {
            let step = enter(&Facts { inspection, is_held, ..facts(&request) });
            assert_eq!(step, expected, "{request} {inspection:?} {is_held}");
        }
    }

    #[test]
    fn a_deletion_that_is_entered_again_in_any_phase_of_its_backup_goes_on() {
        use BackupPhase::{Completed, Deleting, Failed, PartiallyFailed, WaitingForPluginOperations};
        for phase in [Completed, PartiallyFailed, Failed, Deleting, WaitingForPluginOperations, BackupPhase::InProgress]
        {
            let backup = Some(BackupFacts { phase: &phase, ..COMPLETED });
            let held = Facts { backup, inspection: Some(Inspection::Removable), is_held: true, ..facts(&InProgress) };
            assert_eq!(enter(&held), Step::Mark, "{phase}");
        }
    }

    #[test]
    fn a_backup_that_never_ran_owns_nothing_but_its_object() {
        use BackupPhase::{FailedValidation, Queued, ReadyToStart};
        for phase in [BackupPhase::New, Queued, ReadyToStart, FailedValidation] {
            for (location, location_state) in [("", LocationState::NotFound), ("gone", LocationState::NotFound)] {
                let backup = Some(BackupFacts { phase: &phase, location, location_state, ..COMPLETED });
                assert_eq!(enter(&Facts { backup, ..facts(&New) }), Step::Begin, "{phase} {location}");
                assert_eq!(enter(&Facts { backup, ..facts(&InProgress) }), Step::TakeOver, "{phase} {location}");
                let held = Facts { backup, is_held: true, ..facts(&InProgress) };
                assert_eq!(enter(&held), Step::RemoveRestores, "{phase} {location}");
            }
        }
    }

    #[test]
    fn nothing_is_touched_unless_the_right_backup_and_its_location_are_there() {
        refuses(&enter(&Facts { backup_name: "", ..facts(&New) }), "spec.backupName");
        refuses(&enter(&Facts { backup: None, ..facts(&New) }), "backup not found");
        refuses(&enter(&Facts { wanted_uid: "other", ..facts(&New) }), "another one has its name");
        for (location_state, piece) in [
            (LocationState::NotFound, "default not found"),
            (LocationState::ReadOnly, "read-only mode"),
            (LocationState::Unavailable, "Unavailable"),
        ] {
            let backup = Some(BackupFacts { location_state, ..COMPLETED });
            refuses(&enter(&Facts { backup, ..facts(&New) }), piece);
        }
    }

    #[test]
    fn a_deletion_that_has_begun_waits_for_its_location_and_ends_when_its_backup_is_gone() {
        let backup = Some(BackupFacts { location_state: LocationState::Unavailable, ..COMPLETED });
        let begun = Facts { backup, wanted_uid: "u", ..facts(&InProgress) };
        assert!(matches!(enter(&begun), Step::Wait(_)));
        refuses(&enter(&Facts { is_old: true, ..begun }), "Unavailable");
        assert_eq!(enter(&Facts { backup: None, ..begun }), Step::Finish);
        assert_eq!(enter(&Facts { wanted_uid: "other", ..begun }), Step::Finish);
    }

    #[test]
    fn the_removal_goes_on_only_as_long_as_nothing_is_left_behind() {
        let order = [
            Step::Mark,
            Step::EndWork,
            Step::RemoveSnapshots,
            Step::RemoveFiles,
            Step::RemoveRestores,
            Step::RemoveObject,
            Step::Finish,
        ];
        for pair in order.windows(2) {
            assert_eq!(after(&pair[0], true), pair[1]);
            assert_eq!(after(&pair[0], false), Step::Finish);
        }
    }
}

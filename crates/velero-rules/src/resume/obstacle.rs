//! Why a restore cannot be resumed.

use velero_api::dry_run;
use velero_api::metadata::name;
use velero_api::v1::{Backup, BackupPhase, Ending, Restore, Stage};

use super::family::Relative;

/// What is known of a restore that is to be resumed.
#[derive(Debug, Clone, Copy)]
pub struct Resumed<'a> {
    /// Its name.
    pub name: &'a str,
    /// The restore, if it exists.
    pub restore: Option<&'a Restore>,
    /// The restores that belong to it, without itself and the one that is to resume it.
    pub relatives: &'a [Relative],
    /// The namespaces of its mapping that are being deleted.
    pub leaving: &'a [String],
}

/// Why a restore cannot be resumed, and what to do; nothing when it can, as far as its backup allows.
pub fn restore_obstacle(resumed: &Resumed<'_>) -> Option<String> {
    let Some(restore) = resumed.restore else {
        return Some(refused(resumed.name, "it does not exist; `velero restore get` lists those that do"));
    };
    let why = of_stage(restore).or_else(|| of_relatives(resumed)).or_else(|| {
        let namespace = resumed.leaving.first()?;
        Some(format!(
            "its namespace mapping leads to namespace {namespace}, which is being deleted; wait until it is gone, or see what \
             keeps it, and resume the restore then"
        ))
    })?;
    Some(refused(resumed.name, &why))
}

/// Why the backup of a restore keeps it from being resumed, and what to do.
pub fn backup_obstacle(restore: &Restore, backup: Option<&Backup>) -> Option<String> {
    let wanted = &restore.spec.backup_name;
    let another = "restore another backup with `velero restore create --from-backup`";
    let why = match backup {
        None if wanted.is_empty() => format!("it names no backup; {another}"),
        None => format!("its backup {wanted:?} is gone; {another}"),
        Some(backup) if is_leaving(backup) => format!("its backup {wanted:?} is being deleted; {another}"),
        Some(backup) if !backup.status.phase().is_restorable() => {
            format!("its backup {wanted:?} cannot be restored, since its phase is {}; {another}", backup.status.phase())
        }
        Some(backup) if is_newer(backup, restore) => {
            format!(
                "the backup {wanted:?} of today was begun after the restore, so it is not the one it came from; {another}"
            )
        }
        Some(_) => return None,
    };
    Some(refused(name(restore), &why))
}

fn refused(name: &str, why: &str) -> String {
    format!("restore {name:?} cannot be resumed: {why}")
}

fn of_stage(restore: &Restore) -> Option<String> {
    let (name, phase) = (name(restore), restore.status.phase());
    if dry_run::is_asked(restore) {
        return Some("it only asks what would be restored, and has restored nothing".to_owned());
    }
    if restore.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted; create a new one with `velero restore create --from-backup`".to_owned());
    }
    match phase.stage() {
        Stage::Ended(Ending::Failed | Ending::PartiallyFailed) => None,
        Stage::Ended(Ending::Completed) => Some("it is Completed, so nothing is left to be done".to_owned()),
        Stage::Ended(Ending::FailedValidation) => Some(format!(
            "it never began (phase FailedValidation); `velero restore describe {name}` says why: create a new one that is right"
        )),
        Stage::Pending | Stage::InProgress | Stage::WaitingForOperations | Stage::Finalizing => Some(format!(
            "it has not ended (phase {phase}); wait for its end, or cancel it first with `velero restore cancel {name} --wait`"
        )),
        Stage::Deleting | Stage::Unknown => Some(format!("its phase {phase} is one that this version does not know")),
    }
}

/// One that goes on with it already, or has done so to the end.
fn of_relatives(resumed: &Resumed<'_>) -> Option<String> {
    resumed.relatives.iter().find_map(|relative| {
        let name = &relative.name;
        match relative.phase.as_ref()?.stage() {
            Stage::Ended(Ending::Completed) => {
                Some(format!("restore {name:?} went on with it and is Completed, so nothing is left to be done"))
            }
            Stage::Ended(_) => None,
            _ => Some(format!(
                "restore {name:?}, which belongs to it, has not ended; wait for its end, or cancel it first with `velero \
                 restore cancel {name} --wait`"
            )),
        }
    })
}

fn is_leaving(backup: &Backup) -> bool {
    backup.metadata.deletion_timestamp.is_some() || *backup.status.phase() == BackupPhase::Deleting
}

/// Whether a backup was begun after a restore: then it only has the name of the one that was restored.
fn is_newer(backup: &Backup, restore: &Restore) -> bool {
    let begun = backup.status.start_timestamp.as_ref().map(|time| time.0);
    let restored = restore.status.start_timestamp.as_ref().map(|time| time.0);
    matches!((begun, restored), (Some(begun), Some(restored)) if begun > restored)
}

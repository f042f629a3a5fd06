//! The only way a Backup gets another phase.

use velero_api::v1::{Backup, BackupPhase};
use velero_rules::phases::backup_can_become;

use crate::error::{Error, Result};
use crate::objects::name;
use crate::ownership::unsign;

/// Moves a backup to a phase if the table of moves has it. Nobody holds one that is not InProgress.
pub(crate) fn move_to(backup: &mut Backup, phase: BackupPhase) -> Result<()> {
    let current = backup.status.phase();
    if !backup_can_become(current, &phase) {
        let problem = format!("it cannot move from phase {current} to {phase}");
        return Err(Error::invalid("Backup", name(backup), problem));
    }
    if phase != BackupPhase::InProgress {
        unsign(backup);
    }
    backup.status.phase = Some(phase);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_is_not_in_the_table_is_refused() {
        let mut backup = Backup::new("velero", "b", Default::default());
        move_to(&mut backup, BackupPhase::Queued).unwrap();
        let error = move_to(&mut backup, BackupPhase::Completed).unwrap_err().to_string();
        assert!(error.contains("Queued") && error.contains("Completed"), "{error}");
        assert_eq!(*backup.status.phase(), BackupPhase::Queued);
    }
}

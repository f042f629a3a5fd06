//! The only way a Restore gets another phase.

use velero_api::v1::{Restore, RestorePhase};
use velero_rules::phases::restore_can_become;

use crate::error::{Error, Result};
use crate::objects::name;
use crate::ownership::unsign;

/// Moves a restore to a phase if the table of moves has it. Nobody holds one that is not InProgress.
pub(crate) fn move_to(restore: &mut Restore, phase: RestorePhase) -> Result<()> {
    let current = restore.status.phase();
    if !restore_can_become(current, &phase) {
        let problem = format!("it cannot move from phase {current} to {phase}");
        return Err(Error::invalid("Restore", name(restore), problem));
    }
    if phase != RestorePhase::InProgress {
        unsign(restore);
    }
    restore.status.phase = Some(phase);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_is_not_in_the_table_is_refused() {
        let mut restore = Restore::new("velero", "r", Default::default());
        move_to(&mut restore, RestorePhase::InProgress).unwrap();
        move_to(&mut restore, RestorePhase::Completed).unwrap();
        let error = move_to(&mut restore, RestorePhase::Failed).unwrap_err().to_string();
        assert!(error.contains("Completed") && error.contains("Failed"), "{error}");
        assert_eq!(*restore.status.phase(), RestorePhase::Completed);
    }
}

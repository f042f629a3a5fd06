//! The codes that a command with `--exit-status` ends with.

use std::fmt::{self, Display};

use velero_api::v1::Ending;

/// What was waited for has ended, and not as Completed. All has been said by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotCompleted {
    /// The code the command ends with. One is left to what the command itself could not do.
    pub(crate) code: u8,
}

impl NotCompleted {
    /// The code of an end; nothing for a good one. What is not an end that this version knows is not a good one.
    pub(crate) fn of(ending: Option<Ending>) -> Option<Self> {
        let code = match ending {
            Some(Ending::Completed) => return None,
            Some(Ending::PartiallyFailed) => 2,
            Some(Ending::Failed) => 3,
            Some(Ending::FailedValidation) => 4,
            None => 5,
        };
        Some(Self { code })
    }
}

impl Display for NotCompleted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "what was waited for did not complete (code {})", self.code)
    }
}

impl std::error::Error for NotCompleted {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_completed_end_is_a_success_and_every_other_has_a_code_of_its_own() {
        let code = |ending| NotCompleted::of(ending).map(|it| it.code);
        assert_eq!(code(Some(Ending::Completed)), None);
        let others = [Some(Ending::PartiallyFailed), Some(Ending::Failed), Some(Ending::FailedValidation), None];
        assert_eq!(others.map(code), [Some(2), Some(3), Some(4), Some(5)]);
    }
}

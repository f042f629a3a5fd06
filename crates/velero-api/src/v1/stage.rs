//! What the phases of backups and restores mean to those who do not move them.

/// How far a backup or restore has come, whatever its phase is called. Every phase says its stage; who only wants to know
/// how far it is asks for that, so that a new phase finds its place everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nobody has begun with it.
    Pending,
    /// Somebody works on its items.
    InProgress,
    /// Its items are dealt with, its operations go on.
    WaitingForOperations,
    /// Its operations are done, it only has to be finished.
    Finalizing,
    /// It has ended.
    Ended(Ending),
    /// It is being deleted.
    Deleting,
    /// The phase is one this version does not know.
    Unknown,
}

/// How a backup or restore has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was refused before it began.
    FailedValidation,
    /// Without errors.
    Completed,
    /// With errors on single items.
    PartiallyFailed,
    /// By an error.
    Failed,
}

impl Stage {
    /// How it has ended; nothing while it has not.
    pub fn ending(self) -> Option<Ending> {
        match self {
            Self::Ended(ending) => Some(ending),
            Self::Pending
            | Self::InProgress
            | Self::WaitingForOperations
            | Self::Finalizing
            | Self::Deleting
            | Self::Unknown => None,
        }
    }

    /// Whether it has come so far that it may own more than its object.
    pub fn has_begun(self) -> bool {
        match self {
            Self::Pending | Self::Ended(Ending::FailedValidation) => false,
            Self::InProgress
            | Self::WaitingForOperations
            | Self::Finalizing
            | Self::Ended(Ending::Completed | Ending::PartiallyFailed | Ending::Failed)
            | Self::Deleting
            | Self::Unknown => true,
        }
    }

    /// Whether it waits for its turn, or its items are being worked on.
    pub fn has_items_to_come(self) -> bool {
        match self {
            Self::Pending | Self::InProgress => true,
            Self::WaitingForOperations | Self::Finalizing | Self::Ended(_) | Self::Deleting | Self::Unknown => false,
        }
    }

    /// Whether it has begun and may still come to a good end.
    pub fn is_under_way(self) -> bool {
        match self {
            Self::InProgress | Self::WaitingForOperations | Self::Finalizing => true,
            Self::Pending | Self::Ended(_) | Self::Deleting | Self::Unknown => false,
        }
    }

    /// Whether its log has been stored by then.
    pub fn has_log(self) -> bool {
        match self {
            Self::WaitingForOperations
            | Self::Finalizing
            | Self::Ended(Ending::Completed | Ending::PartiallyFailed | Ending::Failed) => true,
            Self::Pending
            | Self::InProgress
            | Self::Ended(Ending::FailedValidation)
            | Self::Deleting
            | Self::Unknown => false,
        }
    }
}

impl Ending {
    /// Whether nothing went wrong.
    pub fn is_good(self) -> bool {
        match self {
            Self::Completed => true,
            Self::FailedValidation | Self::PartiallyFailed | Self::Failed => false,
        }
    }

    /// Whether what went wrong can be read in its log.
    pub fn has_errors_in_log(self) -> bool {
        match self {
            Self::PartiallyFailed | Self::Failed => true,
            Self::Completed | Self::FailedValidation => false,
        }
    }
}

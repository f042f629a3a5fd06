//! How the work on an item ends.

use std::time::Duration;

use super::item::{Item, Wanted};
use super::ledger::{Done, Row};

/// What became of an item, or why it could not be restored.
pub(super) type ItemResult = Result<Ended, Trouble>;

/// What became of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its `<apiVersion>/<Kind>`; without it the item is not listed.
    pub kind: Option<String>,
    /// The name it has now, if it is another.
    pub name: Option<String>,
    pub done: Done,
    /// Whether it exists now.
    pub exists: bool,
    /// Why, where that needs saying.
    pub reason: Option<String>,
}

impl Ended {
    pub(super) fn new(done: Done, exists: bool) -> Self {
        Self { kind: None, name: None, done, exists, reason: None }
    }
}

/// Under which section of the results a trouble goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultSection {
    /// The item's namespace, or the cluster.
    Place,
    /// Velero itself.
    Velero,
}

/// How serious a trouble is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Warning,
    Error,
}

/// Whether a trouble may be gone at the end of the restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    Never,
    /// Within moments, or never: nothing that was restored helps.
    Soon,
    /// Once something that was restored has started.
    InTime,
}

impl Passing {
    /// How long an item in such trouble is tried again at the end, where a single object may take `most`.
    pub(super) fn patience(self, most: Duration) -> Duration {
        const A_MOMENT: Duration = Duration::from_secs(30);
        match self {
            Self::Never => Duration::ZERO,
            Self::Soon => most.min(A_MOMENT),
            Self::InTime => most,
        }
    }
}

/// Why an item could not be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(super) message: String,
    pub(super) severity: Severity,
    pub(super) section: ResultSection,
    /// Whether the item exists all the same.
    pub(super) exists: bool,
    /// How the item is listed: it failed, or was left as it is.
    pub(super) done: Done,
    /// The `<apiVersion>/<Kind>` of the item, once it is known.
    pub(super) kind: Option<String>,
    /// Whether it may be gone at the end of the restore.
    pub(super) passing: Passing,
    /// What was to be written, where that can be tried again.
    pub(super) wanted: Option<Box<Wanted>>,
}

impl Trouble {
    fn new(message: String, severity: Severity, section: ResultSection) -> Self {
        let (done, passing) = (Done::Failed, Passing::Never);
        Self { message, severity, section, exists: false, done, kind: None, passing, wanted: None }
    }

    /// An error of the item.
    pub(crate) fn error(message: String) -> Self {
        Self::new(message, Severity::Error, ResultSection::Place)
    }

    /// A warning of the item.
    pub(super) fn warning(message: String) -> Self {
        Self::new(message, Severity::Warning, ResultSection::Place)
    }

    /// An error that is not the item's own.
    pub(super) fn velero(message: String) -> Self {
        Self::new(message, Severity::Error, ResultSection::Velero)
    }

    /// The item exists all the same.
    pub(super) fn but_exists(self) -> Self {
        Self { exists: true, ..self }
    }

    /// The item exists, and stays as it is: it is no failure of the restore.
    pub(super) fn left_as_it_is(self) -> Self {
        Self { done: Done::Skipped, ..self.but_exists() }
    }

    /// Says what kind the item is of.
    pub(super) fn about(self, kind: String) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// Says whether it may be gone at the end of the restore.
    pub(super) fn passing(self, passing: Passing) -> Self {
        Self { passing, ..self }
    }

    /// Whether there will be another try.
    pub(super) fn may_pass(&self) -> bool {
        self.passing != Passing::Never
    }

    /// Keeps what was to be written for another try, if there will be one.
    pub(super) fn keeping(self, wanted: Wanted) -> Self {
        let wanted = self.may_pass().then(|| Box::new(wanted));
        Self { wanted, ..self }
    }
}

/// An item that is tried again.
pub(super) struct Postponed {
    pub item: Item,
    pub row: Row,
    /// Why it could not be restored so far; with what is to be written, unless nothing was done for it yet.
    pub trouble: Trouble,
}

//! How the work on an item ends.

use super::act::Wanted;
use super::ledger::Done;

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

/// Under which heading of the results a trouble goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heading {
    /// The item's namespace, or the cluster.
    Place,
    /// Velero itself.
    Velero,
}

/// How serious a trouble is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Warning,
    Error,
}

/// Why an item could not be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub message: String,
    pub weight: Weight,
    pub heading: Heading,
    /// Whether the item exists all the same.
    pub exists: bool,
    /// The `<apiVersion>/<Kind>` of the item, once it is known.
    pub kind: Option<String>,
    /// Whether it may be gone at the end of the restore.
    pub may_pass: bool,
    /// What was to be written, where that can be tried again.
    pub wanted: Option<Box<Wanted>>,
}

impl Trouble {
    fn new(message: String, weight: Weight, heading: Heading) -> Self {
        Self { message, weight, heading, exists: false, kind: None, may_pass: false, wanted: None }
    }

    /// An error of the item.
    pub(super) fn error(message: String) -> Self {
        Self::new(message, Weight::Error, Heading::Place)
    }

    /// A warning of the item.
    pub(super) fn warning(message: String) -> Self {
        Self::new(message, Weight::Warning, Heading::Place)
    }

    /// An error that is not the item's own.
    pub(super) fn velero(message: String) -> Self {
        Self::new(message, Weight::Error, Heading::Velero)
    }

    /// The item exists all the same.
    pub(super) fn but_exists(self) -> Self {
        Self { exists: true, ..self }
    }

    /// Says what kind the item is of.
    pub(super) fn about(self, kind: String) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// Says whether it may be gone at the end of the restore.
    pub(super) fn passing(self, may_pass: bool) -> Self {
        Self { may_pass, ..self }
    }

    /// Keeps what was to be written for another try, if there will be one.
    pub(super) fn keeping(self, wanted: Wanted) -> Self {
        let wanted = self.may_pass.then(|| Box::new(wanted));
        Self { wanted, ..self }
    }
}

//! Pods with volumes of every kind, and what a backup and a restore make of them: a table that both editions walk through.
//!
//! A row has a namespace of its own. Rows with the same kind of backup share one backup, rows that are restored alike one
//! restore; what became of a row is read by its namespace. It is told in lines, such as `copy web/data Completed`.

mod movement;
mod opt_in;
mod opt_out;
mod outcome;
mod pods;
mod policies;
mod restored;
mod stage;
mod unusual;

use serde_json::{Value, json};

pub use outcome::Lines;
pub use stage::Stage;

/// The types that are backed up.
const TYPES: [&str; 6] = [
    "pods",
    "persistentvolumeclaims",
    "persistentvolumes",
    "volumesnapshots.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshotclasses.snapshot.storage.k8s.io",
];

/// Which backup a row is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Volumes are copied that a pod's annotation asks for.
    Asked,
    /// All volumes are copied but those that a pod's annotation excludes.
    All,
    /// A volume policy decides.
    Policy,
    /// The data of snapshots is moved.
    Moved,
}

impl Way {
    /// All of them, in the order they are gone.
    pub const EVERY: [Self; 4] = [Self::Asked, Self::All, Self::Policy, Self::Moved];

    /// The name of the backup.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// What the backup is asked for: of so many namespaces, only the types that the rows are about.
    fn spec(self) -> Value {
        let mut spec = match self {
            Self::Asked => json!({"snapshotVolumes": false}),
            Self::All => json!({"defaultVolumesToFsBackup": true}),
            Self::Policy => json!({"resourcePolicy": {"kind": "configmap", "name": policies::NAME}}),
            Self::Moved => json!({"snapshotMoveData": true}),
        };
        spec["includedResources"] = json!(TYPES);
        spec
    }
}

/// How a row is restored, into another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Again {
    /// All of it.
    Whole,
    /// All of it once more, over what the first restore has made.
    Twice,
    /// Without volumes (`restorePVs: false`).
    WithoutVolumes,
    /// What has the label `app: web`.
    Labelled,
    /// Claims and volumes, no pods.
    Claims,
    /// Pods alone.
    Pods,
    /// Everything but claims.
    WithoutClaims,
}

impl Again {
    /// All of them, in the order they are done.
    pub const EVERY: [Self; 7] =
        [Self::Whole, Self::Twice, Self::WithoutVolumes, Self::Labelled, Self::Claims, Self::Pods, Self::WithoutClaims];

    fn spec(self) -> Value {
        match self {
            Self::Whole | Self::Twice => json!({}),
            Self::WithoutVolumes => json!({"restorePVs": false}),
            Self::Labelled => json!({"labelSelector": {"matchLabels": {"app": "web"}}}),
            Self::Claims => json!({"includedResources": ["persistentvolumeclaims", "persistentvolumes"]}),
            Self::Pods => json!({"includedResources": ["pods"]}),
            Self::WithoutClaims => json!({"excludedResources": ["persistentvolumeclaims", "persistentvolumes"]}),
        }
    }
}

/// One row of the table.
pub struct Row {
    /// What it is about, and its namespace.
    pub name: &'static str,
    /// The backup it is part of.
    pub way: Way,
    objects: Vec<Value>,
    /// Pods that only fill claims: they are gone before the backup.
    fillers: Vec<&'static str>,
    restore: Option<Restoring>,
    expected: Lines,
    ours: Option<Difference>,
}

struct Restoring {
    how: Again,
    /// What is in the namespace before.
    there: Vec<Value>,
    /// Claims without a pod that are looked into after.
    read: Vec<&'static str>,
}

/// Where ours does something else on purpose.
struct Difference {
    lines: Lines,
    reason: &'static str,
}

impl Row {
    fn new(name: &'static str, way: Way, objects: Vec<Value>) -> Self {
        Self { name, way, objects, fillers: Vec::new(), restore: None, expected: Lines::new(), ours: None }
    }

    /// These pods fill claims and are gone before the backup.
    fn without(mut self, fillers: &[&'static str]) -> Self {
        self.fillers = fillers.to_vec();
        self
    }

    /// It is restored as well.
    fn restored(mut self, how: Again) -> Self {
        self.restore = Some(Restoring { how, there: Vec::new(), read: Vec::new() });
        self
    }

    /// These objects are there before the restore.
    fn over(mut self, objects: &[Value]) -> Self {
        self.restore.iter_mut().for_each(|restore| restore.there = objects.to_vec());
        self
    }

    /// These claims are looked into after the restore.
    fn reading(mut self, claims: &[&'static str]) -> Self {
        self.restore.iter_mut().for_each(|restore| restore.read = claims.to_vec());
        self
    }

    /// What must come of it, with either edition.
    fn gives(mut self, lines: &[&str]) -> Self {
        self.expected = lines.iter().map(|line| (*line).to_owned()).collect();
        self
    }

    /// What comes of it with ours instead, and why that is better.
    fn but_ours(mut self, reason: &'static str, lines: &[&str]) -> Self {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        self.ours = Some(Difference { lines, reason });
        self
    }

    /// Why ours does something else here, if it does.
    pub fn difference(&self) -> Option<&'static str> {
        self.ours.as_ref().map(|difference| difference.reason)
    }
}

/// The table.
pub fn rows() -> Vec<Row> {
    let tables =
        [opt_in::rows(), unusual::rows(), opt_out::rows(), policies::rows(), movement::rows(), restored::rows()];
    tables.into_iter().flatten().collect()
}

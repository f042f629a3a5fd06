//! The backups that the rows are part of, and the ways they are restored.

use serde_json::{Value, json};

use super::{policies, unusual};

/// The types that are backed up.
const TYPES: [&str; 9] = [
    "pods",
    "persistentvolumeclaims",
    "persistentvolumes",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "volumesnapshots.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshotclasses.snapshot.storage.k8s.io",
];

/// Which backup a row is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Volumes are copied that a pod's annotation asks for.
    Asked,
    /// The same of what has the label `app: web`.
    Labelled,
    /// All volumes are copied but those that a pod's annotation excludes.
    All,
    /// All volumes are copied, and the backup is one of pods alone.
    Pods,
    /// A volume policy decides.
    Policy,
    /// The data of snapshots is moved.
    Moved,
    /// All volumes are copied, and the data of snapshots is moved.
    AllMoved,
    /// A volume policy decides, and the data of snapshots is moved.
    PolicyMoved,
}

impl Way {
    /// All of them, in the order they are gone.
    pub const EVERY: [Self; 8] = [
        Self::Asked,
        Self::Labelled,
        Self::All,
        Self::Pods,
        Self::Policy,
        Self::Moved,
        Self::AllMoved,
        Self::PolicyMoved,
    ];

    /// The name of the backup.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// What the backup is asked for: of so many namespaces, only the types that the rows are about.
    pub(super) fn spec(self) -> Value {
        let policy = json!({"kind": "configmap", "name": policies::NAME});
        let mut spec = match self {
            Self::Asked => json!({"snapshotVolumes": false, "hooks": unusual::hooks_of_backup()}),
            Self::Labelled => json!({"snapshotVolumes": false, "labelSelector": {"matchLabels": {"app": "web"}}}),
            Self::All | Self::Pods => json!({"defaultVolumesToFsBackup": true}),
            Self::Policy => json!({"resourcePolicy": policy}),
            Self::Moved => json!({"snapshotMoveData": true}),
            Self::AllMoved => json!({"defaultVolumesToFsBackup": true, "snapshotMoveData": true}),
            Self::PolicyMoved => json!({"resourcePolicy": policy, "snapshotMoveData": true}),
        };
        spec["includedResources"] = if self == Self::Pods { json!(["pods"]) } else { json!(TYPES) };
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
    /// All of it, and what is there already is made like it (`existingResourcePolicy: update`).
    Update,
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
    pub const EVERY: [Self; 8] = [
        Self::Whole,
        Self::Twice,
        Self::Update,
        Self::WithoutVolumes,
        Self::Labelled,
        Self::Claims,
        Self::Pods,
        Self::WithoutClaims,
    ];

    pub(super) fn spec(self) -> Value {
        match self {
            Self::Whole | Self::Twice => json!({}),
            Self::Update => json!({"existingResourcePolicy": "update"}),
            Self::WithoutVolumes => json!({"restorePVs": false}),
            Self::Labelled => json!({"labelSelector": {"matchLabels": {"app": "web"}}}),
            Self::Claims => json!({"includedResources": ["persistentvolumeclaims", "persistentvolumes"]}),
            Self::Pods => json!({"includedResources": ["pods"]}),
            Self::WithoutClaims => json!({"excludedResources": ["persistentvolumeclaims", "persistentvolumes"]}),
        }
    }

    /// How long copies have to come back. What never comes back must not take the time of the others.
    pub(super) fn time_for_copies(self) -> &'static str {
        match self {
            Self::Pods | Self::WithoutClaims => "40s",
            _ => "4m",
        }
    }
}

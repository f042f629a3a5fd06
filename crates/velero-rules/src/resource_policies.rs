//! The resource policy document of a backup: what to do with which volume, and further filters on types and objects.

mod conditions;
mod filters;
mod parameters;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use conditions::{CsiSource, NfsSource, VolumeData};
pub use filters::{FilterPolicies, NamespaceVerdict, ObjectFilter};
pub use parameters::SnapshotParameters;

use conditions::{ConditionsDocument, VolumeConditions};
use filters::{ClusterScopedDocument, NamespacedDocument};

const SUPPORTED_VERSION: &str = "v1";

/// Why a policy document was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The ConfigMap does not hold exactly one document.
    #[error("illegal resource policies configmap: it must have exactly one data key, found {keys}")]
    DataKeys {
        /// How many keys it has.
        keys: usize,
    },
    /// The document cannot be read.
    #[error("failed to decode yaml data into resource policies: {reason}")]
    Decode {
        /// What the reader says.
        reason: String,
    },
    /// The document can be read but not used.
    #[error("{problem}")]
    Invalid {
        /// What is wrong with it.
        problem: String,
    },
}

fn invalid(problem: impl Into<String>) -> PolicyError {
    PolicyError::Invalid { problem: problem.into() }
}

/// What a policy does with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeActionType {
    /// The volume is left out.
    Skip,
    /// The volume is copied through the file system of a pod.
    FsBackup,
    /// A snapshot is taken.
    Snapshot,
    /// A plugin takes care of the volume.
    Custom,
}

/// An action with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeAction {
    /// What is done.
    pub kind: VolumeActionType,
    /// Further settings, for whoever does it.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Those of a snapshot, read.
    snapshot: SnapshotParameters,
}

#[derive(Debug, Clone, PartialEq)]
struct VolumePolicy {
    conditions: VolumeConditions,
    action: VolumeAction,
}

/// Types to take or leave out, added to the lists of the backup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IncludeExcludePolicy {
    /// Cluster-scoped types to take.
    #[serde(deserialize_with = "null_as_empty")]
    pub included_cluster_scoped_resources: Vec<String>,
    /// Cluster-scoped types to leave out.
    #[serde(deserialize_with = "null_as_empty")]
    pub excluded_cluster_scoped_resources: Vec<String>,
    /// Namespaced types to take.
    #[serde(deserialize_with = "null_as_empty")]
    pub included_namespace_scoped_resources: Vec<String>,
    /// Namespaced types to leave out.
    #[serde(deserialize_with = "null_as_empty")]
    pub excluded_namespace_scoped_resources: Vec<String>,
}

/// A policy document, read and validated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourcePolicies {
    volume_policies: Vec<VolumePolicy>,
    /// Types to take or leave out.
    pub include_exclude: Option<IncludeExcludePolicy>,
    /// Filters on the objects of single types and namespaces.
    pub filters: FilterPolicies,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Document {
    version: String,
    #[serde(deserialize_with = "null_as_empty")]
    volume_policies: Vec<VolumePolicyDocument>,
    include_exclude_policy: Option<IncludeExcludePolicy>,
    cluster_scoped_filter_policy: Option<ClusterScopedDocument>,
    #[serde(deserialize_with = "null_as_empty")]
    namespaced_filter_policies: Vec<NamespacedDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct VolumePolicyDocument {
    #[serde(deserialize_with = "null_as_empty")]
    conditions: ConditionsDocument,
    #[serde(deserialize_with = "null_as_empty")]
    action: ActionDocument,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ActionDocument {
    #[serde(rename = "type")]
    kind: String,
    #[serde(deserialize_with = "null_as_empty")]
    parameters: BTreeMap<String, serde_json::Value>,
}

pub(crate) fn null_as_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl ResourcePolicies {
    /// Reads and validates the only document of a ConfigMap.
    pub fn from_config_map(data: &BTreeMap<String, String>) -> Result<Self, PolicyError> {
        let mut documents = data.values();
        match (documents.next(), documents.next()) {
            (Some(document), None) => Self::parse(document),
            _ => Err(PolicyError::DataKeys { keys: data.len() }),
        }
    }

    /// Reads and validates a document. A key it does not know is an error.
    pub fn parse(yaml: &str) -> Result<Self, PolicyError> {
        let document: Document =
            serde_saphyr::from_str(yaml).map_err(|error| PolicyError::Decode { reason: error.to_string() })?;
        if document.version != SUPPORTED_VERSION {
            let found = document.version;
            return Err(invalid(format!(
                "incompatible version number {found} with supported version {SUPPORTED_VERSION}"
            )));
        }
        if let Some(policy) = &document.include_exclude_policy {
            validate_lists(&policy.included_cluster_scoped_resources, &policy.excluded_cluster_scoped_resources)?;
            validate_lists(&policy.included_namespace_scoped_resources, &policy.excluded_namespace_scoped_resources)?;
        }
        Ok(Self {
            volume_policies: volume_policies(document.volume_policies)?,
            include_exclude: document.include_exclude_policy,
            filters: FilterPolicies::new(
                document.cluster_scoped_filter_policy.as_ref(),
                document.namespaced_filter_policies,
            )?,
        })
    }

    /// Gives the action of the first policy whose conditions all match a volume.
    pub fn volume_action(&self, volume: &VolumeData) -> Option<&VolumeAction> {
        self.volume_policies.iter().find(|policy| policy.conditions.match_volume(volume)).map(|policy| &policy.action)
    }

    /// Gives with what a snapshot of a volume is taken, as far as the first policy that matches says.
    pub fn snapshot_parameters(&self, volume: &VolumeData) -> SnapshotParameters {
        self.volume_action(volume).map(|action| action.snapshot.clone()).unwrap_or_default()
    }

    /// Says whether there is any policy on volumes.
    pub fn has_volume_policies(&self) -> bool {
        !self.volume_policies.is_empty()
    }

    /// Says whether there is anything else than policies on volumes.
    pub fn has_other_policies(&self) -> bool {
        self.include_exclude.is_some() || self.filters != FilterPolicies::default()
    }

    /// Adds the volume policies that count for every backup. Those of the backup are asked first.
    pub fn append_global(&mut self, global: &Self) {
        self.volume_policies.extend(global.volume_policies.iter().cloned());
    }

    /// Checks that the document can be used by a restore, which knows filters on objects only.
    pub fn validate_for_restore(&self) -> Result<(), PolicyError> {
        if self.has_volume_policies() {
            return Err(invalid("volumePolicies are not supported for restore"));
        }
        if self.include_exclude.is_some() {
            return Err(invalid("includeExcludePolicy is not supported for restore"));
        }
        Ok(())
    }
}

fn volume_policies(documents: Vec<VolumePolicyDocument>) -> Result<Vec<VolumePolicy>, PolicyError> {
    let read = |(index, document)| VolumePolicy::new(&format!("volumePolicies[{index}]"), document);
    documents.into_iter().enumerate().map(read).collect()
}

impl VolumePolicy {
    fn new(place: &str, document: VolumePolicyDocument) -> Result<Self, PolicyError> {
        let kind = match document.action.kind.as_str() {
            "skip" => VolumeActionType::Skip,
            "fs-backup" => VolumeActionType::FsBackup,
            "snapshot" => VolumeActionType::Snapshot,
            "custom" => VolumeActionType::Custom,
            other => return Err(invalid(format!("invalid action type {other}"))),
        };
        let parameters = document.action.parameters;
        let snapshot = SnapshotParameters::read(&format!("{place}.action.parameters"), kind, &parameters)?;
        Ok(Self {
            conditions: VolumeConditions::new(place, document.conditions)?,
            action: VolumeAction { kind, parameters, snapshot },
        })
    }
}

fn validate_lists(includes: &[String], excludes: &[String]) -> Result<(), PolicyError> {
    if includes.iter().chain(excludes).any(|name| name == "*") {
        return Err(invalid("cannot use '*' in includes or excludes filters in the policy"));
    }
    match excludes.iter().find(|name| includes.contains(name)) {
        Some(name) => Err(invalid(format!("excludes list cannot contain an item in the includes list: {name}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;

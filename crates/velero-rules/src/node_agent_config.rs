//! The ConfigMap of the node agents: how much they move at a time, where their pods run, what these may use.

mod pods;
#[cfg(test)]
mod tests;
mod unknown;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::selector::Selector;

pub use pods::{PodResources, Resources};

/// How many transfers a node carries out at a time where nothing else is said.
const DEFAULT_CONCURRENCY: usize = 1;

/// Why a ConfigMap of the node agents was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It does not hold exactly one document.
    #[error("it must have exactly one data key with a JSON document, found {keys}; leave one")]
    DataKeys {
        /// How many keys it has.
        keys: usize,
    },
    /// The document is not JSON.
    #[error("the value of {key:?} must be a JSON object: {reason}")]
    Document {
        /// The key of the ConfigMap.
        key: String,
        /// What the reader says.
        reason: String,
    },
    /// A setting cannot be used.
    #[error("{path}: {problem}")]
    Setting {
        /// Where it is in the document.
        path: String,
        /// What is wrong and what to write instead.
        problem: String,
    },
}

fn wrong(path: impl Into<String>, problem: impl Into<String>) -> ConfigError {
    ConfigError::Setting { path: path.into(), problem: problem.into() }
}

/// How the node agents are set up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeAgentConfig {
    /// How much is moved at a time.
    pub load_concurrency: LoadConcurrency,
    /// Where pods run.
    pub load_affinity: Vec<LoadAffinity>,
    /// The claims that are made from snapshots, by the storage class of the source.
    pub backup_claims: BTreeMap<String, BackupClaim>,
    /// The claims that are filled.
    pub restore_claims: RestoreClaim,
    /// What pods ask for and may use.
    pub pod_resources: Resources,
    /// The priority class of pods.
    pub priority_class_name: String,
    /// Whether pods that copy through the file system are privileged.
    pub privileged_fs_backup: bool,
    /// Where restores keep what they have read of the repository.
    pub cache_claim: Option<CacheClaim>,
    /// Annotations of pods.
    pub pod_annotations: BTreeMap<String, String>,
    /// Labels of pods.
    pub pod_labels: BTreeMap<String, String>,
    /// Keys that nobody knows, with the way to them.
    pub unknown: Vec<String>,
}

/// How much is moved at a time.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadConcurrency {
    /// On each node that no rule is for; zero means one.
    pub global_config: usize,
    /// Rules for nodes.
    pub per_node_config: Vec<NodeRule>,
    /// How many transfers of the whole cluster are being prepared at most; zero means any number.
    pub prepare_queue_length: usize,
}

/// How much is moved at a time on some nodes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeRule {
    /// The nodes.
    pub node_selector: LabelSelector,
    /// How much.
    pub number: usize,
}

/// Where pods run that work with volumes of a storage class.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadAffinity {
    /// The nodes.
    pub node_selector: LabelSelector,
    /// The storage class; empty means all that no other entry names.
    pub storage_class: String,
}

/// The claim that is made from a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupClaim {
    /// Its storage class; empty means that of the source.
    pub storage_class: String,
    /// Whether it can only be read.
    pub read_only: bool,
    /// Whether SELinux leaves its files as they are; only where it can only be read.
    #[serde(rename = "spcNoRelabeling")]
    pub no_relabeling: bool,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Secrets of the source's namespace that its driver needs beside it.
    pub secret_names: Vec<String>,
    /// ConfigMaps of the source's namespace that its driver needs beside it.
    pub config_map_names: Vec<String>,
}

/// The claim that is filled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreClaim {
    /// Whether a volume is filled before anybody uses its claim.
    pub ignore_delay_binding: bool,
    /// Secrets of the target's namespace that its driver needs beside it.
    pub secret_names: Vec<String>,
    /// ConfigMaps of the target's namespace that its driver needs beside it.
    pub config_map_names: Vec<String>,
}

/// Where restores keep what they have read of the repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CacheClaim {
    /// The storage class.
    pub storage_class: String,
    /// Restores of less than this have none.
    #[serde(rename = "residentThresholdInMB")]
    pub resident_threshold_in_mb: i64,
}

impl NodeAgentConfig {
    /// Reads the data of the ConfigMap.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let mut entries = data.iter();
        let (Some((key, text)), None) = (entries.next(), entries.next()) else {
            return Err(ConfigError::DataKeys { keys: data.len() });
        };
        let document = serde_json::from_str::<Map<String, Value>>(text);
        let mut document =
            document.map_err(|error| ConfigError::Document { key: key.clone(), reason: error.to_string() })?;
        let unknown = unknown::keys(&document);
        let config = Self {
            load_concurrency: take(&mut document, "loadConcurrency")?,
            load_affinity: take(&mut document, "loadAffinity")?,
            backup_claims: take(&mut document, "backupPVC")?,
            restore_claims: take(&mut document, "restorePVC")?,
            pod_resources: take::<PodResources>(&mut document, "podResources")?.resources()?,
            priority_class_name: take(&mut document, "priorityClassName")?,
            privileged_fs_backup: take(&mut document, "privilegedFsBackup")?,
            cache_claim: take(&mut document, "cachePVC")?,
            pod_annotations: take(&mut document, "podAnnotations")?,
            pod_labels: take(&mut document, "podLabels")?,
            unknown,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        for (index, rule) in self.load_concurrency.per_node_config.iter().enumerate() {
            let path = format!("loadConcurrency.perNodeConfig[{index}]");
            check_selector(&path, &rule.node_selector)?;
            if rule.number == 0 {
                return Err(wrong(format!("{path}.number"), "it must be at least 1"));
            }
        }
        for (index, affinity) in self.load_affinity.iter().enumerate() {
            check_selector(&format!("loadAffinity[{index}]"), &affinity.node_selector)?;
        }
        if self.cache_claim.as_ref().is_some_and(|cache| cache.storage_class.is_empty()) {
            return Err(wrong("cachePVC.storageClass", "it is missing; name a storage class that deletes its volumes"));
        }
        if self.cache_claim.as_ref().is_some_and(|cache| cache.resident_threshold_in_mb < 0) {
            return Err(wrong("cachePVC.residentThresholdInMB", "it must not be negative"));
        }
        pods::check_labels("podLabels", &self.pod_labels)
    }

    /// How many transfers a node with these labels carries out at a time: the smallest number of the rules that are
    /// for it.
    pub fn concurrency(&self, node_labels: &BTreeMap<String, String>) -> usize {
        let load = &self.load_concurrency;
        let is_for = |rule: &&NodeRule| {
            Selector::try_from(&rule.node_selector).is_ok_and(|selector| selector.matches(node_labels))
        };
        let smallest = load.per_node_config.iter().filter(is_for).map(|rule| rule.number).min();
        smallest.unwrap_or(load.global_config.max(DEFAULT_CONCURRENCY))
    }

    /// Where pods run that work with volumes of a storage class.
    pub fn affinity(&self, storage_class: &str) -> Option<&LoadAffinity> {
        let of = |wanted: &str| self.load_affinity.iter().find(|affinity| affinity.storage_class == wanted);
        of(storage_class).or_else(|| of(""))
    }

    /// The claim made from a snapshot of a volume of a storage class.
    pub fn backup_claim(&self, storage_class: &str) -> BackupClaim {
        let mut claim = self.backup_claims.get(storage_class).cloned().unwrap_or_default();
        if claim.storage_class.is_empty() {
            storage_class.clone_into(&mut claim.storage_class);
        }
        claim
    }
}

impl CacheClaim {
    /// How large the claim is for a snapshot of that size, where the cache holds at most `limit` bytes; none where the
    /// snapshot is too small for one.
    pub fn size(&self, snapshot_size: i64, limit: i64) -> Option<i64> {
        const GIBIBYTE: i64 = 1 << 30;
        let is_small = snapshot_size != 0 && snapshot_size < self.resident_threshold_in_mb << 20;
        (!is_small).then(|| (limit / 10 * 12 + GIBIBYTE - 1) / GIBIBYTE * GIBIBYTE)
    }
}

fn take<T: DeserializeOwned + Default>(document: &mut Map<String, Value>, key: &str) -> Result<T, ConfigError> {
    match document.remove(key) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => serde_json::from_value(value).map_err(|error| wrong(key, error.to_string())),
    }
}

fn check_selector(path: &str, selector: &LabelSelector) -> Result<(), ConfigError> {
    let read = Selector::try_from(selector);
    read.map(drop).map_err(|error| wrong(format!("{path}.nodeSelector"), error.to_string()))
}

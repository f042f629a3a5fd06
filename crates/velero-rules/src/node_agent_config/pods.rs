//! What pods that move data ask for, may use and are called.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ConfigError, wrong};
use crate::names::{is_label_key, is_label_value};
use crate::quantity::Quantity;

/// What pods ask for and may use, as the ConfigMap says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResources {
    cpu_request: String,
    cpu_limit: String,
    memory_request: String,
    memory_limit: String,
    ephemeral_storage_request: String,
    ephemeral_storage_limit: String,
}

/// What pods ask for and may use, by the names of Kubernetes; without an entry as much as there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// What they ask for.
    pub requests: BTreeMap<String, String>,
    /// What they may use.
    pub limits: BTreeMap<String, String>,
}

impl PodResources {
    pub(super) fn resources(&self) -> Result<Resources, ConfigError> {
        let mut resources = Resources::default();
        for (name, field, request, limit) in [
            ("cpu", "cpu", &self.cpu_request, &self.cpu_limit),
            ("memory", "memory", &self.memory_request, &self.memory_limit),
            ("ephemeral-storage", "ephemeralStorage", &self.ephemeral_storage_request, &self.ephemeral_storage_limit),
        ] {
            let path = |end: &str| format!("podResources.{field}{end}");
            let (asked, allowed) = (quantity(&path("Request"), request)?, quantity(&path("Limit"), limit)?);
            if !allowed.is_zero() && asked > allowed {
                let problem = format!("{request:?} is more than the limit {limit:?}; lower it or raise the limit");
                return Err(wrong(path("Request"), problem));
            }
            let mut put = |map: fn(&mut Resources) -> &mut BTreeMap<String, String>, quantity: Quantity, text: &str| {
                if !quantity.is_zero() {
                    map(&mut resources).insert(name.to_owned(), text.to_owned());
                }
            };
            put(|resources| &mut resources.requests, asked, request);
            put(|resources| &mut resources.limits, allowed, limit);
        }
        Ok(resources)
    }
}

fn quantity(path: &str, text: &str) -> Result<Quantity, ConfigError> {
    if text.is_empty() {
        return Ok(Quantity::default());
    }
    let read: Quantity = text.parse().map_err(|error| wrong(path, format!("{error}")))?;
    if read < Quantity::default() { Err(wrong(path, "it must not be negative")) } else { Ok(read) }
}

/// Refuses labels that no pod can have.
pub(super) fn check_labels(path: &str, labels: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    match labels.iter().find(|(key, value)| !is_label_key(key) || !is_label_value(value)) {
        Some((key, value)) => {
            Err(wrong(path, format!("{key:?}: {value:?} is not a label; use letters, digits, '-', '_' or '.'")))
        }
        None => Ok(()),
    }
}

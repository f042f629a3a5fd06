//! Errors and warnings of a backup or restore.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::wire::{UnknownFields, null_as_default};

/// Messages, sorted by what they are about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// Messages about the work as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub velero: Vec<String>,

    /// Messages about cluster-scoped objects.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster: Vec<String>,

    /// Messages about objects in a namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub namespaces: BTreeMap<String, Vec<String>>,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl Results {
    /// Adds a message about the work as a whole.
    pub fn add_velero(&mut self, message: impl Into<String>) {
        self.velero.push(message.into());
    }

    /// Adds a message about an object in this namespace, or a cluster-scoped one when it is empty.
    pub fn add(&mut self, namespace: &str, message: impl Into<String>) {
        if namespace.is_empty() {
            self.cluster.push(message.into());
        } else {
            self.namespaces.entry(namespace.to_owned()).or_default().push(message.into());
        }
    }

    /// Adds all messages of another list behind the ones that are here.
    pub fn merge(&mut self, other: Self) {
        self.velero.extend(other.velero);
        self.cluster.extend(other.cluster);
        for (namespace, messages) in other.namespaces {
            self.namespaces.entry(namespace).or_default().extend(messages);
        }
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.velero.len() + self.cluster.len() + self.namespaces.values().map(Vec::len).sum::<usize>()
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The results file of a backup or restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultsFile {
    /// What went wrong.
    #[serde(deserialize_with = "null_as_default")]
    pub errors: Results,

    /// What should be looked at.
    #[serde(deserialize_with = "null_as_default")]
    pub warnings: Results,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        r#"{"errors":{"velero":["no space"],"namespaces":{"shop":["pod a","pod b"]}},"warnings":{"cluster":["crd"]}}"#;

    #[test]
    fn a_results_file_is_written_as_it_was_read() {
        let file: ResultsFile = serde_json::from_str(FILE).unwrap();
        assert_eq!(file.errors.len(), 3);
        assert_eq!(file.warnings.len(), 1);
        assert_eq!(serde_json::to_string(&file).unwrap(), FILE);
    }

    #[test]
    fn a_file_without_messages_has_both_keys() {
        assert_eq!(serde_json::to_string(&ResultsFile::default()).unwrap(), r#"{"errors":{},"warnings":{}}"#);
    }

    #[test]
    fn messages_are_sorted_by_namespace_and_merged_in_order() {
        let mut results = Results::default();
        results.add("shop", "first");
        results.add("", "about a node");
        let mut more = Results::default();
        more.add("shop", "second");
        more.add_velero("the whole");
        results.merge(more);
        assert_eq!(results.namespaces["shop"], ["first", "second"]);
        assert_eq!((results.cluster.len(), results.velero.len(), results.len()), (1, 1, 4));
    }
}

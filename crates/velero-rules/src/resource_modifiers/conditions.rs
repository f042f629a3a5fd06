//! Which objects a rule is for.

use regex::Regex;
use serde_json::Value;

use super::document::ConditionsDocument;
use super::error::RuleError;
use super::patches::{holds, read_value};
use crate::hooks::text_map;
use crate::includes_excludes::IncludesExcludes;
use crate::selector::Selector;
use crate::wildcard::Wildcard;

/// Separates the parts of a type, such as `deployments.apps`: `*` does not cross it, `**` does.
const SEPARATOR: char = '.';

/// All of it must hold.
#[derive(Debug, Clone)]
pub(super) struct Conditions {
    group_resource: Wildcard,
    namespaces: IncludesExcludes,
    name: Option<Regex>,
    labels: Selector,
    /// JSON pointers and the values that must be there.
    matches: Vec<(String, Value)>,
}

impl Conditions {
    pub(super) fn new(document: &ConditionsDocument) -> Result<Self, RuleError> {
        let pattern = &document.group_resource;
        if pattern.is_empty() {
            return Err(RuleError::NoGroupResource);
        }
        let group_resource = Wildcard::compile_with_separator(pattern, SEPARATOR)
            .map_err(|problem| RuleError::GroupResource { pattern: pattern.clone(), problem })?;
        let labels = document.label_selector.as_ref().map(Selector::try_from).transpose();
        let mut matches = Vec::new();
        for condition in &document.matches {
            if condition.path.is_empty() {
                return Err(RuleError::NoMatchPath);
            }
            matches.push((condition.path.clone(), read_value(&condition.value)?));
        }
        Ok(Self {
            group_resource,
            namespaces: IncludesExcludes::new(&document.namespaces, &[]),
            name: name_regex(&document.resource_name_regex)?,
            labels: labels.map_err(RuleError::Labels)?.unwrap_or_default(),
            matches,
        })
    }

    /// Says whether the rule is for an object. One without a namespace is in all of them.
    pub(super) fn match_object(&self, object: &Value, group_resource: &str) -> bool {
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let name = metadata["name"].as_str().unwrap_or_default();
        (namespace.is_empty() || self.namespaces.should_include(namespace))
            && self.group_resource.matches(group_resource)
            && self.name.as_ref().is_none_or(|regex| regex.is_match(name))
            && self.labels.matches(&text_map(&metadata["labels"]))
            && self.matches.iter().all(|(path, value)| holds(object, path, value))
    }
}

fn name_regex(text: &str) -> Result<Option<Regex>, RuleError> {
    if text.is_empty() {
        return Ok(None);
    }
    Regex::new(text).map(Some).map_err(RuleError::Name)
}

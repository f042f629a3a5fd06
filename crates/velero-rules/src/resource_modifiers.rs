//! Changes to objects on their way back into a cluster, as the ConfigMap of a restore describes them.

mod conditions;
mod document;
mod error;
mod patches;
mod source;

use std::collections::BTreeMap;

use serde_json::Value;

use conditions::Conditions;
use document::{Document, RuleDocument};
use error::RuleError;
use patches::Patches;

pub use source::ModifierSource;

const SUPPORTED_VERSION: &str = "v1";

/// Why resource modifiers were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModifierError {
    /// The ConfigMap does not hold exactly one document.
    #[error("illegal resource modifiers configmap: it must have exactly one data key, found {keys}")]
    DataKeys {
        /// How many keys it has.
        keys: usize,
    },
    /// The document cannot be read.
    #[error("failed to decode yaml data into resource modifiers, err: {reason}")]
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

impl ModifierError {
    /// Gives the message for `status.validationErrors` of a restore that refers to the ConfigMap.
    pub fn message(&self, namespace: &str, config_map: &str) -> String {
        let beginning = match self {
            Self::DataKeys { .. } | Self::Decode { .. } => "Error in parsing",
            Self::Invalid { .. } => "Validation error in",
        };
        format!("{beginning} resource modifiers provided in configmap {namespace}/{config_map}: {self}")
    }
}

fn invalid(problem: impl Into<String>) -> ModifierError {
    ModifierError::Invalid { problem: problem.into() }
}

#[derive(Debug, Clone)]
struct Rule {
    conditions: Conditions,
    patches: Patches,
}

/// The rules of a resource modifier ConfigMap.
#[derive(Debug, Clone, Default)]
pub struct ResourceModifiers {
    rules: Vec<Rule>,
}

impl ResourceModifiers {
    /// Reads and validates the only document of a ConfigMap.
    pub fn from_config_map(data: &BTreeMap<String, String>) -> Result<Self, ModifierError> {
        let mut documents = data.values();
        match (documents.next(), documents.next()) {
            (Some(document), None) => Self::parse(document),
            _ => Err(ModifierError::DataKeys { keys: data.len() }),
        }
    }

    /// Reads and validates a document. A key it does not know is an error.
    pub fn parse(yaml: &str) -> Result<Self, ModifierError> {
        let document: Document =
            serde_saphyr::from_str(yaml).map_err(|error| ModifierError::Decode { reason: error.to_string() })?;
        if !document.version.eq_ignore_ascii_case(SUPPORTED_VERSION) {
            return Err(invalid(format!("unsupported resource modifier version {}", document.version)));
        }
        if document.resource_modifier_rules.is_empty() {
            return Err(invalid("resource modifier rules cannot be empty"));
        }
        let rules = document.resource_modifier_rules.iter().enumerate().map(|(index, rule)| {
            Rule::new(rule).map_err(|problem| invalid(format!("resourceModifierRules[{index}]: {problem}")))
        });
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// Changes an object in place by every rule that matches it, and gives what went wrong.
    ///
    /// All conditions are tested on the object as it comes. A rule that fails leaves the object as the rules before
    /// made it. `group_resource` is the type, such as `deployments.apps`.
    pub fn apply(&self, object: &mut Value, group_resource: &str) -> Vec<String> {
        let rules = self.rules.iter().enumerate();
        let matching: Vec<_> = rules.filter(|(_, rule)| rule.conditions.match_object(object, group_resource)).collect();
        let mut problems = Vec::new();
        for (index, rule) in matching {
            match rule.patches.apply(object) {
                Ok(changed) => *object = changed,
                Err(error) => problems.push(format!(
                    "error in applying patch of resourceModifierRules[{index}] to {group_resource}: {error}"
                )),
            }
        }
        problems
    }
}

impl Rule {
    fn new(document: &RuleDocument) -> Result<Self, RuleError> {
        Ok(Self { conditions: Conditions::new(&document.conditions)?, patches: Patches::new(document)? })
    }
}

#[cfg(test)]
mod tests;

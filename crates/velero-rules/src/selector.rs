//! Label selectors: the text form of kubectl, the object form of the API, matching, and the query for a list call.

mod parse;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::names::{is_label_key, is_label_value};

/// Why a selector was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text does not follow the grammar.
    #[error("unable to parse label selector {text:?}: found {found}, expected {expected}")]
    Syntax {
        /// The whole text.
        text: String,
        /// What stood there.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A key that cannot be a label key.
    #[error(
        "label selector key {key:?} is not a valid label key: use [prefix/]name with letters, digits, '-', '_' or '.'"
    )]
    Key {
        /// The key.
        key: String,
    },
    /// A value that cannot be a label value.
    #[error(
        "label selector value {value:?} of key {key:?} is not a valid label value: use at most 63 letters, digits, '-', '_' or '.'"
    )]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// An operator the API does not know.
    #[error(
        "label selector key {key:?}: {operator:?} is not a valid label selector operator, use In, NotIn, Exists or DoesNotExist"
    )]
    Operator {
        /// The key.
        key: String,
        /// The operator.
        operator: String,
    },
    /// Too many or too few values for the operator.
    #[error("label selector key {key:?}: {remedy}")]
    ValueCount {
        /// The key.
        key: String,
        /// What the operator wants.
        remedy: &'static str,
    },
    /// An operator that the object form cannot express.
    #[error(
        "label selector key {key:?}: operator {operator:?} cannot be stored in a resource, it only works in a list call"
    )]
    NotStorable {
        /// The key.
        key: String,
        /// The operator.
        operator: &'static str,
    },
}

/// How a requirement compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    Equals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

/// A selector: all of its requirements must hold. Without any, everything matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

impl Requirement {
    fn new(key: &str, operator: Operator, values: BTreeSet<String>) -> Result<Self, SelectorError> {
        let count = |remedy| Err(SelectorError::ValueCount { key: key.to_owned(), remedy });
        if !is_label_key(key) {
            return Err(SelectorError::Key { key: key.to_owned() });
        }
        if let Some(value) = values.iter().find(|value| !is_label_value(value)) {
            return Err(SelectorError::Value { key: key.to_owned(), value: value.clone() });
        }
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return count("operators in and notin need at least one value");
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                return count("operators exists and does-not-exist take no values");
            }
            Operator::GreaterThan | Operator::LessThan if values.iter().any(|value| value.parse::<i64>().is_err()) => {
                return count("operators > and < need one whole number");
            }
            _ => {}
        }
        Ok(Self { key: key.to_owned(), operator, values })
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            Operator::Equals | Operator::In => listed,
            Operator::NotEquals | Operator::NotIn => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value, |label, bound| label > bound),
            Operator::LessThan => self.compare(value, |label, bound| label < bound),
        }
    }

    fn compare(&self, value: Option<&String>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let number = |text: Option<&String>| text.and_then(|text| text.parse::<i64>().ok());
        number(value).zip(number(self.values.first())).is_some_and(|(label, bound)| holds(label, bound))
    }

    fn to_expression(&self) -> Result<LabelSelectorRequirement, SelectorError> {
        let not_storable = |operator| Err(SelectorError::NotStorable { key: self.key.clone(), operator });
        let operator = match self.operator {
            Operator::Equals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan => return not_storable(">"),
            Operator::LessThan => return not_storable("<"),
        };
        Ok(LabelSelectorRequirement {
            key: self.key.clone(),
            operator: operator.to_owned(),
            values: (!self.values.is_empty()).then(|| self.values.iter().cloned().collect()),
        })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let list = values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match operator {
            Operator::Equals => write!(formatter, "{key}={list}"),
            Operator::NotEquals => write!(formatter, "{key}!={list}"),
            Operator::In => write!(formatter, "{key} in ({list})"),
            Operator::NotIn => write!(formatter, "{key} notin ({list})"),
            Operator::Exists => write!(formatter, "{key}"),
            Operator::DoesNotExist => write!(formatter, "!{key}"),
            Operator::GreaterThan => write!(formatter, "{key}>{list}"),
            Operator::LessThan => write!(formatter, "{key}<{list}"),
        }
    }
}

impl Selector {
    fn from_requirements(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Self { requirements }
    }

    /// Says whether all requirements hold for these labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Says whether there is no requirement, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Gives the form stored in a resource: equalities become `matchLabels`, the rest `matchExpressions`.
    pub fn to_label_selector(&self) -> Result<LabelSelector, SelectorError> {
        let mut match_labels = BTreeMap::new();
        let mut expressions = Vec::new();
        for requirement in &self.requirements {
            match (requirement.operator, requirement.values.first()) {
                (Operator::Equals, Some(value)) => {
                    match_labels.insert(requirement.key.clone(), value.clone());
                }
                _ => expressions.push(requirement.to_expression()?),
            }
        }
        Ok(LabelSelector {
            match_labels: (!match_labels.is_empty()).then_some(match_labels),
            match_expressions: (!expressions.is_empty()).then_some(expressions),
        })
    }
}

/// Prints the selector as the query of a list call.
impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.requirements.iter().map(ToString::to_string).collect();
        formatter.write_str(&parts.join(","))
    }
}

/// Parses the text form, for instance `a=b,c!=d,e in (x,y),!f,g`.
impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        parse::requirements(text).map(Self::from_requirements)
    }
}

impl TryFrom<&LabelSelector> for Selector {
    type Error = SelectorError;

    fn try_from(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector.match_labels.iter().flatten();
        let equalities =
            labels.map(|(key, value)| Requirement::new(key, Operator::Equals, BTreeSet::from([value.clone()])));
        let expressions = selector.match_expressions.iter().flatten().map(requirement_of_expression);
        equalities.chain(expressions).collect::<Result<_, _>>().map(Self::from_requirements)
    }
}

fn requirement_of_expression(expression: &LabelSelectorRequirement) -> Result<Requirement, SelectorError> {
    let operator = match expression.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => {
            return Err(SelectorError::Operator { key: expression.key.clone(), operator: other.to_owned() });
        }
    };
    Requirement::new(&expression.key, operator, expression.values.iter().flatten().cloned().collect())
}

/// The label filter of a backup or restore: `labelSelector`, or any of `orLabelSelectors`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectorSet {
    alternatives: Vec<Selector>,
}

impl SelectorSet {
    /// Builds the filter from the two fields of a spec. With neither, everything matches.
    pub fn new(single: Option<&LabelSelector>, any_of: &[LabelSelector]) -> Result<Self, SelectorError> {
        let given = single.into_iter().chain(any_of);
        Ok(Self { alternatives: given.map(Selector::try_from).collect::<Result<_, _>>()? })
    }

    /// Says whether no selector was given.
    pub fn is_empty(&self) -> bool {
        self.alternatives.is_empty()
    }

    /// Says whether any of the selectors matches, or none was given.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.is_empty() || self.alternatives.iter().any(|selector| selector.matches(labels))
    }

    /// Gives one query for each list call: a single empty one when no selector was given.
    pub fn queries(&self) -> Vec<String> {
        if self.is_empty() {
            return vec![String::new()];
        }
        self.alternatives.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests;

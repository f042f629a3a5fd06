//! Values of flags with the meaning Velero gives them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{self, Display};
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use velero_rules::pairs::{self, PairsError};
use velero_rules::selector::{Selector, SelectorError};

/// A comma separated list. Given twice, the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StringList(pub(crate) Vec<String>);

impl FromStr for StringList {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.split(',').map(str::to_owned).collect()))
    }
}

/// A switch with three positions: not given, on, off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OptionalBool(pub(crate) Option<bool>);

impl FromStr for OptionalBool {
    type Err = NoTruthValue;

    fn from_str(text: &str) -> Result<Self, NoTruthValue> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        parse_bool(text).map(|value| Self(Some(value)))
    }
}

/// A text that Go does not accept as a truth value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoTruthValue(String);

impl Display for NoTruthValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "invalid truth value {:?}, use true or false", self.0)
    }
}

impl std::error::Error for NoTruthValue {}

/// Reads what Go accepts as a truth value.
pub(crate) fn parse_bool(text: &str) -> Result<bool, NoTruthValue> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(NoTruthValue(other.to_owned())),
    }
}

/// Pairs of key and value, `key=value,key=value`; quotes keep a comma inside an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyValues(pub(crate) BTreeMap<String, String>);

impl FromStr for KeyValues {
    type Err = PairsError;

    fn from_str(text: &str) -> Result<Self, PairsError> {
        pairs::parse(text, '=').map(Self)
    }
}

/// Pairs of names, `from:to,from:to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mappings(pub(crate) BTreeMap<String, String>);

impl FromStr for Mappings {
    type Err = PairsError;

    fn from_str(text: &str) -> Result<Self, PairsError> {
        pairs::parse(text, ':').map(Self)
    }
}

/// Merges the occurrences of a flag; a later value replaces an earlier one of the same key.
pub(crate) fn merged(occurrences: &[KeyValues]) -> BTreeMap<String, String> {
    occurrences.iter().flat_map(|pairs| pairs.0.clone()).collect()
}

/// A label selector in the form that is stored in an object.
pub(crate) fn parse_selector(text: &str) -> Result<LabelSelector, SelectorError> {
    text.parse::<Selector>()?.to_label_selector()
}

/// Label selectors of which one must match, separated by ` or `.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrSelectors(pub(crate) Vec<LabelSelector>);

impl FromStr for OrSelectors {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        text.split(" or ").map(parse_selector).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_without_its_separator_is_named() {
        assert_eq!("a=b,c".parse::<KeyValues>().unwrap_err().to_string(), "error parsing \"c\"");
        assert!("\"a=b".parse::<KeyValues>().is_err());
        assert!("a=b".parse::<Mappings>().is_err());
    }

    #[test]
    fn truth_values_are_those_of_go() {
        for (text, expected) in [("true", Some(Some(true))), ("f", Some(Some(false))), ("", Some(None)), ("yes", None)]
        {
            assert_eq!(text.parse::<OptionalBool>().ok().map(|value| value.0), expected, "{text:?}");
        }
    }

    #[test]
    fn alternatives_are_separated_by_the_word_or() {
        let selectors: OrSelectors = "app=nginx or tier in (a,b)".parse().unwrap();
        assert_eq!(selectors.0.len(), 2);
        assert!("app=nginx or ,=".parse::<OrSelectors>().is_err());
    }
}

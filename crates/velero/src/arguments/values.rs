//! Values of flags with the meaning Velero gives them.

use std::collections::BTreeMap;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use velero_rules::selector::Selector;

/// A comma separated list. Given twice, the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StringList(pub(crate) Vec<String>);

impl FromStr for StringList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.split(',').map(str::to_owned).collect()))
    }
}

/// A switch with three positions: not given, on, off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OptionalBool(pub(crate) Option<bool>);

impl FromStr for OptionalBool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        parse_bool(text).map(|value| Self(Some(value)))
    }
}

/// Reads what Go accepts as a truth value.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("invalid truth value {other:?}, use true or false")),
    }
}

/// Pairs of key and value, `key=value,key=value`; quotes keep a comma inside an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyValues(pub(crate) BTreeMap<String, String>);

impl FromStr for KeyValues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_pairs(text, '=').map(Self)
    }
}

/// Pairs of names, `from:to,from:to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mappings(pub(crate) BTreeMap<String, String>);

impl FromStr for Mappings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_pairs(text, ':').map(Self)
    }
}

/// Merges the occurrences of a flag; a later value replaces an earlier one of the same key.
pub(crate) fn merged(occurrences: &[KeyValues]) -> BTreeMap<String, String> {
    occurrences.iter().flat_map(|pairs| pairs.0.clone()).collect()
}

fn parse_pairs(text: &str, separator: char) -> Result<BTreeMap<String, String>, String> {
    let mut pairs = BTreeMap::new();
    for entry in split_record(text)? {
        let (key, value) = entry.split_once(separator).ok_or_else(|| format!("error parsing {entry:?}"))?;
        pairs.insert(key.to_owned(), value.to_owned());
    }
    Ok(pairs)
}

/// Splits one line of comma separated values with quoted fields.
fn split_record(text: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                quoted_field(quoted).ok_or_else(|| format!("error parsing {text:?}: a quote is not closed"))?
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err(format!("error parsing {text:?}: a quote ends inside a field")),
        }
    }
}

/// The field up to its closing quote, where two quotes stand for one, and what follows.
fn quoted_field(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Some((field, after)),
        }
    }
}

/// A label selector in the form that is stored in an object.
pub(crate) fn parse_selector(text: &str) -> Result<LabelSelector, String> {
    let selector: Selector = text.parse().map_err(|error| format!("{error}"))?;
    selector.to_label_selector().map_err(|error| error.to_string())
}

/// Label selectors of which one must match, separated by ` or `.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrSelectors(pub(crate) Vec<LabelSelector>);

impl FromStr for OrSelectors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(" or ").map(parse_selector).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_a_quoted_comma_and_further_separators() {
        let pairs: KeyValues = r#""k1=a=b,c=d",k2=v2"#.parse().unwrap();
        let expected = [("k1", "a=b,c=d"), ("k2", "v2")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs.0, expected.into());
        assert_eq!(r#""k=say ""hi""""#.parse::<KeyValues>().unwrap().0["k"], "say \"hi\"");
    }

    #[test]
    fn a_pair_without_its_separator_is_named() {
        assert_eq!("a=b,c".parse::<KeyValues>().unwrap_err(), "error parsing \"c\"");
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

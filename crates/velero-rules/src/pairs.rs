//! Pairs as flags have them: `key=value,key=value` or `from:to,from:to`; quotes keep a comma inside an entry.

use std::collections::BTreeMap;

/// A text that is not a list of pairs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairsError {
    /// An entry lacks what separates its two sides.
    #[error("error parsing {0:?}")]
    NoPair(String),
    /// A quote has no end.
    #[error("error parsing {0:?}: a quote is not closed")]
    OpenQuote(String),
    /// A quote ends, and the entry goes on.
    #[error("error parsing {0:?}: a quote ends inside a field")]
    QuoteInside(String),
}

/// Reads pairs whose sides are kept apart by `separator`; a later pair replaces an earlier one of the same key.
pub fn parse(text: &str, separator: char) -> Result<BTreeMap<String, String>, PairsError> {
    let pair = |entry: String| match entry.split_once(separator) {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(PairsError::NoPair(entry)),
    };
    split_record(text)?.into_iter().map(pair).collect()
}

/// Splits one line of comma separated values with quoted fields.
fn split_record(text: &str) -> Result<Vec<String>, PairsError> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted).ok_or_else(|| PairsError::OpenQuote(text.to_owned()))?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err(PairsError::QuoteInside(text.to_owned())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_a_quoted_comma_and_further_separators() {
        let pairs = parse(r#""k1=a=b,c=d",k2=v2"#, '=').unwrap();
        let expected = [("k1", "a=b,c=d"), ("k2", "v2")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs, expected.into());
        assert_eq!(parse(r#""k=say ""hi""""#, '=').unwrap()["k"], "say \"hi\"");
    }

    #[test]
    fn what_is_no_pair_is_named() {
        for (text, separator, expected) in [
            ("a=b,c", '=', "error parsing \"c\""),
            ("a=b", ':', "error parsing \"a=b\""),
            ("", ':', "error parsing \"\""),
            ("\"a=b", '=', "error parsing \"\\\"a=b\": a quote is not closed"),
            ("\"a=b\"c", '=', "error parsing \"\\\"a=b\\\"c\": a quote ends inside a field"),
        ] {
            assert_eq!(parse(text, separator).unwrap_err().to_string(), expected);
        }
    }
}

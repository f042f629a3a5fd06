//! What can be seen of credentials and values by looking at them, before any request.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Something odd about a text that people paste, mount and encode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// There is a line break at the end of what must be one line.
    TrailingNewline {
        /// What ends in it.
        of: String,
    },
    /// There is a space around it, or a character nobody sees inside.
    Blank {
        /// What has it.
        of: String,
    },
    /// The quotes around it are taken for a part of it.
    Quoted {
        /// What is in quotes.
        of: String,
    },
    /// Line breaks are written as a backslash and an `n`.
    WrittenOutNewlines,
    /// The whole file is encoded once more.
    EncodedTwice,
    /// It is a file of another kind.
    OtherFormat {
        /// What it looks like.
        found: &'static str,
        /// What is needed.
        wanted: &'static str,
    },
}

impl Flaw {
    /// What is wrong, and what to do: a sentence each.
    pub fn words(&self) -> (String, String) {
        match self {
            Self::TrailingNewline { of } => (
                format!("{of} ends in a line break"),
                "write it again without one: printf '%s' instead of echo, kubectl create secret --from-literal, or in \
                 YAML \"…\" and |- instead of |"
                    .to_owned(),
            ),
            Self::Blank { of } => {
                (format!("{of} has a space or an invisible character in it"), "write it again without".to_owned())
            }
            Self::Quoted { of } => {
                (format!("{of} is in quotes, which are taken for a part of it"), "remove the quotes".to_owned())
            }
            Self::WrittenOutNewlines => (
                "the lines of the credentials are held together by \\n in writing instead of line breaks".to_owned(),
                "make the Secret from a file: kubectl create secret generic NAME --from-file=cloud=FILE".to_owned(),
            ),
            Self::EncodedTwice => (
                "the credentials are encoded in base64 twice".to_owned(),
                "put the plain file into stringData of the Secret, or its encoding into data, and not both".to_owned(),
            ),
            Self::OtherFormat { found, wanted } => (
                format!("the credentials look like {found}, and {wanted} is needed"),
                "take the file of this provider, or correct spec.provider".to_owned(),
            ),
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (problem, remedy) = self.words();
        write!(formatter, "{problem}; {remedy}")
    }
}

/// Looks at one value that must be a single line.
pub(crate) fn of_value(name: &str, value: &str) -> Option<Flaw> {
    let of = || name.to_owned();
    if value.ends_with(['\n', '\r']) {
        return Some(Flaw::TrailingNewline { of: of() });
    }
    (value.trim() != value || value.chars().any(char::is_control)).then(|| Flaw::Blank { of: of() })
}

/// Looks at the credentials of a provider.
pub(crate) fn of_credentials(provider: &str, text: &str) -> Vec<Flaw> {
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    if trimmed.is_empty() {
        return Vec::new();
    }
    let is_encoded = BASE64_STANDARD
        .decode(trimmed.split_whitespace().collect::<String>())
        .ok()
        .and_then(|inner| String::from_utf8(inner).ok())
        .is_some_and(|inner| looks_like_credentials(&inner));
    if is_encoded {
        return vec![Flaw::EncodedTwice];
    }
    if trimmed.contains("\\n") && !trimmed.contains('\n') && !trimmed.starts_with('{') {
        return vec![Flaw::WrittenOutNewlines];
    }
    let found = format_of(trimmed);
    let wanted = match provider {
        "aws" => Some(AWS_FILE),
        "gcp" => Some(GCP_FILE),
        "azure" => Some(AZURE_FILE),
        _ => None,
    };
    match (found, wanted) {
        (Some(found), Some(wanted)) if found != wanted => vec![Flaw::OtherFormat { found, wanted }],
        _ if provider == "aws" || provider == "azure" => of_lines(trimmed),
        _ => Vec::new(),
    }
}

const AWS_FILE: &str = "a credentials file of AWS (a line [default], then keys)";
const GCP_FILE: &str = "a key file of Google Cloud (JSON)";
const AZURE_FILE: &str = "a credentials file of Azure (lines AZURE_…=…)";

fn format_of(text: &str) -> Option<&'static str> {
    match () {
        () if text.starts_with('{') => Some(GCP_FILE),
        () if text.lines().any(|line| line.trim_start().starts_with('[')) => Some(AWS_FILE),
        () if text.lines().any(|line| line.trim_start().trim_start_matches("export ").starts_with("AZURE_")) => {
            Some(AZURE_FILE)
        }
        () => None,
    }
}

fn looks_like_credentials(text: &str) -> bool {
    text.contains("aws_access_key_id") || text.contains("AZURE_") || text.contains("\"private_key\"")
}

/// Keys and secrets of a file of lines; its end and its line ends do no harm.
fn of_lines(text: &str) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';', '['])) {
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let is_key = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"]
            .contains(&key.to_ascii_lowercase().as_str());
        let is_quoted =
            value.len() > 1 && ['"', '\''].iter().any(|quote| value.starts_with(*quote) && value.ends_with(*quote));
        if is_key && is_quoted {
            flaws.push(Flaw::Quoted { of: key.to_owned() });
        } else if is_key && value.chars().any(|character| character.is_whitespace() || character.is_control()) {
            flaws.push(Flaw::Blank { of: key.to_owned() });
        }
    }
    flaws
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_more_than_one_line_is_noticed() {
        let newline = Some(Flaw::TrailingNewline { of: "region".to_owned() });
        let blank = Some(Flaw::Blank { of: "region".to_owned() });
        for (value, expected) in [
            ("us-east-1", None),
            ("", None),
            ("us-east-1\n", newline.clone()),
            ("us-east-1\r\n", newline),
            (" us-east-1", blank.clone()),
            ("us-east-1 ", blank.clone()),
            ("us\teast", blank),
        ] {
            assert_eq!(of_value("region", value), expected, "{value:?}");
        }
    }

    #[test]
    fn what_people_do_to_credentials_is_noticed() {
        let good = "[default]\naws_access_key_id=a\naws_secret_access_key=b\n";
        let quoted = Flaw::Quoted { of: "aws_secret_access_key".to_owned() };
        let blank = Flaw::Blank { of: "aws_access_key_id".to_owned() };
        let other = |found, wanted| Flaw::OtherFormat { found, wanted };
        for (provider, text, expected) in [
            ("aws", good.to_owned(), vec![]),
            ("aws", good.replace('\n', "\r\n"), vec![]),
            ("aws", String::new(), vec![]),
            ("aws", good.replace("=b", " = \"b\""), vec![quoted]),
            ("aws", good.replace("=a", "=a b"), vec![blank]),
            ("aws", good.trim_end().replace('\n', "\\n"), vec![Flaw::WrittenOutNewlines]),
            ("aws", BASE64_STANDARD.encode(good), vec![Flaw::EncodedTwice]),
            ("aws", "{\"type\":\"service_account\"}".to_owned(), vec![other(GCP_FILE, AWS_FILE)]),
            ("gcp", good.to_owned(), vec![other(AWS_FILE, GCP_FILE)]),
            ("azure", "AZURE_CLIENT_ID=1\nAZURE_CLIENT_SECRET='x'\n".to_owned(), vec![]),
            ("azure", good.to_owned(), vec![other(AWS_FILE, AZURE_FILE)]),
            ("gcp", "{\"private_key\": \"a\\nb\"}".to_owned(), vec![]),
        ] {
            assert_eq!(of_credentials(provider, &text), expected, "{provider}: {text}");
        }
    }
}

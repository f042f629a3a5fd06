//! Digests: how content is named, and the check that bytes are what their name promises.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

const ALGORITHM: &str = "sha256:";

/// The name of content: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.digest()
    }

    /// The digest as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// It is made in another way.
    #[error("digest {text:?} has an unknown algorithm; it must begin with {ALGORITHM}")]
    Algorithm {
        /// The text.
        text: String,
    },
    /// Behind the name of the algorithm there is something else.
    #[error("digest {text:?} is not {ALGORITHM} and 64 hexadecimal digits in lower case")]
    Digits {
        /// The text.
        text: String,
    },
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix(ALGORITHM).ok_or_else(|| DigestError::Algorithm { text: text.to_owned() })?;
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hex.len() != 64 || !hex.bytes().all(lower_hex) {
            return Err(DigestError::Digits { text: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Takes bytes as they pass.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes so far; the hasher begins anew.
    pub(crate) fn digest(&mut self) -> Digest {
        let hex: String = self.0.finalize_reset().iter().map(|byte| format!("{byte:02x}")).collect();
        Digest(format!("{ALGORITHM}{hex}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_sha256_digests_are_read() {
        let whole = Digest::of(b"");
        assert_eq!(whole.as_str(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(whole.as_str().parse(), Ok(whole.clone()));
        let upper = format!("{ALGORITHM}{}", "A".repeat(64));
        let long = format!("{whole}0");
        for text in ["", "sha256:", "sha256:1", "sha512:00", "md5:d41d8cd98f00b204e9800998ecf8427e", &upper, &long] {
            assert!(text.parse::<Digest>().is_err(), "{text:?}");
        }
    }
}

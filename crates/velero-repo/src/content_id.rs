//! The name of a content: the hash of its bytes, and a letter that says what it is for.

use std::fmt;
use std::str::FromStr;

use crate::hex;
use crate::{Error, Result};

/// The hash of a content, truncated as kopia does.
pub type Hash = [u8; 16];

/// The id of a content. Its order is that of the binary keys of an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId {
    prefix: u8,
    hash: Hash,
}

impl ContentId {
    /// The bytes of a key in an index.
    pub const KEY_SIZE: usize = 17;

    /// The id of file data.
    pub const fn data(hash: Hash) -> Self {
        Self { prefix: 0, hash }
    }

    /// The id of a content with a prefix letter: `k` directory, `x` indirect list, `m` manifest; `None` for others than
    /// `g` to `z`.
    pub fn with_prefix(prefix: char, hash: Hash) -> Option<Self> {
        ('g'..='z').contains(&prefix).then_some(Self { prefix: prefix as u8, hash })
    }

    /// The prefix letter, if it has one.
    pub fn prefix(&self) -> Option<char> {
        (self.prefix != 0).then_some(char::from(self.prefix))
    }

    /// The hash of the content's bytes: also the initialisation vector it is encrypted with.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// The key of an index.
    pub fn to_key(self) -> [u8; Self::KEY_SIZE] {
        let mut key = [self.prefix; Self::KEY_SIZE];
        key[1..].copy_from_slice(&self.hash);
        key
    }

    /// From the key of an index; `None` when its prefix is no prefix or its length is wrong.
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let (prefix, hash) = key.split_first()?;
        let hash = hash.try_into().ok()?;
        matches!(prefix, 0 | b'g'..=b'z').then_some(Self { prefix: *prefix, hash })
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(prefix) = self.prefix() {
            write!(formatter, "{prefix}")?;
        }
        self.hash.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for ContentId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::malformed(format!("content id {text:?}"), "it is not 32 hex digits after at most one letter g-z");
        let (prefix, digits) = match text.as_bytes().first() {
            Some(letter @ b'g'..=b'z') => (*letter, &text[1..]),
            _ => (0, text),
        };
        let hash = hex::decode(digits).and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)?;
        Ok(Self { prefix, hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_written_and_others_refused() {
        for text in [
            "f5386b932a82749f91057cabb1f8ec1f",
            "k4e1848d26fbd1b528c2ce5abe0c0153c",
            "z00000000000000000000000000000000",
        ] {
            let id: ContentId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(ContentId::from_key(&id.to_key()), Some(id));
        }
        for wrong in [
            "",
            "k",
            "f5386b932a82749f91057cabb1f8ec1",
            "a4e1848d26fbd1b528c2ce5abe0c0153c",
            "K4e1848d26fbd1b528c2ce5abe0c0153c",
            "é",
            "f5386b932a82749f91057cabb1f8ec1F",
        ] {
            assert!(wrong.parse::<ContentId>().is_err(), "{wrong}");
        }
        assert_eq!(ContentId::from_key(&[b'a'; 17]), None);
    }

    #[test]
    fn ids_without_prefix_come_first() {
        let data: ContentId = "ffffffffffffffffffffffffffffffff".parse().unwrap();
        let directory: ContentId = "k00000000000000000000000000000000".parse().unwrap();
        assert!(data < directory);
    }
}

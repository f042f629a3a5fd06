//! From the bytes in a pack to those of a content.

use bytes::{Bytes, BytesMut};

use crate::compression;
use crate::crypto::{NONCE, Sealer};
use crate::index::ContentEntry;
use crate::{Error, Result};

/// Decrypts, decompresses and checks a content. What comes out has the hash the content is named by.
pub(crate) fn open_content(sealer: &Sealer, entry: &ContentEntry, pack: &str, mut sealed: BytesMut) -> Result<Bytes> {
    let damaged = |problem: &dyn std::fmt::Display| Error::DamagedContent {
        content: entry.id.to_string(),
        pack: pack.to_owned(),
        problem: problem.to_string(),
    };
    if entry.key_id != 0 {
        return Err(damaged(&format!("it is encrypted with key {}, which is not known", entry.key_id)));
    }
    let length = sealer.open_in_place(entry.id.hash(), &mut sealed).map_err(|error| damaged(&error))?.len();
    let mut plain = sealed.freeze().slice(NONCE..NONCE + length);
    if entry.compression != compression::NONE {
        let expected = entry.original_length as usize;
        plain = compression::decompress(entry.compression, &plain, expected).map_err(|error| damaged(&error))?.into();
    }
    if plain.len() != entry.original_length as usize {
        return Err(damaged(&format!("it has {} bytes and its index says {}", plain.len(), entry.original_length)));
    }
    if sealer.hash(&plain) != *entry.id.hash() {
        return Err(damaged(&"its bytes are not those its id stands for"));
    }
    Ok(plain)
}

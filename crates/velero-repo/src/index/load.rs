//! From an index blob to its plain bytes. A blob can be larger than the memory we allow ourselves, so a large one is
//! decrypted piece by piece into a file, which is used only once the tag at its end was seen to be right.

use std::fs::File;
use std::io::Write as _;

use aws_lc_rs::cipher::{AES_256, DecryptionContext, StreamingDecryptingKey, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use ghash::GHash;
use ghash::universal_hash::UniversalHash as _;

use super::{IndexBytes, RawIndex};
use crate::blob_name;
use crate::content_id::Hash;
use crate::crypto::{Key, NONCE, OVERHEAD, OpenError, Sealer, TAG, finish_hash};
use crate::store::{BlobInfo, BlobStore, get_exactly};
use crate::{Error, Result};

/// Up to here a blob is decrypted in memory.
const AT_ONCE: u64 = 1 << 20;
/// How much of a large blob is in memory; a multiple of the cipher's block.
const PIECE: usize = 1 << 20;

/// Fetches, decrypts and checks an index blob.
pub fn open_index_blob(store: &dyn BlobStore, sealer: &Sealer, blob: &BlobInfo) -> Result<RawIndex> {
    let name = blob.id.as_str();
    let vector = blob_name::hash_in(name).ok_or_else(|| Error::damaged_blob(name, "its name has no hash"))?;
    let bytes = if blob.size <= AT_ONCE {
        let mut content = Vec::from(store.get(name)?);
        let plain = sealer.open_in_place(&vector, &mut content).map_err(|error| Error::damaged_blob(name, error))?;
        check_hash(name, &vector, &sealer.hash(plain))?;
        IndexBytes::Memory(plain.to_vec().into())
    } else {
        open_large(store, sealer, blob, &vector)?
    };
    RawIndex::open(bytes, name)
}

fn check_hash(name: &str, expected: &Hash, found: &Hash) -> Result<()> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::damaged_blob(name, "its bytes are not those its name stands for"))
    }
}

fn open_large(store: &dyn BlobStore, sealer: &Sealer, blob: &BlobInfo, vector: &Hash) -> Result<IndexBytes> {
    let name = blob.id.as_str();
    let spool = |error| Error::file("write", "temporary index", error);
    let damaged = |error: OpenError| Error::damaged_blob(name, error);
    let mut file: File = tempfile::tempfile().map_err(spool)?;
    let mut hasher = sealer.hasher();
    let nonce = get_exactly(store, name, 0, NONCE)?;
    let mut opening = Opening::new(&sealer.item_key(vector), &nonce, vector).map_err(damaged)?;
    let length = blob.size - OVERHEAD as u64;
    let (mut done, mut plain) = (0, Vec::new());
    while done < length {
        let piece = usize::try_from(length - done).map_or(PIECE, |left| left.min(PIECE));
        let sealed = get_exactly(store, name, NONCE as u64 + done, piece)?;
        opening.update(&sealed, &mut plain).map_err(damaged)?;
        hasher.update(&plain);
        file.write_all(&plain).map_err(spool)?;
        done += piece as u64;
    }
    opening.finish(length, &get_exactly(store, name, NONCE as u64 + length, TAG)?).map_err(damaged)?;
    check_hash(name, vector, &finish_hash(&hasher))?;
    Ok(IndexBytes::File { file, length })
}

/// AES-GCM piece by piece. Its plaintext must not be used before [`Self::finish`] was content.
struct Opening {
    stream: StreamingDecryptingKey,
    authenticator: GHash,
    mask: [u8; TAG],
    additional_length: u64,
}

impl Opening {
    fn new(key: &Key, nonce: &[u8], additional: &[u8]) -> Result<Self, OpenError> {
        let mut counter = [0; 16];
        counter[..NONCE].copy_from_slice(nonce);
        counter[15] = 1;
        let mask = key_stream(key, counter)?;
        counter[15] = 2;
        let mut authenticator = GHash::new(&key_stream(key, [0; 16])?.into());
        authenticator.update_padded(additional);
        Ok(Self { stream: stream(key, counter)?, authenticator, mask, additional_length: additional.len() as u64 })
    }

    /// Decrypts a piece, which is a multiple of a block long unless it is the last.
    fn update(&mut self, sealed: &[u8], plain: &mut Vec<u8>) -> Result<(), OpenError> {
        self.authenticator.update_padded(sealed);
        plain.resize(sealed.len() + 16, 0);
        let written = self.stream.update(sealed, plain).map_err(|_| OpenError)?.written().len();
        plain.truncate(written);
        if written == sealed.len() { Ok(()) } else { Err(OpenError) }
    }

    fn finish(mut self, length: u64, tag: &[u8]) -> Result<(), OpenError> {
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&(self.additional_length * 8).to_be_bytes());
        lengths[8..].copy_from_slice(&(length * 8).to_be_bytes());
        self.authenticator.update_padded(&lengths);
        let expected = self.authenticator.finalize();
        let expected: Vec<u8> = expected.iter().zip(self.mask).map(|(one, other)| one ^ other).collect();
        aws_lc_rs::constant_time::verify_slices_are_equal(&expected, tag).map_err(|_| OpenError)
    }
}

fn stream(key: &Key, counter: [u8; 16]) -> Result<StreamingDecryptingKey, OpenError> {
    let key = UnboundCipherKey::new(&AES_256, &key.0).map_err(|_| OpenError)?;
    StreamingDecryptingKey::ctr(key, DecryptionContext::Iv128(FixedLength::from(counter))).map_err(|_| OpenError)
}

/// One block of the key stream.
fn key_stream(key: &Key, counter: [u8; 16]) -> Result<[u8; 16], OpenError> {
    let mut output = [0; 32];
    let mut stream = stream(key, counter)?;
    let written = stream.update(&[0; 16], &mut output).map_err(|_| OpenError)?.written().len();
    let block = output.get(..written).and_then(|block| block.try_into().ok());
    block.ok_or(OpenError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FolderStore, list_all};
    use crate::testing::sealer;

    #[test]
    fn pieces_open_to_what_was_sealed_at_once_and_flipped_bits_are_found() {
        let sealer = sealer();
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let plain: Vec<u8> =
            (0..2_500_001_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let vector = sealer.hash(&plain);
        let name = format!("xn0_{}-s1-c1", crate::hex::encode(&vector));
        let sealed = sealer.seal(&vector, &plain);
        let open = |content: Vec<u8>| {
            store.put(&name, content.into()).unwrap();
            let blob = list_all(&store, "x").unwrap().remove(0);
            open_large(&store, &sealer, &blob, &vector)
        };
        let opened = open(sealed.clone()).unwrap();
        assert_eq!(opened.read(0, plain.len()).unwrap(), plain);
        for position in [0, 20, 1_500_000, sealed.len() - 17, sealed.len() - 1] {
            let mut flipped = sealed.clone();
            flipped[position] ^= 4;
            assert!(open(flipped).is_err(), "{position}");
        }
        assert!(open(sealed[..sealed.len() - 1].to_vec()).is_err());
    }
}

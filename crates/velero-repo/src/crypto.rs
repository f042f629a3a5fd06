//! Hash, keys and encryption of everything below the format layer. Pure.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac};

use crate::content_id::Hash;

/// What encryption adds: the nonce before and the tag behind.
pub const OVERHEAD: usize = NONCE + TAG;
pub(crate) const NONCE: usize = 12;
pub(crate) const TAG: usize = 16;

/// A secret key of 32 bytes. It never shows in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub(crate) [u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Key(…)")
    }
}

/// The decryption failed: another key, another initialisation vector, or other bytes than were encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its bytes are not those that were encrypted")]
pub struct OpenError;

/// HKDF with SHA-256, 32 bytes.
pub(crate) fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Key {
    let mut key = [0; 32];
    let pseudo_random = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    let info = [info];
    // 32 bytes are always within the limit of HKDF.
    if let Ok(output) = pseudo_random.expand(&info, hkdf::HKDF_SHA256) {
        let _ = output.fill(&mut key);
    }
    Key(key)
}

fn cipher(key: &Key) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, &key.0).ok().map(LessSafeKey::new)
}

/// Opens `nonce ‖ ciphertext ‖ tag` in place and returns the plaintext in it.
pub(crate) fn open_in_place<'a>(key: &Key, additional: &[u8], sealed: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
    if sealed.len() < OVERHEAD {
        return Err(OpenError);
    }
    let (nonce, body) = sealed.split_at_mut(NONCE);
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| OpenError)?;
    cipher(key).ok_or(OpenError)?.open_in_place(nonce, Aad::from(additional), body).map_err(|_| OpenError)
}

/// Appends `nonce ‖ ciphertext ‖ tag` of a plaintext to a buffer, with a fresh random nonce.
pub(crate) fn seal_into(key: &Key, additional: &[u8], plaintext: &[u8], buffer: &mut Vec<u8>) {
    let nonce: [u8; NONCE] = random();
    let start = buffer.len() + NONCE;
    buffer.reserve(plaintext.len() + OVERHEAD);
    buffer.extend_from_slice(&nonce);
    buffer.extend_from_slice(plaintext);
    let nonce = Nonce::assume_unique_for_key(nonce);
    // Sealing fails only beyond 64 GiB, which no content and no blob can reach.
    if let Some(cipher) = cipher(key)
        && let Ok(tag) = cipher.seal_in_place_separate_tag(nonce, Aad::from(additional), &mut buffer[start..])
    {
        buffer.extend_from_slice(tag.as_ref());
    }
}

/// What encryption in place leaves beside the ciphertext.
pub(crate) struct Seal {
    /// Goes before the ciphertext.
    pub(crate) nonce: [u8; NONCE],
    /// Goes behind it.
    pub(crate) tag: [u8; TAG],
}

/// Encrypts a buffer where it lies, with a fresh random nonce.
pub(crate) fn seal_in_place(key: &Key, additional: &[u8], buffer: &mut [u8]) -> Result<Seal, OpenError> {
    let nonce: [u8; NONCE] = random();
    let cipher = cipher(key).ok_or(OpenError)?;
    let used = Nonce::assume_unique_for_key(nonce);
    let tag = cipher.seal_in_place_separate_tag(used, Aad::from(additional), buffer).map_err(|_| OpenError)?;
    Ok(Seal { nonce, tag: tag.as_ref().try_into().map_err(|_| OpenError)? })
}

/// Random bytes for nonces, names and padding.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill_random(&mut bytes);
    bytes
}

/// Fills a buffer with random bytes.
pub fn fill_random(bytes: &mut [u8]) {
    // The random source of the system fails only before the machine is up; names that collide are worse than an end.
    assert!(aws_lc_rs::rand::fill(bytes).is_ok(), "the system has no random bytes");
}

/// What hashes, encrypts and decrypts the contents and blobs of one repository.
#[derive(Clone, Debug)]
pub struct Sealer {
    hash_key: Key,
    item_secret: Key,
}

impl Sealer {
    /// From the two secrets of the format blob.
    pub fn new(hash_key: Key, master_key: &Key) -> Self {
        Self { hash_key, item_secret: derive(&master_key.0, b"encryption", b"") }
    }

    /// The keyed hash that names a content or blob.
    pub fn hash(&self, bytes: &[u8]) -> Hash {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        finish_hash(&hasher)
    }

    /// The hash piece by piece; [`finish_hash`] ends it.
    pub(crate) fn hasher(&self) -> blake2b_simd::State {
        blake2b_simd::Params::new().hash_length(32).key(&self.hash_key.0).to_state()
    }

    /// The key of one item, from its initialisation vector.
    pub(crate) fn item_key(&self, vector: &[u8]) -> Key {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.item_secret.0), vector);
        let mut key = [0; 32];
        key.copy_from_slice(tag.as_ref());
        Key(key)
    }

    /// Encrypts an item and appends it to a buffer.
    pub fn seal_into(&self, vector: &Hash, plaintext: &[u8], buffer: &mut Vec<u8>) {
        seal_into(&self.item_key(vector), vector, plaintext, buffer);
    }

    /// Encrypts an item where it lies.
    pub(crate) fn seal_in_place(&self, vector: &Hash, buffer: &mut [u8]) -> Result<Seal, OpenError> {
        seal_in_place(&self.item_key(vector), vector, buffer)
    }

    /// Encrypts an item.
    pub fn seal(&self, vector: &Hash, plaintext: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::new();
        self.seal_into(vector, plaintext, &mut sealed);
        sealed
    }

    /// Decrypts an item where it lies.
    pub fn open_in_place<'a>(&self, vector: &Hash, sealed: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
        open_in_place(&self.item_key(vector), vector, sealed)
    }
}

/// The hash kopia uses: the first half of BLAKE2b with 32 bytes.
pub(crate) fn finish_hash(hasher: &blake2b_simd::State) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;
    use crate::testing::{key, sealer};

    #[test]
    fn keys_are_derived_as_kopia_does() {
        let master = key("e112b2188c1e82b3809bd3563028bf60d5af289e307b708fd773e824f5dd133f");
        let secret = derive(&master.0, b"encryption", b"");
        assert_eq!(secret, key("a413add3ad3fbef61c4bdd809c5896b0e194c6e8bf68d2e7522a65b431b7027e"));
    }

    #[test]
    fn a_ciphertext_published_by_kopia_opens() {
        let sealer = Sealer::new(Key([0; 32]), &Key(*b"01234567890123456789012345678901"));
        let vector = b"aabbccddeeffgghhiijjkkllmmnnoopp";
        let mut sealed = hex::decode("e43ba07f85a6d70c5f1102ca06cf19c597e5f91e527b21f00fb76e8bec3fd1").unwrap();
        assert_eq!(open_in_place(&sealer.item_key(vector), vector, &mut sealed).unwrap(), b"foo");
    }

    #[test]
    fn a_content_of_the_sample_has_its_hash_key_and_bytes() {
        let sealer = sealer();
        let id = sealer.hash(b"hello, kopia\n");
        assert_eq!(hex::encode(&id), "f5386b932a82749f91057cabb1f8ec1f");
        assert_eq!(sealer.item_key(&id), key("fac231343265cebaa9b57c177c3ec43dc0b7b4ea4370348cfd07bccc8f8843f1"));
        let stored = "6b955a750381d4a47596608d17fec6175ccaf20d3b73e77d8ab9042287077b0c4b88753fe27c32f468";
        let mut sealed = hex::decode(stored).unwrap();
        assert_eq!(sealer.open_in_place(&id, &mut sealed).unwrap(), b"hello, kopia\n");
        assert_eq!(hex::encode(&sealer.hash(b"")), "3dea7d824bc5cf5ca07ccf1e4ac0d33d");
    }

    #[test]
    fn what_was_sealed_opens_and_any_flipped_bit_is_found() {
        let sealer = sealer();
        let vector = sealer.hash(b"some bytes");
        let sealed = sealer.seal(&vector, b"some bytes");
        assert_eq!(sealed.len(), 10 + OVERHEAD);
        assert_eq!(sealer.open_in_place(&vector, &mut sealed.clone()).unwrap(), b"some bytes");
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(sealer.open_in_place(&vector, &mut flipped).is_err(), "{bit}");
        }
        for length in 0..sealed.len() {
            assert!(sealer.open_in_place(&vector, &mut sealed[..length].to_vec()).is_err());
        }
    }
}

//! `kopia.repository` and `kopia.blobcfg`: which algorithms, and the keys behind the password.

mod parameters;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::crypto::{self, Key, Sealer};
use crate::{Error, Result};

pub use parameters::{EpochParameters, Parameters, RequiredFeature, UpgradeLock};

/// The blob that makes a folder or bucket a repository.
pub const REPOSITORY_BLOB: &str = "kopia.repository";
/// The blob with the retention of blobs.
pub const BLOB_CONFIG_BLOB: &str = "kopia.blobcfg";

const KEY_ALGORITHM: &str = "scrypt-65536-8-1";
const ENCRYPTION: &str = "AES256_GCM";

/// The plain part of `kopia.repository`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FormatBlob {
    /// Where the tool comes from.
    pub tool: String,
    /// The version of the tool.
    pub build_version: String,
    /// How the tool was built.
    pub build_info: String,
    /// 32 random bytes in base64; the salt of every key.
    #[serde(rename = "uniqueID")]
    pub unique_id: String,
    /// How the password becomes a key.
    pub key_algo: String,
    /// How the block format is encrypted.
    pub encryption: String,
    /// The encrypted part in base64.
    pub encrypted_block_format: String,
}

impl FormatBlob {
    /// Encrypts the parameters of a new repository.
    pub fn seal(unique_id: &[u8], keys: &FormatKeys, parameters: &Parameters) -> Self {
        Self {
            tool: "https://github.com/kopia/kopia".to_owned(),
            build_version: env!("CARGO_PKG_VERSION").to_owned(),
            build_info: "velero".to_owned(),
            unique_id: BASE64.encode(unique_id),
            key_algo: KEY_ALGORITHM.to_owned(),
            encryption: ENCRYPTION.to_owned(),
            encrypted_block_format: BASE64.encode(keys.seal(&parameters.to_json())),
        }
    }
}

/// The keys behind a password: they open `kopia.repository` and `kopia.blobcfg`.
#[derive(Debug, Clone)]
pub struct FormatKeys {
    cipher: Key,
    additional: Key,
}

impl FormatKeys {
    /// Derives the keys: takes 64 MiB and a fifth of a second.
    pub fn derive(password: &str, unique_id: &[u8]) -> Result<Self> {
        let unsupported = |error: &dyn std::fmt::Display| Error::Unsupported(format!("key derivation: {error}"));
        let parameters = scrypt::Params::new(16, 8, 1).map_err(|error| unsupported(&error))?;
        let mut key = [0; 32];
        scrypt::scrypt(password.as_bytes(), unique_id, &parameters, &mut key).map_err(|error| unsupported(&error))?;
        Ok(Self {
            cipher: crypto::derive(&key, unique_id, b"AES"),
            additional: crypto::derive(&key, unique_id, b"CHECKSUM"),
        })
    }

    /// Decrypts a configuration blob; fails with another password.
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, crypto::OpenError> {
        let mut buffer = sealed.to_vec();
        crypto::open_in_place(&self.cipher, &self.additional.0, &mut buffer).map(|plain| plain.to_vec())
    }

    /// Encrypts a configuration blob.
    pub fn seal(&self, plaintext: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::new();
        crypto::seal_into(&self.cipher, &self.additional.0, plaintext, &mut sealed);
        sealed
    }
}

/// An opened format: everything that is needed to read and write blobs.
#[derive(Debug, Clone)]
pub struct Format {
    /// The random bytes that tell repositories apart.
    pub unique_id: Vec<u8>,
    /// The decrypted parameters.
    pub parameters: Parameters,
    /// The keys behind the password.
    pub keys: FormatKeys,
    /// Hashes, encrypts and decrypts contents and blobs.
    pub sealer: Sealer,
    /// Encrypts `kopia.maintenance`.
    pub maintenance_key: Key,
}

impl Format {
    /// Opens the content of `kopia.repository`; `place` names the repository in errors.
    pub fn open(content: &[u8], password: &str, place: &str) -> Result<Self> {
        Self::open_by(content, place, |unique_id| FormatKeys::derive(password, unique_id))
    }

    /// The same with keys that come from elsewhere.
    pub(crate) fn open_by(content: &[u8], place: &str, keys: impl FnOnce(&[u8]) -> Result<FormatKeys>) -> Result<Self> {
        let (unique_id, sealed) = parse(content)?;
        let keys = keys(&unique_id)?;
        let plain = keys.open(&sealed).map_err(|_| Error::WrongPassword { place: place.to_owned() })?;
        let parameters = Parameters::parse(&plain)?;
        let (secret, master) = (parameters.secret()?, parameters.master_key()?);
        let maintenance_key = crypto::derive(&master.0, &unique_id, b"maintenance schedule");
        Ok(Self { sealer: Sealer::new(secret, &master), unique_id, parameters, keys, maintenance_key })
    }

    /// Whether a content of `kopia.repository` still opens to this format; its keys are not derived again.
    pub(crate) fn check(&self, content: &[u8]) -> Result<()> {
        let (unique_id, sealed) = parse(content)?;
        if unique_id != self.unique_id {
            return Err(Error::damaged_blob(REPOSITORY_BLOB, "its unique id is another"));
        }
        let plain = self.keys.open(&sealed).map_err(|error| Error::damaged_blob(REPOSITORY_BLOB, error))?;
        Parameters::parse(&plain).map(|_| ())
    }
}

/// The unique id and the encrypted part of `kopia.repository`.
fn parse(content: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let malformed = |problem: &dyn std::fmt::Display| Error::malformed(format!("blob {REPOSITORY_BLOB:?}"), problem);
    let blob: FormatBlob = serde_json::from_slice(content).map_err(|error| malformed(&error))?;
    if blob.key_algo != KEY_ALGORITHM {
        return Err(unsupported("key derivation", &blob.key_algo, KEY_ALGORITHM));
    }
    if blob.encryption != ENCRYPTION {
        return Err(unsupported("format encryption", &blob.encryption, ENCRYPTION));
    }
    let unique_id = BASE64.decode(&blob.unique_id).map_err(|error| malformed(&format!("uniqueID: {error}")))?;
    let sealed = BASE64.decode(&blob.encrypted_block_format);
    let sealed = sealed.map_err(|error| malformed(&format!("encryptedBlockFormat: {error}")))?;
    Ok((unique_id, sealed))
}

fn unsupported(what: &str, found: &str, known: &str) -> Error {
    Error::Unsupported(format!("its {what} is {found:?}, and only {known:?} is known"))
}

/// The retention of blobs, from `kopia.blobcfg`. Velero sets none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobConfig {
    /// `COMPLIANCE` or `GOVERNANCE`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub retention_mode: String,
    /// How long, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retention_period: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl BlobConfig {
    /// Opens the content of `kopia.blobcfg`.
    pub fn open(content: &[u8], keys: &FormatKeys) -> Result<Self> {
        let plain = keys.open(content).map_err(|error| Error::damaged_blob(BLOB_CONFIG_BLOB, error))?;
        serde_json::from_slice(&plain).map_err(|error| Error::malformed(format!("blob {BLOB_CONFIG_BLOB:?}"), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;
    use crate::testing::{PASSWORD, key};

    #[test]
    fn the_keys_of_the_sample_are_derived_and_open_its_configuration() {
        let unique_id = hex::decode("03fb7e8b5e7999280f7b4c45edc86f26d346a12f26366be44f3032ef01890412").unwrap();
        let keys = FormatKeys::derive(PASSWORD, &unique_id).unwrap();
        assert_eq!(keys.cipher, key("ae7c82a5cf34aee02b45c9358337c27e623c2599b5badea736d7996c1e08fa94"));
        assert_eq!(keys.additional, key("63651add119de5dcc5d5f6a3b501615200c1c659bab3e86aa7239b192ec10356"));
        let config = hex::decode("d292811579f474a309273bb3528b30ced5a6588c20321353d73735eb4e02").unwrap();
        assert_eq!(keys.open(&config).unwrap(), b"{}");
        assert_eq!(BlobConfig::open(&config, &keys).unwrap(), BlobConfig::default());
        let master = key("e112b2188c1e82b3809bd3563028bf60d5af289e307b708fd773e824f5dd133f");
        let maintenance = crypto::derive(&master.0, &unique_id, b"maintenance schedule");
        assert_eq!(maintenance, key("61a56c1d19faa154a707019a990bf7504f0e1ef05d81bf7806d275b158b78fe2"));
        assert_eq!(keys.open(&keys.seal(b"round trip")).unwrap(), b"round trip");
    }

    #[test]
    fn other_key_derivations_and_encryptions_are_refused_by_name() {
        let blob = |key_algo: &str, encryption: &str| {
            format!(
                r#"{{"tool":"","buildVersion":"","buildInfo":"","uniqueID":"AAAA","keyAlgo":"{key_algo}","encryption":"{encryption}","encryptedBlockFormat":"AAAA"}}"#
            )
        };
        for (content, word) in [
            (blob("pbkdf2-sha256-600000", ENCRYPTION), "pbkdf2"),
            (blob(KEY_ALGORITHM, "ROT13"), "ROT13"),
            ("not json".to_owned(), "kopia.repository"),
        ] {
            let error = Format::open(content.as_bytes(), PASSWORD, "here").unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}

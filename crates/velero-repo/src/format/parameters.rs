//! The encrypted part of `kopia.repository`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use super::unsupported;
use crate::crypto::Key;
use crate::splitter::Splitter;
use crate::{Error, Result};

const HASH: &str = "BLAKE2B-256-128";
const ENCRYPTION: &str = "AES256-GCM-HMAC-SHA256";
const MOST_PACK_SIZE: u64 = 128 << 20;

#[derive(Serialize, Deserialize)]
struct BlockFormat {
    format: Parameters,
}

/// The algorithms, keys and limits of a repository, in the order kopia writes them.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parameters {
    /// The hash of contents.
    pub hash: String,
    /// The encryption of contents.
    pub encryption: String,
    /// Error correction; none is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ecc: String,
    /// How much error correction adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc_overhead_percent: Option<u32>,
    /// The hash key in base64.
    pub secret: String,
    /// The key of all encryption keys in base64.
    pub master_key: String,
    /// The format version.
    pub version: u32,
    /// At which size a pack is closed.
    pub max_pack_size: u64,
    /// The version of index blobs.
    #[serde(default)]
    pub index_version: u32,
    /// The pace of epochs.
    #[serde(default)]
    pub epoch_parameters: EpochParameters,
    /// False in format 1 only.
    #[serde(default)]
    pub enable_password_change: bool,
    /// How objects are cut into contents.
    #[serde(default)]
    pub splitter: String,
    /// Set while the owner upgrades the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_lock: Option<UpgradeLock>,
    /// What a client must understand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_features: Vec<RequiredFeature>,
}

impl std::fmt::Debug for Parameters {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = formatter.debug_struct("Parameters");
        text.field("hash", &self.hash).field("encryption", &self.encryption).field("version", &self.version);
        text.field("splitter", &self.splitter).finish_non_exhaustive()
    }
}

/// The pace of epochs. Durations are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EpochParameters {
    /// Always, in the formats that are read here.
    pub enabled: bool,
    /// How long a listing of index blobs may be used.
    pub epoch_refresh_frequency: i64,
    /// After how many epochs a range is compacted.
    pub full_checkpoint_frequency: i64,
    /// How long superseded index blobs stay.
    pub cleanup_safety_margin: i64,
    /// How long an epoch lasts at least.
    pub min_epoch_duration: i64,
    /// From how many index blobs on an epoch may end.
    pub epoch_advance_on_count_threshold: i64,
    /// From how many bytes of index blobs on an epoch may end.
    pub epoch_advance_on_total_size_bytes_threshold: i64,
    /// How many blobs are deleted at once.
    pub delete_parallelism: i64,
}

impl Default for EpochParameters {
    fn default() -> Self {
        const MINUTE: i64 = 60 * 1_000_000_000;
        Self {
            enabled: true,
            epoch_refresh_frequency: 20 * MINUTE,
            full_checkpoint_frequency: 7,
            cleanup_safety_margin: 4 * 60 * MINUTE,
            min_epoch_duration: 24 * 60 * MINUTE,
            epoch_advance_on_count_threshold: 20,
            epoch_advance_on_total_size_bytes_threshold: 10 << 20,
            delete_parallelism: 4,
        }
    }
}

/// Set while the owner upgrades the repository.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeLock {
    /// Who upgrades.
    #[serde(rename = "ownerID")]
    pub owner_id: String,
    /// The fields that do not matter to those who stay out.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, serde_json::Value>,
}

/// What a client must understand to use the repository.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequiredFeature {
    /// The name of the feature.
    pub feature: String,
    /// What to do when it is not understood.
    pub if_not_understood: IfNotUnderstood,
}

/// What a client does that does not understand a feature.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IfNotUnderstood {
    /// A warning is enough.
    pub warn: bool,
    /// What to say.
    pub message: String,
}

impl Parameters {
    /// What Velero chooses for a new repository, with fresh secrets.
    pub fn new_of_velero() -> Self {
        Self {
            hash: HASH.to_owned(),
            encryption: ENCRYPTION.to_owned(),
            ecc: String::new(),
            ecc_overhead_percent: None,
            secret: BASE64.encode(crate::crypto::random::<32>()),
            master_key: BASE64.encode(crate::crypto::random::<32>()),
            version: 3,
            max_pack_size: 20 << 20,
            index_version: 2,
            epoch_parameters: EpochParameters::default(),
            enable_password_change: true,
            splitter: "DYNAMIC-4M-BUZHASH".to_owned(),
            upgrade_lock: None,
            required_features: Vec::new(),
        }
    }

    /// Reads the decrypted part and refuses what is not known.
    pub fn parse(plain: &[u8]) -> Result<Self> {
        let parsed = serde_json::from_slice::<BlockFormat>(plain);
        let parsed = parsed.map_err(|error| Error::malformed("the format of the repository", error))?.format;
        parsed.check()?;
        Ok(parsed)
    }

    /// The part that is encrypted, as kopia writes it.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&BlockFormat { format: self.clone() }).unwrap_or_default()
    }

    fn check(&self) -> Result<()> {
        if !matches!(self.version, 2 | 3) {
            return Err(Error::Unsupported(format!(
                "its format version is {}, and only 2 and 3 are known",
                self.version
            )));
        }
        let known = [
            ("hash", &self.hash, HASH),
            ("encryption", &self.encryption, ENCRYPTION),
            ("error correction", &self.ecc, ""),
        ];
        for (what, found, known) in known {
            if found != known {
                return Err(unsupported(what, found, known));
            }
        }
        if self.index_version != 2 || !self.epoch_parameters.enabled {
            return Err(Error::Unsupported("its indexes are of the version before epochs".to_owned()));
        }
        if !(1..=MOST_PACK_SIZE).contains(&self.max_pack_size) {
            return Err(Error::Unsupported(format!("its packs are {} bytes long", self.max_pack_size)));
        }
        Splitter::named(&self.splitter)?;
        if let Some(lock) = &self.upgrade_lock {
            return Err(Error::UpgradeLock { owner: lock.owner_id.clone() });
        }
        for required in &self.required_features {
            if !required.if_not_understood.warn {
                let message = &required.if_not_understood.message;
                return Err(Error::Unsupported(format!(
                    "it requires the feature {:?}, which is not known {message}",
                    required.feature
                )));
            }
            tracing::warn!(feature = required.feature, "the repository has a feature that is not known");
        }
        Ok(())
    }

    /// The hash key.
    pub(crate) fn secret(&self) -> Result<Key> {
        key("secret", &self.secret)
    }

    /// The key of all encryption keys.
    pub(crate) fn master_key(&self) -> Result<Key> {
        key("masterKey", &self.master_key)
    }
}

fn key(field: &str, text: &str) -> Result<Key> {
    let bytes = BASE64.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes
        .map(Key)
        .ok_or_else(|| Error::malformed("the format of the repository", format!("{field} is not a key of 32 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: &str, to: &str) -> Result<Parameters> {
        let json = r#"{"format":{"hash":"BLAKE2B-256-128","encryption":"AES256-GCM-HMAC-SHA256","secret":"AA==","masterKey":"AA==","version":3,"maxPackSize":20971520,"indexVersion":2,"epochParameters":{"Enabled":true,"EpochRefreshFrequency":1200000000000,"FullCheckpointFrequency":7,"CleanupSafetyMargin":14400000000000,"MinEpochDuration":86400000000000,"EpochAdvanceOnCountThreshold":20,"EpochAdvanceOnTotalSizeBytesThreshold":10485760,"DeleteParallelism":4},"enablePasswordChange":true,"splitter":"DYNAMIC-4M-BUZHASH"}}"#;
        let changed = json.replace(change, to);
        let parsed = Parameters::parse(changed.as_bytes())?;
        assert_eq!(String::from_utf8(parsed.to_json()).unwrap(), changed, "written as it was read");
        Ok(parsed)
    }

    #[test]
    fn formats_two_and_three_are_read_and_written_again_unchanged() {
        assert_eq!(with("", "").unwrap().epoch_parameters, EpochParameters::default());
        assert_eq!(with(r#""version":3"#, r#""version":2"#).unwrap().version, 2);
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (change, to, word) in [
            (r#""version":3"#, r#""version":1"#, "version is 1"),
            (r#""version":3"#, r#""version":4"#, "version is 4"),
            ("BLAKE2B-256-128", "BLAKE3-256", "BLAKE3-256"),
            ("AES256-GCM-HMAC-SHA256", "CHACHA20-POLY1305-HMAC-SHA256", "CHACHA20"),
            (r#""secret""#, r#""ecc":"REED-SOLOMON-CRC32","secret""#, "REED-SOLOMON"),
            ("DYNAMIC-4M-BUZHASH", "DYNAMIC-4M-RABINKARP", "RABINKARP"),
            (r#""indexVersion":2"#, r#""indexVersion":1"#, "before epochs"),
            ("20971520", "0", "packs are 0"),
            ("}}", r#","upgradeLock":{"ownerID":"someone"}}}"#, "someone"),
            ("}}", r#","requiredFeatures":[{"feature":"wings","ifNotUnderstood":{"warn":false}}]}}"#, "wings"),
            ("{", "[", "format of the repository"),
        ] {
            let error = with(change, to).unwrap_err().to_string();
            assert!(error.contains(word), "{to}: {error}");
        }
    }
}

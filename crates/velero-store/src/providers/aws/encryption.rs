//! Encryption by the store: with its own keys, with keys of KMS, or with a key of the customer.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use object_store::aws::AmazonS3Builder;

use super::PROVIDER;
use crate::location::invalid;
use crate::providers::rejected;
use crate::{Result, StoreConfig};

const KEY_FILE: &str = "customerKeyEncryptionFile";
const KEY_SECRET: &str = "customerKeyEncryptionSecret";
const KEY_LENGTH: usize = 32;

/// Whether objects are encrypted with a key of the customer.
pub(super) fn is_by_customer(config: &StoreConfig) -> bool {
    config.get(KEY_FILE).is_some() || config.get(KEY_SECRET).is_some()
}

/// Adds the encryption the location asks for.
pub(super) async fn configure(builder: AmazonS3Builder, config: &StoreConfig) -> Result<AmazonS3Builder> {
    let ways = ["kmsKeyId", KEY_FILE, KEY_SECRET];
    if ways.iter().filter(|key| config.get(key).is_some()).count() > 1 {
        return Err(invalid(PROVIDER, "encryption", format!("only one of {} can be used", ways.join(", "))));
    }
    if is_by_customer(config) {
        let key = customer_key(config).await?;
        return Ok(builder.with_ssec_encryption(BASE64_STANDARD.encode(key)));
    }
    if let Some(key) = config.get("kmsKeyId") {
        return Ok(builder.with_sse_kms_encryption(key));
    }
    let Some(algorithm) = config.get("serverSideEncryption") else {
        return Ok(builder);
    };
    if !["AES256", "aws:kms", "aws:kms:dsse"].contains(&algorithm) {
        let problem = format!("{algorithm:?} is not known; use AES256, aws:kms or aws:kms:dsse");
        return Err(invalid(PROVIDER, "serverSideEncryption", problem));
    }
    let key = "aws_server_side_encryption".parse().map_err(rejected(PROVIDER))?;
    Ok(builder.with_config(key, algorithm))
}

async fn customer_key(config: &StoreConfig) -> Result<Vec<u8>> {
    let (field, key) = match config.get(KEY_FILE) {
        Some(path) => {
            let read = tokio::fs::read(path).await;
            let mut key = read.map_err(|error| invalid(PROVIDER, KEY_FILE, format!("{path}: {error}")))?;
            // As for Velero's plugin, whose backups are to be read: what follows, such as a line break, is no part of it.
            key.truncate(KEY_LENGTH);
            (KEY_FILE, key)
        }
        None => {
            let missing = || invalid(PROVIDER, KEY_SECRET, "the secret it refers to was not read");
            (KEY_SECRET, config.customer_key.clone().ok_or_else(missing)?.0)
        }
    };
    if key.len() != KEY_LENGTH {
        return Err(invalid(PROVIDER, field, format!("the key has {} bytes and needs {KEY_LENGTH}", key.len())));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CustomerKey;

    async fn check(config: &StoreConfig) -> Result<()> {
        configure(AmazonS3Builder::new(), config).await.map(drop)
    }

    #[tokio::test]
    async fn a_customer_key_needs_its_length() {
        let mut config = StoreConfig::new("aws", "b").with(KEY_SECRET, "name/key");
        assert!(check(&config).await.is_err());
        config.customer_key = Some(CustomerKey(vec![1; 31]));
        assert!(check(&config).await.is_err());
        config.customer_key = Some(CustomerKey(vec![1; 32]));
        check(&config).await.unwrap();
    }

    #[tokio::test]
    async fn a_line_break_after_the_key_of_a_file_is_no_part_of_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = StoreConfig::new("aws", "b").with(KEY_FILE, file.path().display().to_string());
        for end in ["", "\n"] {
            std::fs::write(file.path(), "k".repeat(KEY_LENGTH) + end).unwrap();
            assert_eq!(customer_key(&config).await.unwrap(), [b'k'; KEY_LENGTH]);
        }
        std::fs::write(file.path(), "k".repeat(31)).unwrap();
        assert!(customer_key(&config).await.unwrap_err().to_string().contains("31 bytes"));
    }

    #[tokio::test]
    async fn two_ways_to_encrypt_exclude_each_other() {
        let config = StoreConfig::new("aws", "b").with("kmsKeyId", "k").with(KEY_FILE, "/key");
        assert!(check(&config).await.unwrap_err().to_string().contains("only one of"));
    }

    #[tokio::test]
    async fn an_unknown_algorithm_is_refused() {
        check(&StoreConfig::new("aws", "b").with("serverSideEncryption", "AES256")).await.unwrap();
        assert!(check(&StoreConfig::new("aws", "b").with("serverSideEncryption", "rot13")).await.is_err());
    }
}

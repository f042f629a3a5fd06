//! The credentials file of Google Cloud, and who signs URLs.

use std::sync::Arc;

use object_store::StaticCredentialProvider;
use object_store::gcp::{GcpSigningCredential, GoogleCloudStorageBuilder};

use super::PROVIDER;
use crate::location::invalid;
use crate::{Result, StoreConfig};

/// Adds the credentials of the location, or leaves the instance's own.
pub(super) async fn configure(
    builder: GoogleCloudStorageBuilder,
    config: &StoreConfig,
) -> Result<GoogleCloudStorageBuilder> {
    if let Some(text) = config.credentials_text(PROVIDER, "GOOGLE_APPLICATION_CREDENTIALS").await? {
        check_kind(&text)?;
        return Ok(builder.with_service_account_key(text));
    }
    let Some(email) = config.get("serviceAccount") else {
        return Ok(builder);
    };
    // Without a private key the client library has IAM sign on behalf of this account.
    let signer = GcpSigningCredential { email: email.to_owned(), private_key: None };
    Ok(builder.with_signing_credentials(Arc::new(StaticCredentialProvider::new(signer))))
}

fn check_kind(text: &str) -> Result<()> {
    let wrong = |problem: String| Err(invalid(PROVIDER, "credentials", problem));
    let Ok(document) = serde_json::from_str::<serde_json::Value>(text) else {
        return wrong("the file is not JSON".to_owned());
    };
    match document.get("type").and_then(|kind| kind.as_str()) {
        Some("service_account") => Ok(()),
        Some(other) => {
            wrong(format!("type {other:?} is not supported; use a service_account key or workload identity"))
        }
        None => wrong("the file has no type; use a service_account key".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_account_key_is_accepted() {
        check_kind(r#"{"type":"service_account"}"#).unwrap();
        for text in ["", "{}", r#"{"type":"external_account"}"#] {
            assert!(check_kind(text).is_err(), "{text}");
        }
    }
}

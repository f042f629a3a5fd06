//! One folder for each built-in provider: `mod.rs` opens a location, `builder.rs` turns its config into a client and
//! `credential.rs` reads its credentials.

pub(crate) mod aws;
pub(crate) mod azure;
pub(crate) mod fs;
pub(crate) mod gcp;
mod plain_request;

use std::time::Duration;

use object_store::{Certificate, ClientOptions};
use velero_api::with_causes;

use crate::location::invalid;
use crate::{Result, StoreConfig};

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a store may stay silent before a request counts as failed.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(120);

/// HTTP settings all providers share.
fn client_options(provider: &'static str, config: &StoreConfig) -> Result<ClientOptions> {
    // A limit on the whole request would cut off long downloads; silence is what tells a dead store.
    let mut options = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(SILENCE_TIMEOUT);
    if let Some(pem) = config.ca_pem() {
        let certificates = Certificate::from_pem_bundle(pem);
        let certificates =
            certificates.map_err(|error| invalid(provider, "caCert", format!("not valid PEM: {error}")))?;
        if certificates.is_empty() {
            return Err(invalid(provider, "caCert", "it holds no certificate"));
        }
        for certificate in certificates {
            options = options.with_root_certificate(certificate);
        }
    }
    Ok(options)
}

/// An error of the client library while a store is built.
fn rejected(provider: &'static str) -> impl FnOnce(object_store::Error) -> crate::Error {
    move |error| invalid(provider, "config", with_causes(&error))
}

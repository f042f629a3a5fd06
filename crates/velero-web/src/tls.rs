//! TLS on the port of the page: its certificate, and the authority that signs the certificate of a proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// How often it is looked whether the files have changed: certificates are exchanged while the server runs.
const LOOKS: Duration = Duration::from_secs(60);

/// The files that TLS needs, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of the page, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority that has signed the certificate of the proxy; none where no proxy is trusted.
    pub client_authority: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TlsProblem {
    /// The certificate cannot be used.
    #[error("{0}")]
    Certificate(String),
    /// The key cannot be used.
    #[error("{0}")]
    Key(String),
    /// The authority of the proxy cannot be used.
    #[error("{0}")]
    ClientAuthority(String),
}

/// TLS, with files that were good when they were last looked at.
pub struct Tls {
    files: TlsFiles,
    current: Arc<ServerConfig>,
    looked: Instant,
}

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Self, TlsProblem> {
        Ok(Self { current: configuration(&files)?, files, looked: Instant::now() })
    }

    /// What accepts a connection now. Files that have become unusable are not taken: the last good ones count.
    pub(crate) fn acceptor(&mut self, now: Instant) -> TlsAcceptor {
        if now.saturating_duration_since(self.looked) >= LOOKS {
            self.looked = now;
            match configuration(&self.files) {
                Ok(fresh) => self.current = fresh,
                Err(error) => {
                    tracing::warn!(%error, "The certificate of the page cannot be read again; the last one counts")
                }
            }
        }
        TlsAcceptor::from(Arc::clone(&self.current))
    }
}

fn configuration(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsProblem> {
    let chain = certificates(&files.certificate).map_err(TlsProblem::Certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.map_err(|error| TlsProblem::Key(told(&files.key, &error)))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| TlsProblem::Certificate(error.to_string()))?;
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(verifier(path, provider).map_err(TlsProblem::ClientAuthority)?),
    };
    let configuration = builder.with_single_cert(chain, key);
    let mut configuration = configuration.map_err(|error| TlsProblem::Key(told(&files.key, &error)))?;
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(configuration))
}

/// Looks at the certificates of those who show one. Who shows none is a visitor like any other.
fn verifier(authority: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority)? {
        roots.add(certificate).map_err(|error| told(authority, &error))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
    verifier.build().map_err(|error| told(authority, &error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read.map_err(|error| told(path, &error))? {
        found if found.is_empty() => Err(format!("{} holds no certificate", path.display())),
        found => Ok(found),
    }
}

fn told(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = std::env::temp_dir().join(format!("velero-page-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (absent, empty) = (folder.join("absent"), file("empty", "no certificate\n"));
        let load = |certificate: &PathBuf| {
            Tls::load(TlsFiles { certificate: certificate.clone(), key: empty.clone(), client_authority: None }).err()
        };
        let problem = load(&absent).unwrap();
        assert!(matches!(&problem, TlsProblem::Certificate(text) if text.contains("absent")), "{problem}");
        assert_eq!(load(&empty), Some(TlsProblem::Certificate(format!("{} holds no certificate", empty.display()))));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

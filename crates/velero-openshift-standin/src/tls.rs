//! A listener that speaks TLS.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take to greet; others wait meanwhile.
const GREETING: Duration = Duration::from_secs(5);

/// A listener whose connections are TLS.
pub(crate) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsListener {
    pub(crate) fn new(listener: TcpListener, certificate: &Path, key: &Path) -> Result<Self> {
        let unreadable = |file: &Path| format!("cannot read {}", file.display());
        let chain = CertificateDer::pem_file_iter(certificate).with_context(|| unreadable(certificate))?;
        let chain = chain.collect::<Result<_, _>>().with_context(|| unreadable(certificate))?;
        let key = PrivateKeyDer::from_pem_file(key).with_context(|| unreadable(key))?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        Ok(Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            if let Ok(Ok(stream)) = timeout(GREETING, self.acceptor.accept(stream)).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

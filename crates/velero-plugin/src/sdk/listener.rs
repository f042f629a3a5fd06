//! Where a plugin listens: a socket in a private folder, or a TCP port of the host's range where there are no sockets.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio::net::{TcpListener, UnixListener};

use crate::host::handshake::SOCKET_FOLDER;

/// A place where the plugin listens.
pub(crate) enum Listener {
    /// A socket, and the folder that goes away with it if it is ours.
    Unix(UnixListener, PathBuf, Option<TempDir>),
    Tcp(TcpListener),
}

impl Listener {
    pub(crate) async fn bind() -> io::Result<Self> {
        match Self::bind_unix() {
            Ok(listener) => Ok(listener),
            Err(error) => {
                tracing::debug!("no unix socket, using a TCP port: {error}");
                Self::bind_tcp().await
            }
        }
    }

    fn bind_unix() -> io::Result<Self> {
        let (path, folder) = match std::env::var_os(SOCKET_FOLDER).filter(|path| !path.is_empty()) {
            Some(folder) => (PathBuf::from(folder).join(format!("plugin{}", std::process::id())), None),
            None => {
                let folder = tempfile::Builder::new().prefix("plugin").tempdir()?;
                (folder.path().join("socket"), Some(folder))
            }
        };
        Ok(Self::Unix(UnixListener::bind(&path)?, path, folder))
    }

    async fn bind_tcp() -> io::Result<Self> {
        let port = |variable| std::env::var(variable).ok().and_then(|text| text.parse::<u16>().ok());
        let (first, last) = (port("PLUGIN_MIN_PORT").unwrap_or(0), port("PLUGIN_MAX_PORT").unwrap_or(0));
        let mut outcome = Err(io::Error::other(format!("no port from {first} to {last}")));
        for port in first..=last {
            outcome = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome.map(Self::Tcp)
    }

    /// The line that tells the host.
    pub(crate) fn handshake(&self) -> io::Result<String> {
        let (network, address) = match self {
            Self::Unix(_, path, _) => ("unix", path.display().to_string()),
            Self::Tcp(listener) => ("tcp", listener.local_addr()?.to_string()),
        };
        Ok(format!("1|2|{network}|{address}|grpc|\n"))
    }
}

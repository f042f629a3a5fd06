//! The sockets of the driver: one for the sidecars and kubelet, one that tells kubelet of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::devices::Devices;
use crate::driver::Driver;
use crate::registration::Announcement;
use crate::storage::Storage;
use crate::wire::csi::controller_server::ControllerServer;
use crate::wire::csi::group_controller_server::GroupControllerServer;
use crate::wire::csi::identity_server::IdentityServer;
use crate::wire::csi::node_server::NodeServer;
use crate::wire::kubelet::registration_server::RegistrationServer;

/// What a driver needs to know.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The folder of the volumes and snapshots; drivers may share it
    #[arg(long)]
    pub storage: PathBuf,
    /// The file with the settings, read at every call; it may be missing
    #[arg(long)]
    pub settings: PathBuf,
    /// The socket to serve
    #[arg(long)]
    pub socket: PathBuf,
    /// The socket in kubelet's folder for registrations; without it kubelet does not learn of the driver
    #[arg(long)]
    pub registration: Option<PathBuf>,
    /// The folder of what the driver keeps on this node, for itself alone, on the file system of the storage
    #[arg(long)]
    pub node_folder: PathBuf,
    /// The name of the node
    #[arg(long)]
    pub node: String,
}

/// Serves until the process ends.
pub async fn serve(options: Options) -> Result<()> {
    let driver = Driver {
        storage: Arc::new(Storage::open(&options.storage)?),
        devices: Arc::new(Devices::open(&options.node_folder)?),
        busy: Default::default(),
        settings_file: options.settings,
        node: options.node,
    };
    let interface = Server::builder()
        .add_service(IdentityServer::new(driver.clone()))
        .add_service(ControllerServer::new(driver.clone()))
        .add_service(GroupControllerServer::new(driver.clone()))
        .add_service(NodeServer::new(driver))
        .serve_with_incoming(listen(&options.socket)?);
    let Some(registration) = options.registration else {
        return interface.await.context("the driver cannot serve");
    };
    let announcement = Server::builder()
        .add_service(RegistrationServer::new(Announcement { socket: options.socket }))
        .serve_with_incoming(listen(&registration)?);
    tokio::try_join!(interface, announcement).context("the driver cannot serve").map(drop)
}

/// Listens on a socket, in the place of one that a driver before left behind.
fn listen(socket: &Path) -> Result<UnixListenerStream> {
    let _ = fs::remove_file(socket);
    if let Some(folder) = socket.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let listener = UnixListener::bind(socket).with_context(|| format!("cannot listen on {}", socket.display()))?;
    Ok(UnixListenerStream::new(listener))
}

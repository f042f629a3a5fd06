//! `cargo xtask peer`: the original Velero in a box.

use anyhow::Result;
use clap::Subcommand;
use velero_testkit::{Edition, ServerOptions, VeleroServer};

use crate::cluster::Name;
use crate::output::out;

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Installs the peer into a box and starts its server
    Up {
        #[command(flatten)]
        name: Name,
        /// The namespace it serves
        #[arg(long, default_value = "velero")]
        namespace: String,
        /// The bucket of its default location
        #[arg(long, default_value = "velero")]
        bucket: String,
        /// The prefix in that bucket
        #[arg(long, default_value = "")]
        prefix: String,
        /// Further flags of its server
        #[arg(last = true)]
        flags: Vec<String>,
    },
    /// Stops the peer's server; its resources stay
    Down(Name),
    /// Prints the path of the peer's binary, building it if needed
    Path,
}

pub(crate) fn run(action: &Action) -> Result<()> {
    match action {
        Action::Up { name, namespace, bucket, prefix, flags } => {
            let options = ServerOptions {
                namespace: namespace.clone(),
                bucket: bucket.clone(),
                prefix: prefix.clone(),
                flags: flags.clone(),
                ..ServerOptions::default()
            };
            let peer = VeleroServer::up(&name.find()?, Edition::Peer, options)?;
            out!("the peer serves namespace {namespace}, log: {}", peer.log().display());
            Ok(())
        }
        Action::Down(name) => VeleroServer::down(&name.find()?, Edition::Peer),
        Action::Path => {
            out!("{}", Edition::Peer.binary()?.display());
            Ok(())
        }
    }
}

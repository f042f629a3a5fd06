//! `velero server`

use clap::{Args, Subcommand};
use velero_controllers::server::Settings;

use super::shared::StatusArguments;

/// `velero server`
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArguments {
    /// What to do instead of running the server
    #[command(subcommand)]
    pub(crate) command: Option<ServerCommand>,

    /// The flags of the server are declared where they are used.
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// `velero server …`
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum ServerCommand {
    /// Show the version of the server and whether it is ready
    Status(ServerStatusArguments),
}

/// `velero server status`
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerStatusArguments {
    /// Also show locations, plugins, node agents, work that waits or runs, and the last errors
    #[arg(long)]
    pub(crate) details: bool,

    /// Output display format: json or yaml; text by default
    #[arg(short, long)]
    pub(crate) output: Option<String>,

    #[command(flatten)]
    pub(crate) status: StatusArguments,
}

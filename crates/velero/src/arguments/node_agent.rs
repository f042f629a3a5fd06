//! `velero node-agent …`

use clap::{Args, Subcommand};
use velero_controllers::node_agent::Settings;

/// `velero node-agent …`
#[derive(Subcommand, Debug)]
pub(crate) enum NodeAgentCommand {
    /// Run the velero node agent
    #[command(hide = true)]
    Server(Box<NodeAgentServerArguments>),
}

/// `velero node-agent server`
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeAgentServerArguments {
    /// The flags of the agent are declared where they are used.
    #[command(flatten)]
    pub(crate) settings: Settings,
}

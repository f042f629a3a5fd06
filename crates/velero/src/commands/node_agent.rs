//! `velero node-agent server`

use anyhow::Result;
use velero_controllers::node_agent::{self, Settings as AgentSettings};

use crate::arguments::NodeAgentServerArguments;
use crate::lean_agent;
use crate::settings::Settings;

/// Runs the agent of this node until it is told to end.
pub(super) async fn server(arguments: NodeAgentServerArguments, settings: Settings) -> Result<()> {
    let settings = agent_settings(arguments, settings);
    settings.validate()?;
    lean_agent::begin_anew(&settings);
    node_agent::run(settings).await?;
    Ok(())
}

/// What the flags of the agent and those of every command say together.
fn agent_settings(arguments: NodeAgentServerArguments, settings: Settings) -> AgentSettings {
    AgentSettings {
        namespace: settings.namespace,
        kubeconfig: settings.kubeconfig,
        context: settings.context,
        version: crate::version::VERSION.to_owned(),
        ..arguments.settings
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::arguments::{Cli, Command, NodeAgentCommand, with_go_flags};
    use crate::client_config::ClientConfig;

    #[test]
    fn the_flags_of_velero_s_daemonsets_are_understood() {
        let line = "velero node-agent server --features=EnableCSI --log-level=debug --log-format=json \
                    --resource-timeout=20m --data-mover-prepare-timeout=1h --metrics-address=:9085 \
                    --node-agent-configmap=agents --backup-repository-configmap=repositories -n backups";
        let matches = with_go_flags(Cli::command()).get_matches_from(line.split_whitespace());
        let cli = Cli::from_arg_matches(&matches).unwrap();
        let Command::NodeAgent(NodeAgentCommand::Server(arguments)) = cli.command else { panic!("another command") };
        let settings = agent_settings(*arguments, Settings::resolve(cli.global, &ClientConfig::default()));
        assert_eq!((settings.namespace.as_str(), settings.metrics.metrics_address.as_str()), ("backups", ":9085"));
        assert_eq!(settings.patience.resource_timeout.to_string(), "20m0s");
        assert_eq!(settings.data_mover_prepare_timeout.to_string(), "1h0m0s");
        assert_eq!(settings.node_agent_configmap, "agents");
        assert_eq!(settings.backup_repository_configmap, "repositories");
    }
}

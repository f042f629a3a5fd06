//! The process of a node agent without what reads its flags: that touches five megabytes of the program and one of memory, which an
//! agent on each node would hold for as long as it lives.

use std::env;
use std::process::{Command, ExitCode};

use velero_controllers::node_agent::{self, Settings};

/// What the process that has read the flags tells the one it becomes.
const SETTINGS: &str = "VELERO_NODE_AGENT_SETTINGS";

/// Becomes a process that has these settings from the start, and an allocator that keeps nothing for later. It returns where
/// that fails, and then the agent runs as it is.
pub(crate) fn begin_anew(settings: &Settings) {
    if env::var_os(SETTINGS).is_some() {
        return;
    }
    let (Ok(program), Ok(text)) = (env::current_exe(), serde_json::to_string(settings)) else { return };
    let arguments = env::args_os().skip(1);
    let mut command = Command::new(program);
    crate::begin_anew::begin_anew(command.args(arguments).env(SETTINGS, text).env(crate::PURGE_DELAY, "0"));
}

/// The settings that this process was begun with; none where it has to read its flags.
pub(crate) fn handed_on() -> Option<Settings> {
    // Whoever runs another command where the variable is set means that command.
    env::args_os().any(|argument| argument == "node-agent").then_some(())?;
    read(&env::var(SETTINGS).ok()?)
}

fn read(text: &str) -> Option<Settings> {
    serde_json::from_str(text).ok()
}

/// Runs the agent until it is told to end.
pub(crate) async fn run(settings: Settings) -> ExitCode {
    velero_cluster::install_crypto_provider();
    match node_agent::run(settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("velero: {:#}", anyhow::Error::from(error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn every_setting_is_handed_on() {
        let flags = "server --log-level=debug --log-format=json --resource-timeout=20m --data-mover-prepare-timeout=1h \
                     --data-mover-still-timeout=7m --metrics-address=:9085 --node-agent-configmap=agents \
                     --backup-repository-configmap=repositories --node-name=n --host-pods=/p --mover-image=i";
        let mut settings = Settings::parse_from(flags.split_whitespace());
        settings.namespace = "backups".to_owned();
        settings.kubeconfig = Some("/k".into());
        settings.context = Some("c".to_owned());
        settings.version = "v9".to_owned();
        let read = read(&serde_json::to_string(&settings).unwrap()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{settings:?}"));
        assert!(super::read("{}").is_none(), "whoever says nothing of use has its flags read");
    }
}

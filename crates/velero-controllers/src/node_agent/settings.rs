//! The flags of `velero node-agent server`: what each is called, means and is when nobody gives it.

use std::path::PathBuf;

use clap::Parser;
use serde::{Deserialize, Serialize};
use velero_api::{DEFAULT_NAMESPACE, GoDuration};
use velero_rules::data_move::Deadlines;

use crate::runtime::error::{Error, Result};
use crate::runtime::log_format::LogSettings;
use crate::runtime::shared_settings::{MetricsSettings, PatienceSettings};

/// How a node agent is set up: one field for each flag, whose help is the text of the field, and what else it must know.
#[derive(Clone, Debug, Parser, Serialize, Deserialize)]
pub struct Settings {
    /// The namespace of the agent and of all its objects.
    #[arg(skip = DEFAULT_NAMESPACE.to_owned())]
    pub namespace: String,

    /// The kubeconfig file; nothing means `$KUBECONFIG`, `~/.kube/config` or the service account.
    #[arg(skip)]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig file; nothing means its current one.
    #[arg(skip)]
    pub context: Option<String>,

    /// The version the agent reports.
    #[arg(skip = concat!("v", env!("CARGO_PKG_VERSION")).to_owned())]
    pub version: String,

    /// How it logs.
    #[command(flatten)]
    pub log: LogSettings,

    /// How long it waits for others.
    #[command(flatten)]
    pub patience: PatienceSettings,

    /// How long to wait until the data of a volume is reachable for the pod that moves it
    #[arg(long, default_value = "30m0s")]
    pub data_mover_prepare_timeout: GoDuration,

    /// How long a pod may report no progress before its transfer is cancelled
    #[arg(long, default_value = "30m0s")]
    pub data_mover_still_timeout: GoDuration,

    /// Where it says how it fares.
    #[command(flatten)]
    pub metrics: MetricsSettings,

    /// ConfigMap with the configuration of the node agents
    #[arg(long, default_value = "", hide_default_value = true)]
    pub node_agent_configmap: String,

    /// ConfigMap with backup repository configurations
    #[arg(long, default_value = "", hide_default_value = true)]
    pub backup_repository_configmap: String,

    /// The node this agent is for
    #[arg(long, env = "NODE_NAME", default_value = "", hide_default_value = true, hide_env_values = true)]
    pub node_name: String,

    /// Where this process sees the folder in which the kubelet keeps the volumes of pods
    #[arg(long, default_value = "/host_pods")]
    pub host_pods: PathBuf,

    /// The image of the pods that move data; by default that of the DaemonSet node-agent
    #[arg(long, default_value = "", hide_default_value = true)]
    pub mover_image: String,
}

impl Default for Settings {
    /// What an agent has that is given no flags.
    fn default() -> Self {
        Self::parse_from(["server"])
    }
}

impl Settings {
    /// Refuses settings that cannot work, naming the flag.
    pub fn validate(&self) -> Result<()> {
        self.log.level()?;
        if self.node_name.is_empty() {
            let problem = "it is missing; set the variable NODE_NAME to the node of the pod, or give the flag";
            return Err(Error::Setting { flag: "node-name", problem: problem.to_owned() });
        }
        for (flag, duration) in [
            ("resource-timeout", self.patience.resource_timeout),
            ("data-mover-prepare-timeout", self.data_mover_prepare_timeout),
            ("data-mover-still-timeout", self.data_mover_still_timeout),
        ] {
            if duration.is_zero() || duration.is_negative() {
                return Err(Error::Setting { flag, problem: format!("{duration} must be more than zero") });
            }
        }
        Ok(())
    }

    /// How long transfers may take for their steps.
    pub(crate) fn deadlines(&self) -> Deadlines {
        Deadlines { prepare: self.data_mover_prepare_timeout.to_std(), still: self.data_mover_still_timeout.to_std() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_velero() {
        let settings = Settings::default();
        assert_eq!(settings.patience.resource_timeout, GoDuration::from_mins(10));
        assert_eq!(settings.data_mover_prepare_timeout, GoDuration::from_mins(30));
        assert_eq!((settings.metrics.metrics_address.as_str(), settings.log.log_level.as_str()), (":8085", "info"));
        assert!(settings.node_agent_configmap.is_empty() && settings.backup_repository_configmap.is_empty());
    }

    #[test]
    fn what_cannot_work_is_refused_by_its_flag() {
        for (flags, expected) in [
            (vec!["--node-name="], "--node-name"),
            (vec!["--node-name=n", "--log-level=loud"], "--log-level"),
            (vec!["--node-name=n", "--data-mover-prepare-timeout=0s"], "--data-mover-prepare-timeout"),
            (vec!["--node-name=n", "--data-mover-still-timeout=-1m"], "--data-mover-still-timeout"),
        ] {
            let error = Settings::parse_from(["server"].into_iter().chain(flags)).validate().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        Settings::parse_from(["server", "--node-name=n"]).validate().unwrap();
    }
}

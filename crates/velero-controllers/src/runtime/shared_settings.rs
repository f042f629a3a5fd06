//! The flags that the server and the node agents have in common, beside those of their logs.

use clap::Args;
use serde::{Deserialize, Serialize};
use velero_api::GoDuration;

/// Where a process says how it fares.
#[derive(Args, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsSettings {
    /// The address to expose prometheus metrics
    #[arg(long, default_value = ":8085")]
    pub metrics_address: String,
}

/// How long a process waits for others.
#[derive(Args, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatienceSettings {
    /// How long to wait for single resources where no other timeout applies
    #[arg(long, default_value = "10m0s")]
    pub resource_timeout: GoDuration,
}

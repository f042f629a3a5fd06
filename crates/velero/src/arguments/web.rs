//! `velero web`

use clap::Args;

/// `velero web`
#[derive(Args, Clone, Debug)]
pub(crate) struct WebArguments {
    /// The port on this machine; 0 takes any that is free
    #[arg(long, default_value = "8086")]
    pub(crate) port: u16,
}

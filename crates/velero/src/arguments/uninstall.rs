//! `velero uninstall`

use clap::Args;

/// `velero uninstall`
#[derive(Args, Clone, Debug)]
pub(crate) struct UninstallArguments {
    /// Uninstall without asking
    #[arg(long)]
    pub(crate) force: bool,

    /// Deprecated: the command always waits for the uninstall to complete
    #[arg(long)]
    pub(crate) wait: bool,
}

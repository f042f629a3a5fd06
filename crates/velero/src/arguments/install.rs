//! `velero install`

use clap::Args;

/// `velero install`
#[derive(Args, Clone, Debug)]
pub(crate) struct InstallArguments {
    /// Only generate CustomResourceDefinition resources
    #[arg(long)]
    pub(crate) crds_only: bool,

    /// Generate resources, but don't send them to the cluster. Use with -o
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Apply the resources instead of creating them, to update existing ones
    #[arg(long)]
    pub(crate) apply: bool,

    /// Output display format: json or yaml. The resources are sent too, unless with --dry-run
    #[arg(short, long)]
    pub(crate) output: Option<String>,

    /// Everything a full installation would need; answered with an error that says so
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) unsupported: Vec<String>,
}

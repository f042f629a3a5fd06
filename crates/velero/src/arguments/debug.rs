//! `velero debug`

use std::path::PathBuf;

use clap::Args;

/// `velero debug`
#[derive(Args, Clone, Debug)]
pub(crate) struct DebugArguments {
    /// Path of the bundle [default: ./bundle-<time>.tar.gz]
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,

    /// Name of a backup whose log and description are to be in the bundle
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) backup: String,

    /// Name of a restore whose log and description are to be in the bundle
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) restore: String,

    /// Say what is collected
    #[arg(long)]
    pub(crate) verbose: bool,
}

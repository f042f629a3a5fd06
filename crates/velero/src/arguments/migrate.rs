//! `velero migrate …`

use clap::{Args, Subcommand};

/// The commands that exchange an installed Velero for this one.
#[derive(Subcommand, Debug)]
pub(crate) enum MigrateCommand {
    /// Say of each object of an installed Velero whether it works at once, differs, or is missing here
    Check(MigrateCheckArguments),
    /// Put this program in the place of an installed Velero; all that its owner chose stays
    Run(MigrateRunArguments),
    /// Put back the Velero that `migrate run` has replaced
    Back(MigrateBackArguments),
}

/// `velero migrate check`
#[derive(Args, Clone, Debug)]
pub(crate) struct MigrateCheckArguments {
    /// Output display format: table, json or yaml
    #[arg(short, long, default_value = "table")]
    pub(crate) output: String,
}

/// `velero migrate run`
#[derive(Args, Clone, Debug)]
pub(crate) struct MigrateRunArguments {
    /// Image to use for the server and the node agents
    #[arg(long, default_value_t = crate::install::default_image())]
    pub(crate) image: String,

    /// Show the workloads as they would be, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Wait until our server is ready
    #[arg(long)]
    pub(crate) wait: bool,

    /// Go on although backups or restores have not ended, or Helm, Argo CD or Flux would take it back
    #[arg(long)]
    pub(crate) force: bool,
}

/// `velero migrate back`
#[derive(Args, Clone, Debug)]
pub(crate) struct MigrateBackArguments {
    /// Go on although backups or restores have not ended
    #[arg(long)]
    pub(crate) force: bool,
}

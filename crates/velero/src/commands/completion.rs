//! `velero completion`

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::generate;

use crate::arguments::{Cli, CompletionArguments, Shell, with_go_flags};
use crate::printer::Printer;

/// Prints a completion script.
pub(super) fn completion(arguments: &CompletionArguments, printer: Printer) -> Result<()> {
    let mut command = with_go_flags(Cli::command());
    let mut script = Vec::new();
    match arguments.shell {
        Shell::Bash => generate(clap_complete::Shell::Bash, &mut command, "velero", &mut script),
        Shell::Zsh => generate(clap_complete::Shell::Zsh, &mut command, "velero", &mut script),
        Shell::Fish => generate(clap_complete::Shell::Fish, &mut command, "velero", &mut script),
    }
    printer.bytes(&script)
}

//! `velero completion`

use std::env;

use anyhow::{Context, Result};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::arguments::{CompletionArguments, Shell};
use crate::completion::VARIABLE;
use crate::printer::Printer;

/// The command that is completed.
const NAME: &str = "velero";

/// Prints a script that lets a shell ask this program for completions.
pub(super) fn completion(arguments: &CompletionArguments, printer: Printer) -> Result<()> {
    let program = env::current_exe().context("cannot find out where this program is")?;
    let program = program.to_str().context("the shell cannot call this program: its path is no text")?;
    let mut script = Vec::new();
    let shell: &dyn EnvCompleter = match arguments.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    shell.write_registration(VARIABLE, NAME, NAME, program, &mut script).context("cannot write the script")?;
    printer.bytes(&script)
}

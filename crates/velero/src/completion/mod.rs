//! What a shell offers when somebody presses the tab key: commands and flags, and the names of objects that are there.
//!
//! The script that `velero completion` prints runs this program with a variable set; what was typed so far are its arguments.

mod argument;
mod names;

use clap::{Command, CommandFactory};
use clap_complete::{ArgValueCompleter, CompleteEnv};

use crate::arguments::{Cli, with_go_flags};
use argument::Named;

/// The variable that asks for completions, and says for which shell.
pub(crate) const VARIABLE: &str = "VELERO_COMPLETE";

/// Answers a shell that asks for completions and ends the process; does nothing when none does.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The command line, with what is known of its arguments.
fn command() -> Command {
    with_names(with_go_flags(Cli::command()), &[])
}

/// Lets arguments that name objects be completed by those that are there. `path` are the commands above.
fn with_names(command: Command, path: &[String]) -> Command {
    let path = [path, &[command.get_name().to_owned()]].concat();
    let command = command.mut_args(|argument| match argument::names(&path, &argument) {
        Some(kind) => {
            let is_flag = !argument.is_positional();
            // Lists have a parser of their own, which a shell knows nothing of: it goes on behind the last comma.
            let argument = if kind == Named::Namespace { argument.value_delimiter(',') } else { argument };
            argument.add(ArgValueCompleter::new(move |begun: &std::ffi::OsStr| names::of(kind, is_flag, begun)))
        }
        None => argument,
    });
    command.mut_subcommands(|command| with_names(command, &path))
}

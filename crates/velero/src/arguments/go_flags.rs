//! The flag syntax of Go programs, put on top of clap's.

use std::any::TypeId;

use clap::{Arg, ArgAction, Command};

use super::values::{OptionalBool, parse_bool};

/// Lets a switch take a value after `=`, as in `--wait=false`, and a three-way switch stand alone, as in
/// `--snapshot-volumes`. A flag given twice counts once, the last time.
pub(crate) fn with_go_flags(command: Command) -> Command {
    command.args_override_self(true).mut_args(with_go_syntax).mut_subcommands(with_go_flags)
}

fn with_go_syntax(argument: Arg) -> Arg {
    let is_three_way = argument.get_value_parser().type_id() == TypeId::of::<OptionalBool>();
    match argument.get_action() {
        ArgAction::SetTrue => optional_value(argument).value_parser(parse_bool).default_value("false"),
        ArgAction::Set if is_three_way && !argument.get_default_values().is_empty() => optional_value(argument),
        _ => argument,
    }
}

fn optional_value(argument: Arg) -> Arg {
    argument
        .action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .hide_default_value(true)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Cli;

    fn value(arguments: &[&str], name: &str) -> OptionalBool {
        let matches = with_go_flags(Cli::command()).try_get_matches_from(arguments).unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        *matches.subcommand().unwrap().1.get_one(name).unwrap()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        with_go_flags(Cli::command()).debug_assert();
    }

    #[test]
    fn a_three_way_switch_stands_alone_or_takes_a_value() {
        for (flag, expected) in [
            (None, None),
            (Some("--snapshot-volumes"), Some(true)),
            (Some("--snapshot-volumes=false"), Some(false)),
            (Some("--snapshot-volumes="), None),
        ] {
            let mut arguments = vec!["velero", "backup", "create", "name"];
            arguments.extend(flag);
            assert_eq!(value(&arguments, "snapshot_volumes").0, expected, "{flag:?}");
        }
    }

    #[test]
    fn a_switch_can_be_switched_off_and_the_last_one_counts() {
        let command = with_go_flags(Cli::command());
        let matches =
            command.try_get_matches_from(["velero", "backup", "create", "name", "-w", "--wait=false"]).unwrap();
        let create = matches.subcommand().unwrap().1.subcommand().unwrap().1;
        assert_eq!(create.get_one::<bool>("wait"), Some(&false));
    }
}

//! All commands and flags as Markdown: what the reference of the book is made from.

use clap::{Arg, Command};

/// Those that say the verb first, as kubectl does: all they can do is said at their nouns.
const VERBS: [&str; 4] = ["get", "create", "describe", "delete"];
/// What clap adds by itself, and this command.
const LEFT_OUT: [&str; 2] = ["help", "reference"];

/// The reference of a command line.
pub(crate) fn reference(mut root: Command) -> String {
    root.build();
    let mut text = "## Flags of all commands\n\n".to_owned();
    text += &flags(root.get_arguments().filter(|argument| argument.is_global_set()));
    text += &format!(
        "The verb may come first: {} work too, with the flags of the noun.\n",
        VERBS.map(|verb| format!("`velero {verb} …`")).join(", ")
    );
    for command in root.get_subcommands().filter(|command| !VERBS.contains(&command.get_name())) {
        text += &section(command, root.get_name(), command.is_hide_set());
    }
    text
}

/// A command and all below it. Those that help does not show are what pods of an installation run.
fn section(command: &Command, parent: &str, is_for_pods: bool) -> String {
    let name = command.get_name();
    if LEFT_OUT.contains(&name) {
        return String::new();
    }
    let (full_name, is_for_pods) = (format!("{parent} {name}"), is_for_pods || command.is_hide_set());
    let nested: String = command.get_subcommands().map(|nested| section(nested, &full_name, is_for_pods)).collect();
    // A noun alone does nothing; `velero server` does.
    if !nested.is_empty() && command.is_subcommand_required_set() {
        return nested;
    }
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let about = about.lines().map(|line| escaped(line) + "\n").collect::<String>();
    let mut text = format!("\n## {full_name}\n\n{about}");
    if is_for_pods {
        text += "\nRun by what an installation sets up, not by hand.\n";
    }
    text += &format!("\n```text\n{}\n```\n\n", usage(command, &full_name));
    text += &flags(command.get_arguments().filter(|argument| !argument.is_global_set()));
    if let Some(more) = command.get_after_help() {
        text += &format!("```text\n{more}\n```\n");
    }
    text + &nested
}

fn usage(command: &Command, full_name: &str) -> String {
    let mut words = vec![full_name.to_owned()];
    for argument in command.get_positionals() {
        let name = value_names(argument);
        let dots = if argument.get_num_args().is_some_and(|number| number.max_values() > 1) { " …" } else { "" };
        let word = format!("{name}{dots}");
        words.push(if argument.is_required_set() { word } else { format!("[{word}]") });
    }
    words.push("[flags]".to_owned());
    words.join(" ")
}

fn flags<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let shown = arguments.filter(|argument| !argument.is_hide_set() && !LEFT_OUT.contains(&argument.get_id().as_str()));
    let rows: String = shown.map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("| flag | meaning | default |\n|---|---|---|\n{rows}\n")
}

fn row(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let defaults =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",");
    let default = match defaults.is_empty() || argument.is_hide_default_value_set() {
        true => String::new(),
        false => format!("`{defaults}`"),
    };
    format!("| `{}` | {} | {default} |\n", written(argument), escaped(&help))
}

/// The flag as one types it.
fn written(argument: &Arg) -> String {
    let Some(long) = argument.get_long() else { return value_names(argument) };
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let takes_value = argument.get_num_args().is_some_and(|number| number.min_values() > 0);
    let value = if takes_value { format!(" {}", value_names(argument)) } else { String::new() };
    format!("{short}--{long}{value}")
}

fn value_names(argument: &Arg) -> String {
    match argument.get_value_names() {
        Some(names) => names.join(" ").replace('|', "or"),
        None => argument.get_id().as_str().to_uppercase(),
    }
}

/// Text that Markdown shows as it is, in a cell of a table too.
fn escaped(text: &str) -> String {
    ["|", "<", "*"].iter().fold(text.to_owned(), |text, sign| text.replace(sign, &format!("\\{sign}")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::{Cli, with_go_flags};

    fn text() -> String {
        reference(with_go_flags(Cli::command()))
    }

    #[test]
    fn every_command_has_a_section_with_its_flags_and_defaults() {
        let text = text();
        for expected in [
            "\n## velero backup create\n",
            "\n## velero schedule unpause\n",
            "\n## velero server\n",
            "\n## velero server status\n",
            "| `-w, --wait` | Wait for the operation to complete |  |",
            "| `--backup-volume-size BACKUP_VOLUME_SIZE` | Size of the PersistentVolumeClaim for backups, where they go to one | `10Gi` |",
            "velero backup create [NAME] [flags]",
        ] {
            assert!(text.contains(expected), "{expected} is missing");
        }
        assert!(!text.contains("## velero get"), "what is said at the nouns is said twice");
    }

    #[test]
    fn signs_of_markdown_are_shown_as_they_are() {
        assert_eq!(escaped("a <NAME> | '*'"), "a \\<NAME> \\| '\\*'");
    }

    #[test]
    fn no_row_of_a_table_is_broken() {
        for row in text().lines().filter(|line| line.starts_with("| ")) {
            assert_eq!(row.replace("\\|", "").matches('|').count(), 4, "{row}");
        }
    }
}

//! Which arguments name objects that exist, and of which kind.

use clap::Arg;

/// The kinds whose names can be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Backup,
    Restore,
    Schedule,
    BackupLocation,
    SnapshotLocation,
    Repository,
    Namespace,
}

/// The kind of the objects that an argument of a command names, if they exist already. `path` is the command, from the program
/// on.
pub(super) fn names(path: &[String], argument: &Arg) -> Option<Named> {
    let id = argument.get_id().as_str();
    if argument.is_positional() {
        let is_new = path.iter().any(|command| command == "create");
        let is_name = ["name", "names"].contains(&id);
        return path.iter().rev().find_map(|command| noun(command)).filter(|_| is_name && !is_new);
    }
    match id {
        "from_backup" => Some(Named::Backup),
        "from_schedule" => Some(Named::Schedule),
        "resume" => Some(Named::Restore),
        "repository" => Some(Named::Repository),
        "storage_location" => Some(Named::BackupLocation),
        "volume_snapshot_locations" => Some(Named::SnapshotLocation),
        "include_namespaces" | "exclude_namespaces" => Some(Named::Namespace),
        "backup" if path.last().is_some_and(|command| command == "debug") => Some(Named::Backup),
        "restore" if path.last().is_some_and(|command| command == "debug") => Some(Named::Restore),
        _ => None,
    }
}

fn noun(command: &str) -> Option<Named> {
    match command.strip_suffix('s').unwrap_or(command) {
        "backup" => Some(Named::Backup),
        "restore" => Some(Named::Restore),
        "schedule" => Some(Named::Schedule),
        "backup-location" => Some(Named::BackupLocation),
        "snapshot-location" => Some(Named::SnapshotLocation),
        "repo" => Some(Named::Repository),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;
    use crate::arguments::Cli;

    fn completed(line: &str, id: &str) -> Option<Named> {
        let mut command: Command = Cli::command();
        let mut path = vec!["velero".to_owned()];
        for word in line.split_whitespace() {
            command = command.find_subcommand(word).unwrap_or_else(|| panic!("{line}: {word}")).clone();
            path.push(command.get_name().to_owned());
        }
        let found = command.get_arguments().find(|argument| argument.get_id().as_str() == id);
        names(&path, found.unwrap_or_else(|| panic!("{line} has no {id}")))
    }

    #[test]
    fn what_names_an_object_that_exists_is_completed_by_its_kind() {
        for (line, id, expected) in [
            ("backup get", "names", Some(Named::Backup)),
            ("backup describe", "names", Some(Named::Backup)),
            ("backup delete", "names", Some(Named::Backup)),
            ("backup cancel", "names", Some(Named::Backup)),
            ("backup logs", "name", Some(Named::Backup)),
            ("backup download", "name", Some(Named::Backup)),
            ("backup create", "name", None),
            ("backup create", "from_schedule", Some(Named::Schedule)),
            ("backup create", "storage_location", Some(Named::BackupLocation)),
            ("backup create", "volume_snapshot_locations", Some(Named::SnapshotLocation)),
            ("backup create", "selector", None),
            ("backup create", "include_namespaces", Some(Named::Namespace)),
            ("schedule create", "exclude_namespaces", Some(Named::Namespace)),
            ("restore create", "include_namespaces", Some(Named::Namespace)),
            ("get backups", "names", Some(Named::Backup)),
            ("describe restores", "names", Some(Named::Restore)),
            ("delete schedule", "names", Some(Named::Schedule)),
            ("create restore", "name", None),
            ("create restore", "from_backup", Some(Named::Backup)),
            ("restore create", "from_schedule", Some(Named::Schedule)),
            ("restore create", "resume", Some(Named::Restore)),
            ("restore logs", "name", Some(Named::Restore)),
            ("restore describe", "names", Some(Named::Restore)),
            ("schedule pause", "names", Some(Named::Schedule)),
            ("schedule create", "name", None),
            ("schedule create", "storage_location", Some(Named::BackupLocation)),
            ("backup-location set", "name", Some(Named::BackupLocation)),
            ("backup-location delete", "names", Some(Named::BackupLocation)),
            ("get snapshot-locations", "names", Some(Named::SnapshotLocation)),
            ("snapshot-location set", "name", Some(Named::SnapshotLocation)),
            ("snapshot-location create", "name", None),
            ("repo get", "names", Some(Named::Repository)),
            ("repo ls", "repository", Some(Named::Repository)),
            ("repo ls", "target", None),
            ("repo maintain", "repository", Some(Named::Repository)),
            ("debug", "backup", Some(Named::Backup)),
            ("debug", "restore", Some(Named::Restore)),
        ] {
            assert_eq!(completed(line, id), expected, "{line} {id}");
        }
    }
}

//! The flags of the server that `velero install` takes too, made from what the server declares.

use std::fmt;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use velero_api::GoDuration;
use velero_controllers::server::{INSTALL_FLAGS, Settings};

use super::go_flags::with_go_flags;

/// Written also when nobody gives it, as Velero does.
const ALWAYS_WRITTEN: &str = "uploader-type";
/// Written without a value, as Velero does.
const WITHOUT_VALUE: &str = "restore-only";

/// Flags that `velero install` hands on to the server.
#[derive(Clone, Debug)]
pub(crate) struct ServerFlags {
    /// Those that leave the server less choice than it has without them, in the order they are written in.
    pub(crate) given: Vec<ServerFlag>,
    /// What the server makes of them.
    pub(crate) settings: Settings,
}

/// A flag of the server and its value.
#[derive(Clone, Debug)]
pub(crate) struct ServerFlag {
    /// Its name on the command line of the server.
    name: &'static str,
    /// Its value.
    pub(crate) value: FlagValue,
}

/// The value of a flag.
#[derive(Clone, Debug)]
pub(crate) enum FlagValue {
    /// On or off.
    Switch(bool),
    /// How long.
    Duration(GoDuration),
    /// How many.
    Number(u32),
    /// Anything else, as it was typed.
    Text(String),
}

impl ServerFlag {
    /// Its name on the command line of `velero install`.
    pub(crate) fn install_name(&self) -> &'static str {
        install_name(self.name)
    }
}

impl fmt::Display for ServerFlag {
    /// The argument as it stands in the Deployment.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value } = self;
        match value {
            FlagValue::Switch(_) if *name == WITHOUT_VALUE => write!(formatter, "--{name}"),
            FlagValue::Switch(on) => write!(formatter, "--{name}={on}"),
            FlagValue::Duration(duration) => write!(formatter, "--{name}={duration}"),
            FlagValue::Number(number) => write!(formatter, "--{name}={number}"),
            FlagValue::Text(text) => write!(formatter, "--{name}={text}"),
        }
    }
}

impl FlagValue {
    fn read(matches: &ArgMatches, id: &str) -> Option<Self> {
        // Asking for a type that the flag does not have is an error, which means that it has another one.
        if let Ok(switch) = matches.try_get_one(id) {
            return switch.copied().map(Self::Switch);
        }
        if let Ok(duration) = matches.try_get_one(id) {
            return duration.copied().map(Self::Duration);
        }
        if let Ok(number) = matches.try_get_one(id) {
            return number.copied().map(Self::Number);
        }
        let text = matches.get_raw(id)?.next_back()?;
        Some(Self::Text(text.to_string_lossy().into_owned()))
    }

    /// Whether it leaves the choice to the server.
    fn is_empty(&self) -> bool {
        match self {
            Self::Switch(on) => !on,
            Self::Duration(duration) => duration.is_zero(),
            Self::Number(number) => *number == 0,
            Self::Text(text) => text.is_empty(),
        }
    }
}

/// Velero calls one flag differently in `install`.
fn install_name(name: &'static str) -> &'static str {
    if name == "fs-backup-timeout" { "pod-volume-operation-timeout" } else { name }
}

/// The flags with their definitions.
fn definitions() -> Vec<(&'static str, Arg)> {
    let server = Settings::augment_args(Command::new("server"));
    let find = |name: &'static str| {
        let argument = server.get_arguments().find(|argument| argument.get_long() == Some(name))?;
        // Its place in the help is that of the command, not that among the flags of the server.
        let argument = argument.clone().display_order(None);
        let in_install = install_name(name);
        match in_install == name {
            true => Some((name, argument)),
            false => Some((name, argument.long(in_install).value_name(in_install.to_uppercase().replace('-', "_")))),
        }
    };
    INSTALL_FLAGS.into_iter().filter_map(find).collect()
}

fn given(matches: &ArgMatches) -> Vec<ServerFlag> {
    let flags = definitions().into_iter().filter_map(|(name, argument)| {
        let id = argument.get_id().as_str();
        let flag = ServerFlag { name, value: FlagValue::read(matches, id)? };
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine) && !flag.value.is_empty();
        (is_given || name == ALWAYS_WRITTEN).then_some(flag)
    });
    flags.collect()
}

/// What the server makes of its command line.
fn read_by_server(flags: &[ServerFlag]) -> Result<Settings, Error> {
    let command = Settings::augment_args(Command::new("server").no_binary_name(true));
    Settings::from_arg_matches(&with_go_flags(command).try_get_matches_from(flags.iter().map(ToString::to_string))?)
}

impl FromArgMatches for ServerFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = given(matches);
        let settings = read_by_server(&given)
            .map_err(|error| Error::raw(ErrorKind::ValueValidation, format!("the server would refuse it: {error}")))?;
        Ok(Self { given, settings })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ServerFlags {
    fn augment_args(command: Command) -> Command {
        command.args(definitions().into_iter().map(|(_, argument)| argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use velero_controllers::server::FlagsWithoutEffect;

    use super::*;

    fn written(flags: &[&str]) -> Vec<String> {
        let command = with_go_flags(ServerFlags::augment_args(Command::new("install").no_binary_name(true)));
        let flags = ServerFlags::from_arg_matches(&command.get_matches_from(flags)).unwrap();
        flags.given.iter().map(ToString::to_string).collect()
    }

    fn names(command: &Command) -> BTreeSet<String> {
        command.get_arguments().filter_map(|argument| Some(argument.get_long()?.to_owned())).collect()
    }

    fn of_repository(path: &str) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
    }

    #[test]
    fn flags_are_written_as_velero_writes_them() {
        assert_eq!(written(&[]), ["--uploader-type=kopia"]);
        let flags = [
            "--concurrent-backups=03",
            "--item-block-worker-count=1",
            "--repo-maintenance-job-configmap=jobs",
            "--backup-repository-configmap=0",
            "--maintenance-job-mem-limit=1Gi",
            "--maintenance-job-cpu-limit=1",
            "--maintenance-job-mem-request=100Mi",
            "--maintenance-job-cpu-request=100m",
            "--keep-latest-maintenance-jobs=5",
            "--pod-volume-operation-timeout=1h",
            "--garbage-collection-frequency=90m",
            "--default-repo-maintain-frequency=1h",
            "--restore-only",
            "--schedule-skip-immediately=1",
            "--disable-informer-cache",
            "--default-snapshot-move-data=true",
            "--default-volumes-to-fs-backup",
            "--default-resource-modifier-configmap=everywhere",
        ];
        let expected = [
            "--default-volumes-to-fs-backup=true",
            "--default-snapshot-move-data=true",
            "--disable-informer-cache=true",
            "--schedule-skip-immediately=true",
            "--uploader-type=kopia",
            "--restore-only",
            "--default-repo-maintain-frequency=1h0m0s",
            "--garbage-collection-frequency=1h30m0s",
            "--fs-backup-timeout=1h0m0s",
            "--keep-latest-maintenance-jobs=5",
            "--maintenance-job-cpu-request=100m",
            "--maintenance-job-mem-request=100Mi",
            "--maintenance-job-cpu-limit=1",
            "--maintenance-job-mem-limit=1Gi",
            "--backup-repository-configmap=0",
            "--repo-maintenance-job-configmap=jobs",
            "--item-block-worker-count=1",
            "--concurrent-backups=3",
            "--default-resource-modifier-configmap=everywhere",
        ];
        assert_eq!(written(&flags), expected);
        assert_eq!(expected.len(), INSTALL_FLAGS.len(), "a flag is missing here");
    }

    #[test]
    fn a_flag_that_leaves_the_choice_to_the_server_is_not_written() {
        let flags = [
            "--restore-only=false",
            "--garbage-collection-frequency=0s",
            "--concurrent-backups=0",
            "--backup-repository-configmap=",
        ];
        assert_eq!(written(&flags), ["--uploader-type=kopia"]);
    }

    #[test]
    fn every_flag_that_is_handed_on_is_one_of_the_server() {
        assert_eq!(definitions().len(), INSTALL_FLAGS.len());
    }

    #[test]
    fn the_chart_knows_no_flag_that_the_server_does_not_know() {
        let server = names(&Settings::augment_args(Command::new("server")));
        let text = of_repository("deploy/chart/velero/templates/_helpers.tpl");
        let (_, flags) = text.split_once("{{- $flags := dict").unwrap();
        let (flags, _) = flags.split_once("-}}").unwrap();
        let flags: Vec<_> = flags.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).collect();
        assert!(flags.len() > 20, "the template has another form now: {flags:?}");
        for flag in flags {
            // Features are a flag of every command.
            assert!(server.contains(flag) || flag == "features", "--{flag}");
        }
    }

    #[test]
    fn the_documentation_names_every_flag_without_effect() {
        let text = of_repository("docs/compatibility.md");
        let line = text
            .lines()
            .find(|line| line.starts_with("| server flags `--") && line.contains("without effect"))
            .unwrap();
        let told: BTreeSet<_> =
            line.split("`--").skip(1).map(|rest| rest.split('`').next().unwrap().to_owned()).collect();
        assert_eq!(told, names(&FlagsWithoutEffect::augment_args(Command::new("server"))));
    }
}

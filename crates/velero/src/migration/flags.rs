//! The flags of an installed server or node agent: which are known here.

use std::slice;

use clap::{Arg, CommandFactory, FromArgMatches};

use super::{Line, Verdict};
use crate::arguments::{Cli, Command, NodeAgentCommand, with_go_flags};

/// Flags that older versions called otherwise.
const RENAMED: [(&str, &str); 3] = [
    ("restic-timeout", "fs-backup-timeout"),
    ("default-volumes-to-restic", "default-volumes-to-fs-backup"),
    ("default-restic-prune-frequency", "default-repo-maintain-frequency"),
];

/// A flag with its value, and what becomes of it.
struct Flag {
    /// As it is written there.
    written: Vec<String>,
    /// As it is written here; nothing where it is not known.
    usable: Option<Vec<String>>,
    line: Option<(Verdict, String)>,
}

/// The arguments of a workload that can be used here: what is not known is left out.
pub(super) fn usable(arguments: &[String]) -> Vec<String> {
    let (command, flags) = split(arguments);
    let flags = flags.iter().filter_map(|written| judged(&command, written).usable).flatten();
    command.iter().cloned().chain(flags).collect()
}

/// What becomes of each flag.
pub(super) fn judge(object: &str, arguments: &[String]) -> Vec<Line> {
    let (command, flags) = split(arguments);
    let mut lines = Vec::new();
    let mut good = 0;
    for written in &flags {
        let flag = judged(&command, written);
        match flag.line {
            Some((verdict, detail)) => {
                lines.push(Line::new(format!("{object} {}", flag.written.join(" ")), verdict, detail));
            }
            None => good += 1,
        }
    }
    lines.extend(
        without_effect(&command, &flags)
            .into_iter()
            .map(|name| Line::new(format!("{object} --{name}"), Verdict::Differs, "accepted, and without effect")),
    );
    if good > 0 {
        lines.push(Line::new(object, Verdict::Works, format!("{good} flags are known and mean the same")));
    }
    lines
}

/// How many words stand before the command: flags that every command takes, with their values. None where no command follows.
pub(super) fn before_command(words: &[String]) -> usize {
    const COMMANDS: [&str; 2] = [super::SERVER_COMMAND, super::AGENT];
    if !words.first().is_some_and(|word| word.starts_with('-')) {
        return 0;
    }
    let parser = with_go_flags(Cli::command());
    let takes_next = |flag: &str| {
        let name = flag.trim_start_matches('-');
        let named = |argument: &&Arg| {
            argument.get_long() == Some(name)
                || argument.get_short().is_some_and(|short| name.strip_prefix(short) == Some(""))
        };
        parser
            .get_arguments()
            .find(named)
            .is_some_and(|it| it.get_action().takes_values() && !it.is_require_equals_set())
    };
    let mut place = 0;
    while let Some(word) = words.get(place).filter(|word| word.starts_with('-')) {
        place += if takes_next(word) { 2 } else { 1 };
    }
    if words.get(place).is_some_and(|word| COMMANDS.contains(&word.as_str())) { place } else { 0 }
}

/// The words of the command, and its flags with their values.
fn split(arguments: &[String]) -> (Vec<String>, Vec<Vec<String>>) {
    let command = arguments.iter().take_while(|word| !word.starts_with('-')).cloned().collect::<Vec<_>>();
    let mut flags: Vec<Vec<String>> = Vec::new();
    for word in arguments.iter().skip(command.len()) {
        match flags.last_mut() {
            Some(flag) if !word.starts_with('-') => flag.push(word.clone()),
            _ => flags.push(vec![word.clone()]),
        }
    }
    (command, flags)
}

fn judged(command: &[String], written: &[String]) -> Flag {
    let first = written.first().map(String::as_str).unwrap_or_default();
    let (name, rest) = first.split_at(first.find('=').unwrap_or(first.len()));
    let mut flag = Flag { written: written.to_vec(), usable: Some(written.to_vec()), line: None };
    let renamed = RENAMED.iter().find(|(old, _)| name.trim_start_matches('-') == *old);
    if let Some((_, new)) = renamed {
        let mut words = written.to_vec();
        words[0] = format!("--{new}{rest}");
        flag.line = Some((Verdict::Works, format!("it is called --{new} now")));
        flag.usable = Some(words);
    }
    if written.join("=").contains("uploader-type=restic") {
        flag.usable = None;
        flag.line = Some((Verdict::Missing, "restic is not known here: volumes are copied by kopia".to_owned()));
        return flag;
    }
    if let Some(words) = flag.usable.clone()
        && let Err(problem) = parse(command, &words)
    {
        (flag.usable, flag.line) = match words.as_slice() {
            // A flag that is given or not takes a value behind = alone; Velero passes over what follows it.
            [first, rest @ ..] if !rest.is_empty() && parse(command, slice::from_ref(first)).is_ok() => {
                let detail =
                    format!("it counts as given: {:?} behind it is no value of it, here as there", rest.join(" "));
                (Some(vec![first.clone()]), Some((Verdict::Differs, detail)))
            }
            _ => (None, Some((Verdict::Missing, format!("{problem}; it is left out")))),
        };
    }
    flag
}

/// What the command line says to it.
fn parse(command: &[String], flag: &[String]) -> Result<Cli, String> {
    let words = ["velero".to_owned()].into_iter().chain(command.iter().cloned()).chain(flag.iter().cloned());
    let mut parser = with_go_flags(Cli::command());
    let matches = parser.try_get_matches_from_mut(words);
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        line.trim_start_matches("error: ").to_owned()
    })?;
    // What the kubelet puts in the place of a variable is not known.
    if !flag.iter().any(|word| word.contains("$(")) {
        check_start(&cli.command)?;
    }
    Ok(cli)
}

/// Whether a server or node agent would start with it.
fn check_start(command: &Command) -> Result<(), String> {
    let checked = match command {
        Command::Server(arguments) => {
            let mut settings = arguments.settings.clone();
            // It may come from a variable of this machine, and is no flag of Velero's.
            settings.trace_endpoint.clear();
            settings.validate()
        }
        Command::NodeAgent(NodeAgentCommand::Server(arguments)) => {
            let mut settings = arguments.settings.clone();
            // It comes from a variable of the pod.
            settings.node_name = "any".to_owned();
            settings.validate()
        }
        _ => Ok(()),
    };
    checked.map_err(|error| error.to_string())
}

fn without_effect(command: &[String], flags: &[Vec<String>]) -> Vec<&'static str> {
    let known = flags.iter().filter_map(|written| judged(command, written).usable).flatten().collect::<Vec<_>>();
    match parse(command, &known).map(|cli| cli.command) {
        Ok(Command::Server(arguments)) => arguments.settings.flags_without_effect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_known_stays_and_what_is_not_is_left_out_and_named() {
        let given = words(
            "server --features= --uploader-type=kopia --restic-timeout=2h --log-level debug --no-such-flag=1 \
             --default-volumes-to-restic --client-qps=many --profiler-address=:6060",
        );
        let expected = words(
            "server --features= --uploader-type=kopia --fs-backup-timeout=2h --log-level debug \
             --default-volumes-to-fs-backup --profiler-address=:6060",
        );
        assert_eq!(usable(&given), expected);
        let lines = judge("Deployment/velero", &given);
        let verdict = |flag: &str| {
            let line = lines.iter().find(|line| line.object.contains(flag));
            line.unwrap_or_else(|| panic!("{flag}: {lines:#?}")).verdict
        };
        assert_eq!(verdict("--no-such-flag=1"), Verdict::Missing);
        assert_eq!(verdict("--client-qps=many"), Verdict::Missing);
        assert_eq!(verdict("--restic-timeout=2h"), Verdict::Works);
        assert_eq!(verdict("--profiler-address"), Verdict::Differs);
    }

    #[test]
    fn what_a_server_would_not_start_with_is_left_out_and_told() {
        for (given, kept) in [
            ("server --uploader-type=other --log-level=debug", "server --log-level=debug"),
            ("server --client-burst 0", "server"),
            ("server --log-level loud", "server"),
            ("server --log-level=$(LEVEL)", "server --log-level=$(LEVEL)"),
            ("node-agent server --log-level=loud --resource-timeout=0s", "node-agent server"),
            ("node-agent server --resource-timeout=5m", "node-agent server --resource-timeout=5m"),
        ] {
            let given = words(given);
            assert_eq!(usable(&given), words(kept));
            let missing = judge("Deployment/velero", &given).iter().any(|line| line.verdict == Verdict::Missing);
            assert_eq!(missing, given.concat() != kept.replace(' ', ""), "{given:?}");
        }
    }

    #[test]
    fn a_flag_without_a_value_counts_whatever_follows_it() {
        let given = words("server --restore-only true --log-level=debug");
        assert_eq!(usable(&given), words("server --restore-only --log-level=debug"));
        let lines = judge("Deployment/velero", &given);
        let line = lines.iter().find(|line| line.object.ends_with("--restore-only true")).unwrap();
        assert!(line.verdict == Verdict::Differs && line.detail.contains("\"true\""), "{line:?}");
        assert_eq!(usable(&words("server --restore-only=false")), words("server --restore-only=false"));
    }

    #[test]
    fn flags_before_the_command_are_told_from_their_values() {
        for (given, before) in [
            ("server --namespace backup", 0),
            ("--namespace backup server --log-level=debug", 2),
            ("--namespace=backup -v 4 server", 3),
            ("-n server server", 2),
            ("--logtostderr --colorized=false node-agent server", 2),
            ("--kubeconfig /k --features=EnableCSI", 0),
            ("--namespace server", 0),
            ("-c /velero", 0),
            ("", 0),
        ] {
            assert_eq!(before_command(&words(given)), before, "{given}");
        }
    }

    #[test]
    fn restic_is_told_and_node_agents_have_flags_of_their_own() {
        let lines = judge("Deployment/velero", &words("server --uploader-type=restic"));
        assert!(lines[0].verdict == Verdict::Missing && lines[0].detail.contains("restic"), "{lines:?}");
        assert_eq!(usable(&words("server --uploader-type=restic")), ["server"]);
        assert_eq!(usable(&words("server --uploader-type restic")), ["server"]);
        let agent = words("node-agent server --features=EnableCSI --node-agent-configmap=c --no-such=1");
        assert_eq!(usable(&agent), words("node-agent server --features=EnableCSI --node-agent-configmap=c"));
    }
}

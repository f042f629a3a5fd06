//! The names of the objects that are there.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::time::Duration;

use clap::{Command, CommandFactory, FromArgMatches};
use clap_complete::CompletionCandidate;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use velero_api::v1::{Backup, BackupRepository, BackupStorageLocation, Restore, Schedule, VolumeSnapshotLocation};

use super::argument::Named;
use crate::arguments::{Cli, GlobalArguments, with_go_flags};
use crate::client_config::{self, ClientConfig};
use crate::printer::{Printer, Style};
use crate::session::Session;
use crate::settings::Settings;

/// How long somebody waits who has pressed a key.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many objects are asked for at once.
const PAGE: u32 = 500;
/// More names than this help nobody.
const MOST: usize = 500;

/// The names of objects of a kind that go on from what was typed. Whatever goes wrong, there are none: a shell that completes
/// has no place for errors.
pub(super) fn of(kind: Named, is_flag: bool, begun: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(begun), Ok(runtime)) =
        (begun.to_str(), tokio::runtime::Builder::new_current_thread().enable_all().build())
    else {
        return Vec::new();
    };
    let words = typed(std::env::args_os());
    // A timeout can only be made where a runtime runs.
    let found = runtime.block_on(async { tokio::time::timeout(PATIENCE, list(kind, settings(&words), begun)).await });
    let found = found.ok().flatten();
    let fitting = offered(found.unwrap_or_default(), is_flag, begun, &words);
    fitting.into_iter().map(CompletionCandidate::new).collect()
}

/// What was typed so far: all that stands behind the two dashes of the script.
fn typed(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    arguments.skip_while(|argument| argument != "--").skip(1).collect()
}

/// What the flags that were typed, the environment and the configuration file say together.
fn settings(words: &[OsString]) -> Settings {
    // The line is not complete, so most of it may be wrong: only the flags of every command are looked at.
    let command = lenient(with_go_flags(Cli::command()));
    let matches = command.try_get_matches_from(words).ok();
    let global = matches.and_then(|matches| GlobalArguments::from_arg_matches(&matches).ok());
    let config = ClientConfig::load(&client_config::path()).unwrap_or_default();
    Settings::resolve(global.unwrap_or_default(), &config)
}

/// Goes on with what was understood before the first mistake.
fn lenient(command: Command) -> Command {
    command.ignore_errors(true).mut_subcommands(lenient)
}

async fn list(kind: Named, settings: Settings, begun: &str) -> Option<Vec<String>> {
    velero_cluster::install_crypto_provider();
    let session = Session::connect(&settings, Printer { style: Style { colorized: false } }).await.ok()?;
    match kind {
        Named::Backup => names(session.api::<Backup>(), begun).await,
        Named::Restore => names(session.api::<Restore>(), begun).await,
        Named::Schedule => names(session.api::<Schedule>(), begun).await,
        Named::BackupLocation => names(session.api::<BackupStorageLocation>(), begun).await,
        Named::SnapshotLocation => names(session.api::<VolumeSnapshotLocation>(), begun).await,
        Named::Repository => names(session.api::<BackupRepository>(), begun).await,
        Named::Namespace => names(Api::<Namespace>::all(session.cluster.client().clone()), begun).await,
    }
}

/// The names that go on from what was typed: those of many objects come in pages, and may lie on a later one.
async fn names<K: Clone + Debug + DeserializeOwned>(api: Api<K>, begun: &str) -> Option<Vec<String>> {
    let mut parameters = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list_metadata(&parameters).await.ok()?;
        let names = page.items.into_iter().filter_map(|object| object.metadata.name);
        found.extend(names.filter(|name| name.starts_with(begun)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if found.len() < MOST => parameters = parameters.continue_token(&token),
            _ => return Some(found),
        }
    }
}

/// Those names that go on from what was typed and are not there already: for a command among the words of the line, for a flag in
/// a list. What another flag names may well have the same name.
fn offered(names: Vec<String>, is_flag: bool, begun: &str, words: &[OsString]) -> Vec<String> {
    let is_named = |word: &str, name: &str| match is_flag {
        true => word.contains(',') && word.rsplit('=').next().unwrap_or_default().split(',').any(|part| part == name),
        false => word == name,
    };
    let is_new = |name: &String| {
        name == begun || !words.iter().filter_map(|word| word.to_str()).any(|word| is_named(word, name))
    };
    names.into_iter().filter(|name| name.starts_with(begun) && is_new(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_flags_of_an_unfinished_line_count() {
        for (line, namespace, context) in [
            ("velero backup describe -n other", "other", None),
            ("velero --namespace other backup describe --kubecontext blue a", "other", Some("blue")),
            ("velero restore create -n other --kubecontext=blue --from-backup", "other", Some("blue")),
            ("velero -n other backup logs --no-such-flag", "other", None),
        ] {
            let settings = settings(&words(line));
            assert_eq!((settings.namespace.as_str(), settings.context.as_deref()), (namespace, context), "{line}");
        }
    }

    #[test]
    fn what_begins_so_and_is_not_there_yet_is_offered() {
        let names = || ["daily-1", "daily-2", "weekly"].map(str::to_owned).to_vec();
        for (is_flag, begun, line, expected) in [
            (false, "", "velero backup delete", &["daily-1", "daily-2", "weekly"][..]),
            (false, "da", "velero backup delete da", &["daily-1", "daily-2"]),
            (false, "", "velero backup delete daily-1", &["daily-2", "weekly"]),
            (false, "weekly", "velero backup delete weekly", &["weekly"]),
            (false, "x", "velero backup delete x", &[]),
            (true, "w", "velero restore create weekly --from-backup w", &["weekly"]),
            (true, "", "velero backup create weekly --include-namespaces daily-1,", &["daily-2", "weekly"]),
            (true, "d", "velero backup create --include-namespaces=weekly,daily-1,d", &["daily-2"]),
        ] {
            assert_eq!(offered(names(), is_flag, begun, &words(line)), expected, "{line}");
        }
        let asked = typed(words("velero -- velero backup -- x").into_iter());
        assert_eq!(asked, words("velero backup -- x"));
        assert!(typed(words("velero").into_iter()).is_empty());
    }
}

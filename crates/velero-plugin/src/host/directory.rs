//! The folder of plugin binaries, and what they bring.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::time::timeout;

use super::manager::PluginManager;
use super::process::PluginProcess;
use super::settings::HostSettings;
use crate::kind::is_valid_name;
use crate::wire::generated::Empty;
use crate::wire::generated::plugin_lister_client::PluginListerClient;
use crate::{Error, PluginIdentifier, PluginKind, Result};

/// How many binaries are asked at once.
const ASKED_AT_ONCE: usize = 4;

/// The plugins a server has besides those built in.
#[derive(Debug, Clone, Default)]
pub struct PluginDirectory {
    plugins: Vec<PluginIdentifier>,
    settings: HostSettings,
}

impl PluginDirectory {
    /// Starts every executable below a folder once and asks what it brings. A folder that does not exist holds no
    /// plugins; a file that is not executable is left out with a warning; a binary that is no plugin, a name of the
    /// wrong form and a plugin that comes twice are errors.
    pub async fn discover(folder: &Path, settings: HostSettings) -> Result<Self> {
        let commands = executables(folder)?;
        let asked: Vec<_> = commands.iter().map(|command| list_plugins(command, &settings).boxed()).collect();
        let lists: Vec<_> = stream::iter(asked).buffered(ASKED_AT_ONCE).try_collect().await?;
        let plugins = check(lists.into_iter().flatten())?;
        Ok(Self { plugins, settings })
    }

    /// What was found: binaries in the order of their names, the plugins of a binary in the order it lists them.
    pub fn plugins(&self) -> &[PluginIdentifier] {
        &self.plugins
    }

    /// A manager for one backup, restore or other piece of work.
    pub fn manager(&self) -> PluginManager {
        PluginManager::new(self.plugins.clone(), self.settings.clone())
    }

    /// A manager whose plugins log to a sink of its own, such as the log of a backup.
    pub fn manager_with_log(&self, log: super::LogSink) -> PluginManager {
        PluginManager::new(self.plugins.clone(), HostSettings { log, ..self.settings.clone() })
    }
}

/// The executables below a folder, in the order of their names.
fn executables(folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |path: &Path, source| Error::Folder { path: path.display().to_string(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, error)),
    };
    let names = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    let mut paths = names.map_err(|error| unreadable(folder, error))?;
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let itself = fs::symlink_metadata(&path).map_err(|error| unreadable(&path, error))?;
        let metadata = fs::metadata(&path).map_err(|error| unreadable(&path, error))?;
        if itself.is_dir() {
            found.extend(executables(&path)?);
        } else if is_executable(&path, &metadata) {
            found.push(path);
        } else {
            tracing::warn!("{} in the plugin folder is not an executable file and is left out", path.display());
        }
    }
    Ok(found)
}

fn is_executable(path: &Path, metadata: &Metadata) -> bool {
    let windows = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("exe"));
    metadata.is_file() && (windows || may_be_executed(metadata))
}

#[cfg(unix)]
fn may_be_executed(metadata: &Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0
}

#[cfg(not(unix))]
fn may_be_executed(_: &Metadata) -> bool {
    false
}

async fn list_plugins(command: &Path, settings: &HostSettings) -> Result<Vec<PluginIdentifier>> {
    let failed = |problem: String| Error::Binary { command: command.display().to_string(), problem };
    let process = PluginProcess::start(command, settings).await?;
    let patience = settings.deadlines.question;
    let answer = timeout(patience, PluginListerClient::new(process.connection()).list_plugins(Empty {})).await;
    let answer = answer
        .map_err(|_| failed(format!("it did not say within {patience:?} what it brings")))?
        .map_err(|status| failed(format!("it cannot say what it brings: {}", status.message())))?;
    process.stop().await;
    let identify = |listed: crate::wire::generated::PluginIdentifier| {
        let kind = listed.kind.parse::<PluginKind>().map_err(|error| failed(error.to_string()))?;
        Ok(PluginIdentifier { command: command.to_owned(), kind, name: listed.name })
    };
    answer.into_inner().plugins.into_iter().map(identify).collect()
}

/// Refuses names of the wrong form and plugins that come twice.
fn check(plugins: impl Iterator<Item = PluginIdentifier>) -> Result<Vec<PluginIdentifier>> {
    let mut checked: Vec<PluginIdentifier> = Vec::new();
    for plugin in plugins {
        if !is_valid_name(&plugin.name) {
            let problem = Error::InvalidName { kind: plugin.kind.as_str(), name: plugin.name };
            return Err(Error::Binary { command: plugin.command.display().to_string(), problem: problem.to_string() });
        }
        let same = |other: &&PluginIdentifier| (other.kind, &other.name) == (plugin.kind, &plugin.name);
        if let Some(first) = checked.iter().find(same) {
            return Err(Error::BroughtTwice {
                kind: plugin.kind.as_str(),
                name: plugin.name,
                first: first.command.display().to_string(),
                second: plugin.command.display().to_string(),
            });
        }
        checked.push(plugin);
    }
    Ok(prefer_second_versions(&checked))
}

/// An action that comes in both versions runs once, as the newer.
fn prefer_second_versions(plugins: &[PluginIdentifier]) -> Vec<PluginIdentifier> {
    let newer = |kind| match kind {
        PluginKind::BackupItemAction => Some(PluginKind::BackupItemActionV2),
        PluginKind::RestoreItemAction => Some(PluginKind::RestoreItemActionV2),
        PluginKind::VolumeSnapshotter => Some(PluginKind::VolumeSnapshotterV2),
        _ => None,
    };
    let replaced = |plugin: &PluginIdentifier| {
        newer(plugin.kind)
            .is_some_and(|kind| plugins.iter().any(|other| other.kind == kind && other.name == plugin.name))
    };
    plugins.iter().filter(|plugin| !replaced(plugin)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn plugin(command: &str, kind: PluginKind, name: &str) -> PluginIdentifier {
        PluginIdentifier { command: PathBuf::from(command), kind, name: name.to_owned() }
    }

    #[test]
    fn a_plugin_that_comes_twice_is_named_with_both_binaries() {
        let twice = ["/plugins/a", "/plugins/b"].map(|path| plugin(path, PluginKind::ObjectStore, "velero.io/aws"));
        let error = check(twice.into_iter()).unwrap_err().to_string();
        for part in ["velero.io/aws", "/plugins/a", "/plugins/b"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn one_name_may_be_of_two_kinds() {
        let kinds = [PluginKind::ObjectStore, PluginKind::VolumeSnapshotter];
        let plugins = kinds.map(|kind| plugin("/plugins/aws", kind, "velero.io/aws"));
        assert_eq!(check(plugins.iter().cloned()).unwrap(), plugins);
    }

    #[test]
    fn a_bad_name_is_named_with_its_binary() {
        let error = check([plugin("/plugins/a", PluginKind::ObjectStore, "aws")].into_iter()).unwrap_err().to_string();
        assert!(error.contains("/plugins/a") && error.contains("\"aws\""), "{error}");
    }

    #[test]
    fn an_action_in_both_versions_runs_once() {
        let both = [PluginKind::BackupItemAction, PluginKind::BackupItemActionV2];
        let plugins = check(both.into_iter().map(|kind| plugin("/p", kind, "a.io/b"))).unwrap();
        assert_eq!(plugins, [plugin("/p", PluginKind::BackupItemActionV2, "a.io/b")]);
    }

    #[test]
    fn executables_are_found_at_any_depth_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        for (name, mode) in [("c", 0o755), ("a", 0o100), ("b/x", 0o755), ("readme", 0o644)] {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let expected: Vec<_> = ["a", "b/x", "c"].iter().map(|name| folder.path().join(name)).collect();
        assert_eq!(executables(folder.path()).unwrap(), expected);
        assert!(executables(&folder.path().join("missing")).unwrap().is_empty());
    }
}

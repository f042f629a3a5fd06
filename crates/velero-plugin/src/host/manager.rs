//! The plugins of one backup, restore or other piece of work.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use velero_store::ObjectStoreHandle;

use super::actions::{RemoteBackupItemAction, RemoteDeleteItemAction, RemoteItemBlockAction};
use super::call::Remote;
use super::object_store::RemoteObjectStore;
use super::restart::{Initialisation, Restartable};
use super::restore_action::RemoteRestoreItemAction;
use super::settings::HostSettings;
use super::volume_snapshotter::RemoteVolumeSnapshotter;
use crate::kind::full_name;
use crate::{ActionSource, Actions, Error, PluginIdentifier, PluginKind, Result, VolumeSnapshotter};

/// What a store or snapshotter is configured with.
type Config = BTreeMap<String, String>;

/// Runs the plugins of one piece of work. Clones share the processes.
///
/// A process is started when it is first needed, and again when it has died. All actions of a binary share one; each
/// config of a store or snapshotter has one of its own, since a plugin keeps only the config it was told last.
/// [`PluginManager::stop`] ends the processes in peace; dropping everything that uses them kills them.
#[derive(Clone)]
pub struct PluginManager {
    plugins: Arc<Vec<PluginIdentifier>>,
    settings: HostSettings,
    processes: Arc<Mutex<HashMap<ProcessKey, Arc<Restartable>>>>,
}

/// What a process is for: a binary, and the plugin with its config where it has one.
#[derive(PartialEq, Eq, Hash)]
struct ProcessKey {
    command: PathBuf,
    configured: Option<(PluginKind, String, Config)>,
}

impl PluginManager {
    pub(crate) fn new(plugins: Vec<PluginIdentifier>, settings: HostSettings) -> Self {
        Self { plugins: Arc::new(plugins), settings, processes: Arc::default() }
    }

    /// All actions of all binaries, in the order they run. No process is started yet.
    pub fn actions(&self) -> Result<Actions> {
        let mut source = ActionSource::default();
        for plugin in self.plugins.iter() {
            let remote = || self.remote(plugin, None);
            match plugin.kind {
                PluginKind::BackupItemAction | PluginKind::BackupItemActionV2 => {
                    source.backup_item.push(Arc::new(RemoteBackupItemAction(remote())));
                }
                PluginKind::RestoreItemAction | PluginKind::RestoreItemActionV2 => {
                    source.restore_item.push(Arc::new(RemoteRestoreItemAction(remote())));
                }
                PluginKind::DeleteItemAction => source.delete_item.push(Arc::new(RemoteDeleteItemAction(remote()))),
                PluginKind::ItemBlockAction => source.item_block.push(Arc::new(RemoteItemBlockAction(remote()))),
                PluginKind::ObjectStore | PluginKind::VolumeSnapshotter | PluginKind::VolumeSnapshotterV2 => {}
            }
        }
        Actions::in_order(source)
    }

    /// Whether a binary brings an object store of that name. A name without a slash is one of `velero.io`.
    pub fn has_object_store(&self, provider: &str) -> bool {
        self.find(&[PluginKind::ObjectStore], provider).is_some()
    }

    /// Whether a binary brings a volume snapshotter of that name.
    pub fn has_volume_snapshotter(&self, provider: &str) -> bool {
        self.find(&SNAPSHOTTERS, provider).is_some()
    }

    /// Opens a bucket with the object store of that name. `config` is the location's, with `bucket`, `prefix`,
    /// `caCert` and `credentialsFile` as the plugin expects them.
    pub async fn object_store(&self, provider: &str, bucket: &str, config: &Config) -> Result<ObjectStoreHandle> {
        let plugin = self.require(&[PluginKind::ObjectStore], provider)?;
        let remote = self.remote(plugin, Some(config));
        remote.process.process().await?;
        Ok(Arc::new(RemoteObjectStore { remote, bucket: bucket.to_owned() }))
    }

    /// The volume snapshotter of that name, initialised with the config of a location.
    pub async fn volume_snapshotter(&self, provider: &str, config: &Config) -> Result<Arc<dyn VolumeSnapshotter>> {
        let plugin = self.require(&SNAPSHOTTERS, provider)?;
        let remote = self.remote(plugin, Some(config));
        remote.process.process().await?;
        Ok(Arc::new(RemoteVolumeSnapshotter(remote)))
    }

    /// Ends all processes. What is called afterwards starts its process again.
    pub async fn stop(&self) {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner).drain().collect::<Vec<_>>();
        futures::future::join_all(processes.iter().map(|(_, process)| process.stop())).await;
    }

    fn find(&self, kinds: &[PluginKind], name: &str) -> Option<&PluginIdentifier> {
        let name = full_name(name);
        self.plugins.iter().find(|plugin| kinds.contains(&plugin.kind) && plugin.name == name)
    }

    fn require(&self, kinds: &[PluginKind], name: &str) -> Result<&PluginIdentifier> {
        self.find(kinds, name).ok_or_else(|| {
            let known = self.plugins.iter().filter(|plugin| kinds.contains(&plugin.kind));
            Error::NoSuchPlugin {
                kind: kinds[0].as_str(),
                name: full_name(name),
                known: known.map(|plugin| plugin.name.as_str()).collect::<Vec<_>>().join(", "),
            }
        })
    }

    fn remote(&self, plugin: &PluginIdentifier, config: Option<&Config>) -> Remote {
        let process = self.process(&plugin.command, config.map(|config| (plugin.kind, plugin.name.as_str(), config)));
        Remote { kind: plugin.kind, name: plugin.name.clone(), process, last_backup: Arc::default() }
    }

    fn process(&self, command: &Path, configured: Option<(PluginKind, &str, &Config)>) -> Arc<Restartable> {
        let initialisation = configured.map(|(kind, name, config)| Initialisation {
            kind,
            name: name.to_owned(),
            config: config.clone().into_iter().collect(),
        });
        let configured = configured.map(|(kind, name, config)| (kind, name.to_owned(), config.clone()));
        let key = ProcessKey { command: command.to_owned(), configured };
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Restartable::new(command.to_owned(), self.settings.clone(), initialisation));
        Arc::clone(processes.entry(key).or_insert_with(new))
    }
}

const SNAPSHOTTERS: [PluginKind; 2] = [PluginKind::VolumeSnapshotterV2, PluginKind::VolumeSnapshotter];

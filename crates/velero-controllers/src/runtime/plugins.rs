//! The actions of backups, restores and deletions: those built in, then those of plugin binaries.

use std::sync::Arc;

use velero_api::v1::PluginInfo;
use velero_cluster::{Cluster, Discovery};
use velero_engine::Journal;
use velero_plugin::host::{Deadlines, HostSettings, LogSink, PluginDirectory, PluginLogLine, PluginManager};
use velero_plugin::{Actions, PluginKind};
use velero_plugin_csi::NodeAgents;
use velero_plugin_openshift::Switch as OpenShift;

use crate::runtime::error::Result;
use crate::runtime::objects::Objects;
use crate::runtime::settings::Settings;
use crate::runtime::snapshot_locations::SnapshotLocations;

/// How the names of the actions for OpenShift begin.
const OPENSHIFT_NAMES: &str = "openshift.io/";

/// What a server can do besides moving objects.
pub(crate) struct Plugins {
    directory: PluginDirectory,
    /// Actions that whoever runs the server adds to those built in.
    further: Actions,
    /// What the cluster served when the server started; enough to find an action by its name.
    discovery: Arc<Discovery>,
    cluster: Cluster,
    settings: Settings,
    snapshot_locations: SnapshotLocations,
    /// Asks about operations; its processes live as long as somebody waits.
    asking: PluginManager,
    /// Held by whoever asks just now.
    askers: Arc<()>,
    /// Since when no node agent runs that could move data.
    agents: Arc<NodeAgents>,
    listed: Vec<PluginInfo>,
}

/// The actions of one piece of work, and the processes behind them.
pub(crate) struct Tools {
    pub(crate) actions: Actions,
    pub(crate) discovery: Arc<Discovery>,
    manager: PluginManager,
}

/// The actions to ask about operations, and the right to do so.
pub(crate) struct Questions {
    pub(crate) actions: Actions,
    _asker: Arc<()>,
}

impl Tools {
    /// Ends the processes.
    pub(crate) async fn close(self) {
        self.manager.stop().await;
    }
}

impl Plugins {
    /// Finds the plugins of a server. Binaries that cannot be used and names that come twice are errors.
    pub(crate) async fn find(settings: &Settings, cluster: &Cluster, further: Actions) -> Result<Self> {
        let discovery = Arc::new(cluster.discover().await?);
        for silent in discovery.unanswered() {
            tracing::warn!(%silent, "A part of the cluster's API cannot be asked");
        }
        let directory = PluginDirectory::discover(&settings.plugin_dir, host_settings(settings)).await?;
        let mut plugins = Self {
            asking: directory.manager(),
            askers: Arc::default(),
            agents: Arc::default(),
            directory,
            further,
            discovery,
            cluster: cluster.clone(),
            settings: settings.clone(),
            snapshot_locations: SnapshotLocations::new(Objects::new(cluster.clone(), &settings.namespace)),
            listed: Vec::new(),
        };
        plugins.listed = plugins.list()?;
        plugins.report();
        Ok(plugins)
    }

    /// What `velero plugin get` lists.
    pub(crate) fn listed(&self) -> &[PluginInfo] {
        &self.listed
    }

    /// The actions of one piece of work. What plugins log goes into its journal.
    pub(crate) async fn open(&self, journal: Option<&Journal>) -> Result<Tools> {
        self.open_for(journal, false).await
    }

    /// The actions of a dry run: the same ones, told that they are only asked.
    pub(crate) async fn open_for_dry_run(&self, journal: &Journal) -> Result<Tools> {
        self.open_for(Some(journal), true).await
    }

    async fn open_for(&self, journal: Option<&Journal>, is_preview: bool) -> Result<Tools> {
        let discovery = Arc::new(self.cluster.discover().await?);
        let manager = match journal {
            Some(journal) => self.directory.manager_with_log(log_to(journal.clone())),
            None => self.directory.manager(),
        };
        Ok(Tools { actions: self.assemble(&discovery, &manager, is_preview)?, discovery, manager })
    }

    /// The actions to ask about operations. Their processes are shared by all that wait.
    pub(crate) fn for_questions(&self) -> Result<Questions> {
        let _asker = Arc::clone(&self.askers);
        Ok(Questions { actions: self.assemble(&self.discovery, &self.asking, false)?, _asker })
    }

    /// Ends the processes that answer questions, until the next one; not while somebody asks.
    pub(crate) async fn end_questions(&self) {
        if Arc::strong_count(&self.askers) == 1 {
            self.asking.stop().await;
        }
    }

    /// A manager for the object stores of plugins.
    pub(crate) fn stores(&self) -> PluginManager {
        self.directory.manager()
    }

    fn assemble(&self, discovery: &Discovery, manager: &PluginManager, is_preview: bool) -> Result<Actions> {
        let mut actions = self.in_process(discovery, is_preview)?;
        actions.append(manager.actions()?)?;
        Ok(actions.with_snapshotters(Some(self.snapshot_locations.snapshotters(manager))))
    }

    fn in_process(&self, discovery: &Discovery, is_preview: bool) -> Result<Actions> {
        let settings = Settings { openshift: self.openshift(), ..self.settings.clone() };
        let mut actions = built_in(&self.cluster, discovery, &settings, &self.agents, is_preview)?;
        actions.append(self.further.clone())?;
        Ok(actions)
    }

    /// A binary that brings the actions for OpenShift takes the place of those built in, unless these are insisted on.
    fn openshift(&self) -> OpenShift {
        let is_brought = self.directory.plugins().iter().any(|found| found.name.starts_with(OPENSHIFT_NAMES));
        match self.settings.openshift {
            OpenShift::Auto if is_brought => OpenShift::Off,
            switch => switch,
        }
    }

    fn list(&self) -> Result<Vec<PluginInfo>> {
        let plugin =
            |name: &str, kind: &str| PluginInfo { name: name.to_owned(), kind: kind.to_owned(), ..Default::default() };
        // Names that come twice are found out here, before anything runs.
        self.assemble(&self.discovery, &self.asking, false)?;
        let actions = self.in_process(&self.discovery, false)?;
        let backup = actions.backup_item().iter().map(|action| plugin(action.name(), "BackupItemAction"));
        let restore = actions.restore_item().iter().map(|action| plugin(action.name(), "RestoreItemAction"));
        let delete = actions.delete_item().iter().map(|action| plugin(action.name(), "DeleteItemAction"));
        let block = actions.item_block().iter().map(|action| plugin(action.name(), "ItemBlockAction"));
        let mut listed: Vec<_> = backup.chain(restore).chain(delete).chain(block).collect();
        let found = self.directory.plugins().iter().map(|found| plugin(&found.name, found.kind.as_str()));
        listed.extend(found);
        for provider in velero_store::PROVIDERS {
            let name = format!("velero.io/{provider}");
            if !listed.iter().any(|info| info.kind == PluginKind::ObjectStore.as_str() && info.name == name) {
                listed.push(plugin(&name, PluginKind::ObjectStore.as_str()));
            }
        }
        if !self.asking.has_volume_snapshotter(velero_plugin_aws::BUILT_IN_NAME) {
            listed.push(plugin(velero_plugin_aws::BUILT_IN_NAME, PluginKind::VolumeSnapshotter.as_str()));
        }
        Ok(listed)
    }

    /// Says which binaries were found, and which of them takes the place of something built in.
    fn report(&self) {
        for found in self.directory.plugins() {
            let (kind, name, command) = (found.kind.as_str(), found.name.as_str(), found.command.display());
            tracing::info!(kind, name, %command, "Found plugin");
            if found.kind == PluginKind::ObjectStore && velero_store::is_built_in(name) {
                tracing::warn!(name, %command, "The plugin takes the place of the object store that is built in");
            }
        }
    }
}

/// The actions that are part of the server. A preview shows what they make of items and does nothing besides.
pub(crate) fn built_in(
    cluster: &Cluster,
    discovery: &Discovery,
    settings: &Settings,
    agents: &Arc<NodeAgents>,
    is_preview: bool,
) -> Result<Actions> {
    let Settings { features, namespace, openshift, .. } = settings;
    let mut actions = velero_plugin_core::builtin(cluster, discovery, features, namespace)?;
    actions.merge(velero_plugin_csi::builtin(cluster, discovery, agents)?)?;
    actions.append(velero_plugin_openshift::builtin(cluster, discovery, namespace, *openshift, is_preview)?)?;
    Ok(actions)
}

fn host_settings(settings: &Settings) -> HostSettings {
    let arguments = [
        format!("--log-level={}", settings.log.log_level),
        format!("--log-format={}", settings.log.log_format.as_str()),
        format!("--features={}", settings.features),
    ];
    HostSettings {
        arguments: arguments.into(),
        deadlines: Deadlines { work: settings.patience.resource_timeout.to_std(), ..Deadlines::default() },
        ..HostSettings::default()
    }
}

/// Takes what plugins log into a journal. A plugin that logs an error says that something was not done.
fn log_to(journal: Journal) -> LogSink {
    Arc::new(move |line: PluginLogLine| {
        let mut entry = match line.level {
            tracing::Level::ERROR => journal.error(),
            tracing::Level::WARN => journal.warning(),
            tracing::Level::INFO => journal.info(),
            _ => journal.debug(),
        };
        entry = entry.field("cmd", line.command).field("pluginName", line.plugin_name);
        if !line.fields.is_empty() {
            entry = entry.field("fields", serde_json::Value::Object(line.fields).to_string());
        }
        entry.message(&line.message);
    })
}

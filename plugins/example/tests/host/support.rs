//! A folder with the example in it, and what its actions are shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use velero_api::v1::{Backup, Restore};
use velero_plugin::host::{HostSettings, PluginDirectory, PluginLogLine, PluginManager};
use velero_plugin::{BackupItemAction, RestoreItemAction};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_velero-plugin-example");

/// A plugin folder of a test's own, whose path tells its processes from those of other tests.
pub(crate) struct Folder {
    folder: TempDir,
    pub(crate) settings: HostSettings,
    lines: Arc<Mutex<Vec<PluginLogLine>>>,
}

impl Folder {
    /// An empty folder; lines of plugins are kept.
    pub(crate) fn empty() -> Self {
        let lines: Arc<Mutex<Vec<PluginLogLine>>> = Arc::default();
        let sink = Arc::clone(&lines);
        let settings = HostSettings {
            arguments: vec!["--log-level=debug".to_owned(), "--flag-nobody-knows".to_owned()],
            log: Arc::new(move |line| sink.lock().unwrap().push(line)),
            ..HostSettings::default()
        };
        Self { folder: tempfile::tempdir().unwrap(), settings, lines }
    }

    /// A folder with the example.
    pub(crate) fn with_example() -> Self {
        let folder = Self::empty();
        std::os::unix::fs::symlink(BINARY, folder.path().join("example")).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Adds a shell script.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) async fn discover(&self) -> velero_plugin::Result<PluginDirectory> {
        PluginDirectory::discover(self.path(), self.settings.clone()).await
    }

    pub(crate) async fn manager(&self) -> PluginManager {
        self.discover().await.unwrap().manager()
    }

    /// What plugins logged so far.
    pub(crate) fn lines(&self) -> Vec<PluginLogLine> {
        self.lines.lock().unwrap().clone()
    }

    /// The processes started from this folder that are still there, zombies included.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let ours = self.path().display().to_string();
        let of_folder = |id: &u32| {
            let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains(&ours)
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
        ids.filter(of_folder).collect()
    }

    /// Waits until no process of this folder is left.
    pub(crate) async fn expect_no_processes(&self) {
        for _ in 0..100 {
            if self.processes().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("processes are left: {:?}", self.processes());
    }
}

pub(crate) fn backup_action(manager: &PluginManager, name: &str) -> Arc<dyn BackupItemAction> {
    Arc::clone(manager.actions().unwrap().backup_item_action(name).unwrap())
}

pub(crate) fn restore_action(manager: &PluginManager, name: &str) -> Arc<dyn RestoreItemAction> {
    Arc::clone(manager.actions().unwrap().restore_item_action(name).unwrap())
}

pub(crate) fn backup() -> Backup {
    serde_json::from_value(json!({
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": "nightly", "namespace": "velero"},
        "spec": {},
    }))
    .unwrap()
}

pub(crate) fn restore() -> Restore {
    serde_json::from_value(json!({
        "apiVersion": "velero.io/v1",
        "kind": "Restore",
        "metadata": {"name": "back", "namespace": "velero"},
        "spec": {"backupName": "nightly"},
    }))
    .unwrap()
}

/// A ConfigMap with annotations of the example.
pub(crate) fn item(annotations: &[(&str, &str)]) -> Value {
    let annotations = annotations.iter().map(|(name, value)| (format!("example.velero.io/{name}"), json!(value)));
    let annotations: serde_json::Map<_, _> = annotations.collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
    })
}

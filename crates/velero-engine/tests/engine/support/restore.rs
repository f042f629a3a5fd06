//! A restore run against a real API server, from an archive made on the spot.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use velero_api::FeatureFlags;
use velero_api::records::ResourceList;
use velero_api::v1::{Backup, BackupSpec, HookStatus, Restore, RestoreProgress, RestoreSpec};
use velero_archive::{ArchiveWriter, ItemPath, Limits};
use velero_cluster::Cluster;
use velero_engine::Journal;
use velero_engine::journal::{Level, LogFormat};
use velero_engine::restore::{self, Preview, RestoreError, RestoreOutcome, RestoreRequest};
use velero_plugin::Actions;
use velero_rules::ordering::Priorities;

/// A finished restore.
pub struct Restored {
    pub outcome: RestoreOutcome,
    list: ResourceList,
    /// How the hooks went once all had ended.
    pub hooks: HookStatus,
    pub journal: Journal,
    /// Every state of the progress that was seen.
    pub seen: Vec<(i64, i64)>,
}

impl Restored {
    /// What became of the items of a kind, such as `v1/ConfigMap`.
    pub fn list(&self, kind: &str) -> Vec<&str> {
        self.list.get(kind).into_iter().flatten().map(String::as_str).collect()
    }
}

/// An archive with these items.
pub fn archive(items: &[Value], plural: impl Fn(&str) -> &'static str) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new(), 0).unwrap();
    for item in items {
        let path = ItemPath {
            group_resource: plural(item["kind"].as_str().unwrap()),
            version: None,
            namespace: item["metadata"]["namespace"].as_str(),
            name: item["metadata"]["name"].as_str().unwrap(),
        };
        writer.append(&path.to_string(), item.to_string().as_bytes()).unwrap();
    }
    writer.finish().unwrap()
}

pub async fn request(cluster: &Cluster, spec: RestoreSpec, extra: Actions) -> RestoreRequest {
    let discovery = Arc::new(cluster.discover().await.unwrap());
    let features = FeatureFlags::default();
    let mut actions = velero_plugin_core::builtin(cluster, &discovery, &features, "velero").unwrap();
    actions.append(extra).unwrap();
    RestoreRequest {
        restore: Restore::new("velero", "r1", RestoreSpec { backup_name: "b1".to_owned(), ..spec }),
        backup: Backup::new("velero", "b1", BackupSpec::default()),
        cluster: cluster.clone(),
        discovery,
        actions,
        modifiers: None,
        policies: None,
        volumes: Vec::new(),
        snapshots: Vec::new(),
        operations: Default::default(),
        features,
        priorities: Priorities::default(),
        version_priorities: Default::default(),
        resource_timeout: Duration::from_secs(30),
        terminating_timeout: Duration::from_secs(5),
        limits: Limits::default(),
        scratch: std::env::temp_dir(),
        copy_means: Default::default(),
        resumes: Vec::new(),
        halt: Default::default(),
    }
}

pub fn journal() -> Journal {
    Journal::for_restore("velero", "r1", LogFormat::Text, Level::Info)
}

pub async fn try_restore(request: RestoreRequest, archive: Vec<u8>) -> Result<Restored, RestoreError> {
    let journal = journal();
    let (sender, mut receiver) = watch::channel(RestoreProgress::default());
    let watching = tokio::spawn(async move {
        let mut seen = Vec::new();
        while receiver.changed().await.is_ok() {
            let progress = receiver.borrow_and_update();
            seen.push((progress.items_restored, progress.total_items));
        }
        seen
    });
    let (mut outcome, mut hooks) = restore::run(request, Cursor::new(archive), &journal, sender).await?;
    outcome.volumes.extend(hooks.wait_for_fillings().await);
    let hooks = hooks.wait().await;
    let list = outcome.resource_list.to_map();
    Ok(Restored { outcome, list, hooks, journal, seen: watching.await.unwrap() })
}

pub async fn preview(request: RestoreRequest, archive: Vec<u8>) -> Preview {
    restore::preview(request, Cursor::new(archive), &journal()).await.unwrap()
}

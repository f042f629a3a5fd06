//! A cluster that is taken for OpenShift, and what its actions are called with.

use std::time::Duration;

use serde_json::{Value, json};
use velero_api::v1::{Backup, Restore};
use velero_cluster::{Cluster, Discovery, ResourceType, types};
use velero_plugin::{
    Actions, BackupItemAction, BackupItemOutcome, OperationProgress, RestoreItemAction, RestoreItemInput,
    RestoreItemOutcome, Result,
};
use velero_plugin_openshift::{Switch, builtin};
use velero_testkit::TestCluster;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const STREAM_BACKUP: &str = "openshift.io/19-is-backup-plugin";
pub(crate) const STREAM_RESTORE: &str = "openshift.io/19-is-restore-plugin";

/// A cluster, with the namespace of the test as Velero's own.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) discovery: Discovery,
    pub(crate) namespace: String,
    pub(crate) actions: Actions,
}

impl Scene {
    pub(crate) async fn new(test: &TestCluster) -> Self {
        let cluster = Cluster::from_client(test.client.clone());
        let discovery = cluster.discover().await.unwrap();
        let actions = builtin(&cluster, &discovery, &test.namespace, Switch::On, false).unwrap();
        Self { cluster, discovery, namespace: test.namespace.clone(), actions }
    }

    /// Actions of the next backup or restore.
    pub(crate) fn again(&mut self) {
        self.actions = builtin(&self.cluster, &self.discovery, &self.namespace, Switch::On, false).unwrap();
    }

    pub(crate) async fn settings(&self, data: Value) {
        let labels = json!({"velero.io/plugin-config": "", "openshift.io/plugin": ""});
        let object = json!({"metadata": {"name": "openshift", "labels": labels}, "data": data});
        self.create(&config_maps(), object).await;
    }

    pub(crate) async fn create(&self, kind: &ResourceType, object: Value) {
        self.cluster.create(kind, Some(&self.namespace), &object).await.unwrap();
    }

    pub(crate) fn backup_action(&self, name: &str) -> &dyn BackupItemAction {
        self.actions.backup_item_action(name).unwrap().as_ref()
    }

    pub(crate) fn restore_action(&self, name: &str) -> &dyn RestoreItemAction {
        self.actions.restore_item_action(name).unwrap().as_ref()
    }

    pub(crate) async fn back_up(&self, action: &str, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        self.backup_action(action).execute(item, backup).await
    }

    pub(crate) async fn restore(&self, action: &str, item: &Value, restore: &Restore) -> Result<RestoreItemOutcome> {
        let input = RestoreItemInput { item, item_from_backup: item, restore };
        self.restore_action(action).execute(input).await
    }

    /// A Backup or Restore as an object; of a migration or not.
    pub(crate) fn work(&self, kind: &str, migration: bool) -> Value {
        let labels = json!({"app.kubernetes.io/part-of": if migration { "openshift-migration" } else { "other" }});
        let metadata = json!({"name": "shop", "namespace": self.namespace, "labels": labels});
        json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": {}})
    }

    pub(crate) fn backup_object(&self, migration: bool) -> Backup {
        serde_json::from_value(self.work("Backup", migration)).unwrap()
    }

    pub(crate) fn restore_object(&self) -> Restore {
        serde_json::from_value(self.work("Restore", false)).unwrap()
    }

    /// A Backup that exists: what belongs to one that does not is collected as garbage.
    pub(crate) async fn existing_backup(&self) -> Backup {
        serde_json::from_value(self.existing("Backup", "backups", &json!({})).await).unwrap()
    }

    /// A Restore that exists.
    pub(crate) async fn existing_restore(&self, spec: &Value) -> Restore {
        serde_json::from_value(self.existing("Restore", "restores", spec).await).unwrap()
    }

    async fn existing(&self, kind: &str, plural: &str, spec: &Value) -> Value {
        let definitions = ResourceType::new(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            false,
        );
        let (all, name) = (velero_api::crd::all(), format!("{plural}.velero.io"));
        let definition = all.iter().find(|it| it["metadata"]["name"] == name.as_str()).unwrap();
        match self.cluster.create(&definitions, None, definition).await {
            Err(error) if error.is_already_exists() => {}
            created => drop(created.unwrap()),
        }
        let is_served = |definition: Option<&Value>| {
            let conditions = definition.and_then(|it| it["status"]["conditions"].as_array());
            conditions.into_iter().flatten().any(|it| it["type"] == "Established" && it["status"] == "True")
        };
        self.cluster.wait_until(definitions.item(None, &name), PATIENCE, is_served).await.unwrap();
        let mut object = self.work(kind, false);
        object["spec"] = spec.clone();
        let works = ResourceType::new("velero.io/v1", kind, plural, true);
        self.cluster.create(&works, Some(&self.namespace), &object).await.unwrap()
    }

    /// What an operation of the image stream backup says once it has ended.
    pub(crate) async fn backup_ended(&self, id: &str, backup: &Backup) -> OperationProgress {
        until_completed(async || self.backup_action(STREAM_BACKUP).progress(id, backup).await.unwrap()).await
    }

    /// The same of a restore.
    pub(crate) async fn restore_ended(&self, id: &str, restore: &Restore) -> OperationProgress {
        until_completed(async || self.restore_action(STREAM_RESTORE).progress(id, restore).await.unwrap()).await
    }
}

async fn until_completed(ask: impl AsyncFn() -> OperationProgress) -> OperationProgress {
    let wait = async {
        loop {
            let progress = ask().await;
            if progress.completed {
                return progress;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap()
}

pub(crate) fn config_maps() -> ResourceType {
    types::CONFIG_MAPS.clone()
}

pub(crate) fn image_stream_tags() -> ResourceType {
    ResourceType::new("image.openshift.io/v1", "ImageStreamTag", "imagestreamtags", true)
}

pub(crate) fn kind(kind: &str, plural: &str) -> ResourceType {
    ResourceType::new("v1", kind, plural, true)
}

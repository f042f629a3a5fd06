//! The actions: they create a `DataMove`, follow it and cancel it.

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use velero_api::metadata;
use velero_api::v1::{Backup, Restore};
use velero_cluster::{Cluster, ConnectOptions};
use velero_plugin::item::text;
use velero_plugin::{
    BackupItemAction, BackupItemOutcome, Error, OperationProgress, ResourceSelector, RestoreItemAction,
    RestoreItemInput, RestoreItemOutcome, Result,
};

use super::data_moves;
use crate::behaviour::annotation;

const NAME: &str = "example.velero.io/data-mover";

/// Moves the data of claims that are backed up.
#[derive(Default)]
pub struct BackupAction(Moves);

/// Moves the data of claims that are restored.
#[derive(Default)]
pub struct RestoreAction(Moves);

/// The `DataMove` objects of the cluster, which is connected to when first needed: a host asks for the names of plugins
/// where there is no cluster.
#[derive(Default)]
struct Moves(OnceCell<Cluster>);

impl Moves {
    async fn cluster(&self) -> Result<&Cluster> {
        self.0.get_or_try_init(|| async { Ok(Cluster::connect(&ConnectOptions::default()).await?) }).await
    }

    /// Creates the move of a claim and gives its name.
    async fn create(&self, namespace: &str, owner: &str, claim: &Value) -> Result<String> {
        let (claim_namespace, claim_name) = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name"));
        let name = format!("move-{}", uuid::Uuid::new_v4());
        let object = json!({
            "apiVersion": "example.velero.io/v1",
            "kind": "DataMove",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "owner": owner,
                "claim": format!("{claim_namespace}/{claim_name}"),
                "course": annotation(claim, "move").unwrap_or("takes=0s"),
                "cancel": false,
            },
        });
        self.cluster().await?.create(&data_moves(), Some(namespace), &object).await?;
        Ok(name)
    }

    async fn progress(&self, namespace: &str, operation_id: &str) -> Result<OperationProgress> {
        let found = self.cluster().await?.get(data_moves().item(Some(namespace), operation_id)).await?;
        let found = found.ok_or_else(|| invalid(operation_id))?;
        Ok(progress_of(&found))
    }

    async fn cancel(&self, namespace: &str, operation_id: &str) -> Result<()> {
        let patch = json!({"spec": {"cancel": true}});
        let cluster = self.cluster().await?;
        match cluster.merge_patch(data_moves().item(Some(namespace), operation_id), &patch).await {
            Err(velero_cluster::Error::NotFound(_)) => Err(invalid(operation_id)),
            outcome => Ok(outcome.map(drop)?),
        }
    }
}

fn invalid(operation_id: &str) -> Error {
    Error::InvalidOperationId { action: NAME.to_owned(), operation_id: operation_id.to_owned() }
}

fn progress_of(object: &Value) -> OperationProgress {
    let status = &object["status"];
    let phase = text(status, "/phase");
    let error = match phase {
        "Failed" | "Cancelled" => text(status, "/message").to_owned(),
        _ => String::new(),
    };
    OperationProgress {
        completed: matches!(phase, "Completed" | "Failed" | "Cancelled"),
        error,
        n_completed: status["bytesDone"].as_i64().unwrap_or_default(),
        n_total: status["totalBytes"].as_i64().unwrap_or_default(),
        operation_units: "Bytes".to_owned(),
        description: if phase.is_empty() { "waiting for the data mover" } else { phase }.to_owned(),
        started: text(status, "/started").parse().ok(),
        updated: text(status, "/updated").parse().ok(),
    }
}

fn claims() -> ResourceSelector {
    let label_selector = "example.velero.io/data-mover".to_owned();
    ResourceSelector { label_selector, ..ResourceSelector::resources(&["persistentvolumeclaims"]) }
}

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(claims())
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        let namespace = metadata::namespace(backup);
        let owner = metadata::name(backup);
        let name = self.0.create(namespace, owner, item).await?;
        let item_to_update = data_moves().identifier(namespace, &name);
        Ok(BackupItemOutcome {
            operation_id: Some(name),
            items_to_update: vec![item_to_update],
            ..BackupItemOutcome::default()
        })
    }

    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress> {
        self.0.progress(metadata::namespace(backup), operation_id).await
    }

    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<()> {
        self.0.cancel(metadata::namespace(backup), operation_id).await
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(claims())
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        // Somebody only asks what a restore would do.
        if velero_api::dry_run::is_asked(input.restore) {
            return Ok(RestoreItemOutcome::default());
        }
        let namespace = metadata::namespace(input.restore);
        let owner = metadata::name(input.restore);
        let name = self.0.create(namespace, owner, input.item).await?;
        Ok(RestoreItemOutcome { operation_id: Some(name), ..RestoreItemOutcome::default() })
    }

    async fn progress(&self, operation_id: &str, restore: &Restore) -> Result<OperationProgress> {
        self.0.progress(metadata::namespace(restore), operation_id).await
    }

    async fn cancel(&self, operation_id: &str, restore: &Restore) -> Result<()> {
        self.0.cancel(metadata::namespace(restore), operation_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_follows_the_status() {
        for (status, completed, error) in [
            (json!(null), false, ""),
            (json!({"phase": "InProgress", "bytesDone": 5}), false, ""),
            (json!({"phase": "Completed"}), true, ""),
            (json!({"phase": "Failed", "message": "disk full"}), true, "disk full"),
            (json!({"phase": "Cancelled", "message": "cancelled"}), true, "cancelled"),
        ] {
            let progress = progress_of(&json!({ "status": status }));
            assert_eq!((progress.completed, progress.error.as_str()), (completed, error), "{status}");
        }
    }
}

//! Service accounts bring the cluster role bindings that name them, and the cluster roles these refer to.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Backup;
use velero_plugin::item::{name, namespace};
use velero_plugin::{BackupItemAction, BackupItemOutcome, ItemBlockAction, ResourceSelector, Result};

use crate::indexes::BindingIndex;

const NAME: &str = "velero.io/service-account";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Adds the cluster-wide rights of a service account to the backup.
pub struct BackupAction {
    bindings: Arc<BindingIndex>,
}

impl BackupAction {
    /// Uses this index.
    pub fn new(bindings: Arc<BindingIndex>) -> Self {
        Self { bindings }
    }
}

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["serviceaccounts"]))
    }

    async fn execute(&self, item: &Value, _: &Backup) -> Result<BackupItemOutcome> {
        let additional_items = related(&self.bindings, item).await?;
        Ok(BackupItemOutcome { additional_items, ..BackupItemOutcome::default() })
    }
}

/// Keeps a service account and its cluster-wide rights together.
pub struct BlockAction {
    bindings: Arc<BindingIndex>,
}

impl BlockAction {
    /// Uses this index.
    pub fn new(bindings: Arc<BindingIndex>) -> Self {
        Self { bindings }
    }
}

#[async_trait]
impl ItemBlockAction for BlockAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["serviceaccounts"]))
    }

    async fn related_items(&self, item: &Value, _: &Backup) -> Result<Vec<ResourceIdentifier>> {
        related(&self.bindings, item).await
    }
}

async fn related(bindings: &BindingIndex, item: &Value) -> Result<Vec<ResourceIdentifier>> {
    let rights = bindings.rights(namespace(item), name(item)).await?;
    let cluster_scoped = |resource: &str, name: &str| ResourceIdentifier::new(RBAC, resource, "", name);
    let Some(rights) = rights else {
        return Ok(Vec::new());
    };
    let bindings = rights.bindings.iter().map(|name| cluster_scoped("clusterrolebindings", name));
    let roles = rights.roles.iter().map(|name| cluster_scoped("clusterroles", name));
    Ok(bindings.chain(roles).collect())
}

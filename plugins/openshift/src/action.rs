//! From a step, which says what OpenShift needs of one kind, to an action as the server knows it.
//!
//! A step that is switched off, and every step where there is no OpenShift, applies to nothing: the server calls it
//! for no item.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::{Backup, Restore};
use velero_plugin::{
    BackupItemAction, BackupItemOutcome, Error, ItemBlockAction, OperationProgress, ResourceSelector,
    RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result,
};

use crate::context::Context;
use crate::settings::Settings;

/// The types a step is for.
pub(crate) type Resources = &'static [&'static str];

/// A type that no cluster serves.
const NOTHING: &[&str] = &["nothing.openshift.io"];

/// What is done with items of some kinds when they are backed up.
#[async_trait]
pub(crate) trait BackupStep: Send + Sync {
    fn name(&self) -> &'static str;

    fn resources(&self) -> Resources;

    /// What it applies to. Only steps that settings can widen say more than their resources.
    fn applies_to(&self, _: &Settings) -> ResourceSelector {
        ResourceSelector::resources(self.resources())
    }

    async fn backup(&self, item: &Value, backup: &Backup, context: &Context) -> Result<BackupItemOutcome>;

    async fn progress(&self, _: &str, _: &Backup, _: &Context) -> Result<OperationProgress> {
        Err(Error::AsyncOperationsNotSupported { action: self.name().to_owned() })
    }

    async fn cancel(&self, _: &str, _: &Backup, _: &Context) -> Result<()> {
        Ok(())
    }
}

/// What is done with items of some kinds when they are restored.
#[async_trait]
pub(crate) trait RestoreStep: Send + Sync {
    fn name(&self) -> &'static str;

    fn resources(&self) -> Resources;

    /// What it applies to. Only steps that settings can widen say more than their resources.
    fn applies_to(&self, _: &Settings) -> ResourceSelector {
        ResourceSelector::resources(self.resources())
    }

    async fn restore(&self, input: RestoreItemInput<'_>, context: &Context) -> Result<RestoreItemOutcome>;

    async fn progress(&self, _: &str, _: &Restore, _: &Context) -> Result<OperationProgress> {
        Err(Error::AsyncOperationsNotSupported { action: self.name().to_owned() })
    }

    async fn cancel(&self, _: &str, _: &Restore, _: &Context) -> Result<()> {
        Ok(())
    }

    async fn are_ready(&self, _: &[ResourceIdentifier], _: &Restore, _: &Context) -> Result<bool> {
        Ok(true)
    }
}

/// A restore step that asks the cluster nothing.
pub(crate) struct PureRestore {
    pub(crate) name: &'static str,
    pub(crate) resources: Resources,
    pub(crate) restore: fn(RestoreItemInput<'_>, &Settings) -> Result<RestoreItemOutcome>,
}

#[async_trait]
impl RestoreStep for PureRestore {
    fn name(&self) -> &'static str {
        self.name
    }

    fn resources(&self) -> Resources {
        self.resources
    }

    async fn restore(&self, input: RestoreItemInput<'_>, context: &Context) -> Result<RestoreItemOutcome> {
        (self.restore)(input, context.settings().await?)
    }
}

/// A step as an action.
pub(crate) struct Action<S: ?Sized> {
    pub(crate) context: Arc<Context>,
    pub(crate) step: Box<S>,
}

#[async_trait]
impl BackupItemAction for Action<dyn BackupStep> {
    fn name(&self) -> &str {
        self.step.name()
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        selector(&self.context, self.step.name(), |settings| self.step.applies_to(settings)).await
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        self.step.backup(item, backup, &self.context).await
    }

    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress> {
        self.step.progress(operation_id, backup, &self.context).await
    }

    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<()> {
        self.step.cancel(operation_id, backup, &self.context).await
    }
}

#[async_trait]
impl RestoreItemAction for Action<dyn RestoreStep> {
    fn name(&self) -> &str {
        self.step.name()
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        selector(&self.context, self.step.name(), |settings| self.step.applies_to(settings)).await
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        self.step.restore(input, &self.context).await
    }

    async fn progress(&self, operation_id: &str, restore: &Restore) -> Result<OperationProgress> {
        self.step.progress(operation_id, restore, &self.context).await
    }

    async fn cancel(&self, operation_id: &str, restore: &Restore) -> Result<()> {
        self.step.cancel(operation_id, restore, &self.context).await
    }

    async fn are_additional_items_ready(&self, items: &[ResourceIdentifier], restore: &Restore) -> Result<bool> {
        self.step.are_ready(items, restore, &self.context).await
    }
}

/// Keeps a service account and the constraints that name it together.
pub(crate) struct ServiceAccountBlock(pub(crate) Arc<Context>);

#[async_trait]
impl ItemBlockAction for ServiceAccountBlock {
    fn name(&self) -> &str {
        crate::SERVICE_ACCOUNT_BLOCK
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        let accounts = |_: &Settings| ResourceSelector::resources(&["serviceaccounts"]);
        selector(&self.0, crate::SERVICE_ACCOUNT_BLOCK, accounts).await
    }

    async fn related_items(&self, item: &Value, backup: &Backup) -> Result<Vec<ResourceIdentifier>> {
        crate::backup::service_account::constraints(item, backup, &self.0).await
    }
}

async fn selector(
    context: &Context,
    name: &str,
    applies_to: impl FnOnce(&Settings) -> ResourceSelector,
) -> Result<ResourceSelector> {
    if !context.is_openshift().await? {
        return Ok(ResourceSelector::resources(NOTHING));
    }
    let settings = context.settings().await?;
    let is_off = settings.disabled.contains(name);
    Ok(if is_off { ResourceSelector::resources(NOTHING) } else { applies_to(settings) })
}

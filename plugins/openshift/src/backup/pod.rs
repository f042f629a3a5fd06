//! Pods say that their backup knows what their deployment configs need.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::v1::Backup;
use velero_plugin::item::set_annotation;
use velero_plugin::{BackupItemOutcome, Result};

use crate::action::{BackupStep, Resources};
use crate::context::Context;
use crate::names::{TRUE, annotations};

/// Marks pods.
pub(crate) struct Step;

#[async_trait]
impl BackupStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/07-pod-backup-plugin"
    }

    fn resources(&self) -> Resources {
        &["pods"]
    }

    async fn backup(&self, item: &Value, _: &Backup, _: &Context) -> Result<BackupItemOutcome> {
        Ok(mark(item))
    }
}

fn mark(item: &Value) -> BackupItemOutcome {
    BackupItemOutcome::changed(item, |item| set_annotation(item, annotations::DISCONNECT_KNOWN, TRUE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_marked_once() {
        let marked = json!({"metadata": {"annotations": {"oadp.openshift.io/includes-dm-dc-fix": "true"}}});
        assert_eq!(mark(&json!({"metadata": {}})).updated_item, Some(marked.clone()));
        assert_eq!(mark(&marked).updated_item, None);
    }
}

//! A replication controller of a paused deployment config has to be restored: nothing would make it again.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::v1::Backup;
use velero_plugin::item::{elements, set_annotation, text};
use velero_plugin::{BackupItemOutcome, Result};

use crate::action::{BackupStep, Resources};
use crate::context::Context;
use crate::lookups::types;
use crate::names::{TRUE, annotations};

/// Marks replication controllers of paused deployment configs.
pub(crate) struct Step;

#[async_trait]
impl BackupStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/09-replicationcontroller-backup-plugin"
    }

    fn resources(&self) -> Resources {
        &["replicationcontrollers"]
    }

    async fn backup(&self, item: &Value, backup: &Backup, context: &Context) -> Result<BackupItemOutcome> {
        let lookups = context.lookups(backup).await?;
        let namespace = Some(text(item, "/metadata/namespace"));
        let mut owners = Vec::new();
        for name in deployment_configs(item) {
            owners.push(lookups.get_existing(types::deployment_configs().item(namespace, name)).await?);
        }
        Ok(mark(item, &owners))
    }
}

fn deployment_configs(item: &Value) -> impl Iterator<Item = &str> {
    let owners = elements(item, "/metadata/ownerReferences");
    owners.filter(|owner| text(owner, "/kind") == "DeploymentConfig").map(|owner| text(owner, "/name"))
}

fn mark(item: &Value, owners: &[Value]) -> BackupItemOutcome {
    let paused = owners.iter().any(|owner| owner.pointer("/spec/paused") == Some(&Value::Bool(true)));
    BackupItemOutcome::changed(item, |item| {
        if paused {
            set_annotation(item, annotations::PAUSED_OWNER, TRUE);
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_controller_of_a_paused_deployment_config_is_marked() {
        let config = |paused: Value| json!({"spec": {"paused": paused}});
        for (row, owners, marked) in [
            ("no owner", vec![], false),
            ("running", vec![config(json!(false))], false),
            ("not said", vec![json!({"spec": {}})], false),
            ("paused", vec![config(json!(true))], true),
            ("one of two", vec![config(json!(false)), config(json!(true))], true),
        ] {
            let item = json!({"metadata": {"name": "web-1"}, "spec": {"selector": {"app": "web"}}});
            let mut expected = item.clone();
            expected["metadata"]["annotations"] = json!({"openshift.io/paused-owner-ref": "true"});
            assert_eq!(mark(&item, &owners).updated_item, marked.then_some(expected), "{row}");
        }
    }

    #[test]
    fn only_owners_that_are_deployment_configs_are_asked() {
        let owners = json!([{"kind": "DeploymentConfig", "name": "web"}, {"kind": "Other", "name": "x"}]);
        let item = json!({"metadata": {"ownerReferences": owners}});
        assert_eq!(deployment_configs(&item).collect::<Vec<_>>(), ["web"]);
    }
}

//! The ConfigMaps that a build makes for its pod are of no use without it.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::v1::Backup;
use velero_cluster::types;
use velero_plugin::item::{annotation, elements, set_annotation, text};
use velero_plugin::{BackupItemOutcome, Result};

use crate::action::{BackupStep, Resources};
use crate::context::Context;
use crate::names::{TRUE, annotations};

/// Marks the ConfigMaps of builds.
pub(crate) struct Step;

#[async_trait]
impl BackupStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/25-configmap-backup-plugin"
    }

    fn resources(&self) -> Resources {
        &["configmaps"]
    }

    async fn backup(&self, item: &Value, backup: &Backup, context: &Context) -> Result<BackupItemOutcome> {
        if !may_be_of_build(item) {
            return Ok(BackupItemOutcome::default());
        }
        let lookups = context.lookups(backup).await?;
        let namespace = Some(text(item, "/metadata/namespace"));
        let mut owners = Vec::new();
        for name in pods(item) {
            match lookups.get(types::PODS.item(namespace, name)).await {
                Ok(pod) => owners.extend(pod),
                Err(error) => {
                    tracing::warn!("cannot tell whether {} is of a build: {error}", text(item, "/metadata/name"))
                }
            }
        }
        Ok(mark(item, &owners))
    }
}

/// Whether a name is one that builds use, and nobody decided about the ConfigMap yet.
fn may_be_of_build(item: &Value) -> bool {
    let name = text(item, "/metadata/name");
    let is_name = name.ends_with("ca") || name.ends_with("sys-config");
    is_name && annotation(item, annotations::SKIP_BUILD_CONFIG_MAP).is_none()
}

fn pods(item: &Value) -> impl Iterator<Item = &str> {
    let owners = elements(item, "/metadata/ownerReferences");
    owners.filter(|owner| text(owner, "/kind") == "Pod").map(|owner| text(owner, "/name"))
}

fn mark(item: &Value, owners: &[Value]) -> BackupItemOutcome {
    let is_of_build = owners.iter().any(|pod| !annotation(pod, annotations::BUILD_NAME).unwrap_or_default().is_empty());
    BackupItemOutcome::changed(item, |item| {
        if is_of_build {
            set_annotation(item, annotations::SKIP_BUILD_CONFIG_MAP, TRUE);
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_builds_are_known() {
        for (name, annotations, expected) in [
            ("web-1-ca", json!(null), true),
            ("web-1-global-ca", json!(null), true),
            ("web-1-sys-config", json!(null), true),
            ("settings", json!(null), false),
            ("web-1-ca", json!({"oadp.openshift.io/skip-buildconfig-configmap-restore": "false"}), false),
        ] {
            let item = json!({"metadata": {"name": name, "annotations": annotations}});
            assert_eq!(may_be_of_build(&item), expected, "{name} {annotations}");
        }
    }

    #[test]
    fn a_config_map_of_a_build_is_marked() {
        let pod = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        for (row, owners, marked) in [
            ("pod is gone", vec![], false),
            ("another pod", vec![pod(json!({"a": "b"}))], false),
            ("build pod", vec![pod(json!({"openshift.io/build.name": "web-1"}))], true),
        ] {
            let item = json!({"metadata": {"name": "web-1-ca", "ownerReferences": [{"kind": "Pod", "name": "p"}]}});
            assert_eq!(pods(&item).collect::<Vec<_>>(), ["p"], "{row}");
            let mut expected = item.clone();
            expected["metadata"]["annotations"] =
                json!({"oadp.openshift.io/skip-buildconfig-configmap-restore": "true"});
            assert_eq!(mark(&item, &owners).updated_item, marked.then_some(expected), "{row}");
        }
    }
}

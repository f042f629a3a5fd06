//! CRDs that were made through the v1beta1 API may not be valid as v1: they are stored as v1beta1 where it is served.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::v1::Backup;
use velero_cluster::{Cluster, Discovery, ResourceType};
use velero_plugin::item::{elements, text};
use velero_plugin::{BackupItemAction, BackupItemOutcome, Error, ResourceSelector, Result};

const GROUP: &str = "apiextensions.k8s.io";

/// Stores a CRD that is not valid as v1 in its v1beta1 form.
pub struct BackupAction {
    cluster: Cluster,
    beta: Option<ResourceType>,
}

impl BackupAction {
    /// Looks up whether the cluster serves v1beta1.
    pub fn new(cluster: &Cluster, discovery: &Discovery) -> Self {
        let beta = discovery.by_kind(&format!("{GROUP}/v1beta1"), "CustomResourceDefinition");
        Self { cluster: cluster.clone(), beta: beta.cloned() }
    }
}

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        "velero.io/crd-remap-version"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["customresourcedefinitions.apiextensions.k8s.io"]))
    }

    async fn execute(&self, item: &Value, _: &Backup) -> Result<BackupItemOutcome> {
        let Some(beta) = self.beta.as_ref().filter(|_| needs_v1beta1(item)) else {
            return Ok(BackupItemOutcome::default());
        };
        let name = text(item, "/metadata/name");
        let Some(mut crd) = self.cluster.get(beta.item(None, name)).await? else {
            return Err(Error::Item(format!("CustomResourceDefinition {name} has no v1beta1 form")));
        };
        crd["apiVersion"] = beta.api_version().into();
        crd["kind"] = "CustomResourceDefinition".into();
        Ok(BackupItemOutcome { updated_item: Some(crd), ..BackupItemOutcome::default() })
    }
}

/// Whether a CRD read as v1 shows that it was made as v1beta1.
fn needs_v1beta1(crd: &Value) -> bool {
    let is_v1 = matches!(text(crd, "/apiVersion"), "" | "apiextensions.k8s.io/v1");
    let first_version = crd.pointer("/spec/versions/0");
    let no_schema =
        first_version.is_some_and(|version| version.pointer("/schema/openAPIV3Schema").is_none_or(Value::is_null));
    let not_structural =
        elements(crd, "/status/conditions").any(|condition| text(condition, "/type") == "NonStructuralSchema");
    let preserves_unknown = crd.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true));
    is_v1 && (no_schema || not_structural || preserves_unknown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn signs_of_v1beta1_are_recognised() {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let good =
            json!({"apiVersion": "apiextensions.k8s.io/v1", "spec": {"versions": [{"name": "v1", "schema": schema}]}});
        assert!(!needs_v1beta1(&good));
        let with = |pointer: &str, value: Value| {
            let mut crd = good.clone();
            match pointer {
                "schema" => crd["spec"]["versions"][0]["schema"] = value,
                "preserve" => crd["spec"]["preserveUnknownFields"] = value,
                _ => crd["status"] = value,
            }
            crd
        };
        assert!(needs_v1beta1(&with("schema", Value::Null)));
        assert!(needs_v1beta1(&with("preserve", json!(true))));
        assert!(!needs_v1beta1(&with("preserve", json!(false))));
        assert!(needs_v1beta1(&with("status", json!({"conditions": [{"type": "NonStructuralSchema"}]}))));
        assert!(!needs_v1beta1(&with("status", json!({"conditions": [{"type": "Established"}]}))));
    }

    #[test]
    fn a_crd_of_another_version_is_left_alone() {
        assert!(!needs_v1beta1(&json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "spec": {"versions": [{}]}})));
    }
}

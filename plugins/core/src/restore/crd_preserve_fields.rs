//! CRDs that keep unknown fields have to say so in their schemas: v1 no longer takes the field for all versions.

use async_trait::async_trait;
use serde_json::Value;
use velero_plugin::item::{elements_mut, object_mut, text};
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

/// Moves a CRD's wish to keep unknown fields into its schemas.
pub struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/crd-preserve-fields"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["customresourcedefinitions.apiextensions.k8s.io"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        Ok(RestoreItemOutcome::changed(input.item, preserve_in_schemas))
    }
}

fn preserve_in_schemas(crd: &mut Value) {
    let is_v1 = text(crd, "/apiVersion") == "apiextensions.k8s.io/v1";
    if !is_v1 || crd.pointer("/spec/preserveUnknownFields") != Some(&Value::Bool(true)) {
        return;
    }
    crd["spec"]["preserveUnknownFields"] = false.into();
    for version in elements_mut(crd, "/spec/versions") {
        if let Some(schema) = object_mut(version, "/schema/openAPIV3Schema") {
            schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(version: &str, preserve: &Value) -> Value {
        json!({
            "apiVersion": format!("apiextensions.k8s.io/{version}"),
            "spec": {"preserveUnknownFields": preserve, "versions": [
                {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}},
                {"name": "v2", "schema": {"openAPIV3Schema": null}},
                {"name": "v3"},
                {"name": "v4", "schema": {"openAPIV3Schema": {"type": "object", "maximum": 1}}},
            ]},
        })
    }

    #[test]
    fn the_wish_moves_into_each_schema() {
        let mut item = crd("v1", &json!(true));
        preserve_in_schemas(&mut item);
        assert_eq!(item["spec"]["preserveUnknownFields"], false);
        let preserve = |index: usize| item["spec"]["versions"][index]["schema"]["openAPIV3Schema"].clone();
        assert_eq!(preserve(0), json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
        assert_eq!(preserve(1), Value::Null);
        assert_eq!(item["spec"]["versions"][2], json!({"name": "v3"}));
        assert_eq!(preserve(3), json!({"type": "object", "maximum": 1, "x-kubernetes-preserve-unknown-fields": true}));
    }

    #[test]
    fn other_definitions_are_left_alone() {
        for (version, preserve) in [("v1", json!(false)), ("v1", Value::Null), ("v1beta1", json!(true))] {
            assert_eq!(
                RestoreItemOutcome::changed(&crd(version, &preserve), preserve_in_schemas).updated_item,
                None,
                "{version} {preserve}"
            );
        }
    }
}

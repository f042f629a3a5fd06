//! Webhook configurations that were made through the v1beta1 API may hold side effects that v1 does not allow.

use async_trait::async_trait;
use serde_json::Value;
use velero_plugin::item::{elements_mut, text};
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

/// Says of webhooks with side effects that v1 does not allow that they have none.
pub struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/admission-webhook-configuration"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[
            "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
        ]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        Ok(RestoreItemOutcome::changed(input.item, allow))
    }
}

fn allow(configuration: &mut Value) {
    if text(configuration, "/apiVersion") != "admissionregistration.k8s.io/v1" {
        return;
    }
    for webhook in elements_mut(configuration, "/webhooks").filter_map(Value::as_object_mut) {
        let allowed = matches!(webhook.get("sideEffects").and_then(Value::as_str), Some("None" | "NoneOnDryRun"));
        if !allowed {
            webhook.insert("sideEffects".to_owned(), "None".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn allowed(version: &str, side_effects: &Value) -> Value {
        let webhooks =
            json!([{"name": "a", "sideEffects": side_effects}, {"name": "b", "sideEffects": "NoneOnDryRun"}]);
        let api_version = format!("admissionregistration.k8s.io/{version}");
        let mut item = json!({"apiVersion": api_version, "webhooks": webhooks});
        allow(&mut item);
        assert_eq!(item["webhooks"][1]["sideEffects"], "NoneOnDryRun");
        item["webhooks"][0]["sideEffects"].take()
    }

    #[test]
    fn side_effects_that_v1_does_not_allow_become_none() {
        for (before, after) in [
            (json!("Unknown"), "None"),
            (json!("Some"), "None"),
            (json!(""), "None"),
            (Value::Null, "None"),
            (json!("None"), "None"),
            (json!("NoneOnDryRun"), "NoneOnDryRun"),
        ] {
            assert_eq!(allowed("v1", &before), after, "{before}");
        }
    }

    #[test]
    fn a_webhook_that_says_nothing_gets_none() {
        let mut item = json!({"apiVersion": "admissionregistration.k8s.io/v1", "webhooks": [{"name": "a"}]});
        allow(&mut item);
        assert_eq!(item["webhooks"][0]["sideEffects"], "None");
    }

    #[test]
    fn other_versions_and_configurations_without_webhooks_are_left_alone() {
        assert_eq!(allowed("v1beta1", &json!("Some")), "Some");
        let empty = json!({"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "x"}});
        assert_eq!(RestoreItemOutcome::changed(&empty, allow).updated_item, None);
    }
}

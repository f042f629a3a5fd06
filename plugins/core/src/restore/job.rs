//! Jobs find their pods by labels that the cluster makes from the job's identity, which a restored job does not have.

use async_trait::async_trait;
use serde_json::Value;
use velero_plugin::item::object_mut;
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

const IDENTITY: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Drops the labels of the old job's identity, so that the cluster makes new ones.
pub struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/job"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["jobs.batch"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        Ok(RestoreItemOutcome::changed(input.item, drop_identity))
    }
}

fn drop_identity(job: &mut Value) {
    for pointer in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        if let Some(labels) = object_mut(job, pointer) {
            labels.retain(|key, _| !IDENTITY.contains(&key.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_labels_of_the_identity_go_and_others_stay() {
        for (before, after) in [
            (json!({}), json!({})),
            (json!({"a": "b"}), json!({"a": "b"})),
            (json!({"controller-uid": "1", "a": "b"}), json!({"a": "b"})),
            (json!({"batch.kubernetes.io/controller-uid": "1"}), json!({})),
            (
                json!({"batch.kubernetes.io/controller-uid": "1", "controller-uid": "1", "job-name": "j"}),
                json!({"job-name": "j"}),
            ),
        ] {
            let job = |labels: &Value| {
                json!({
                    "metadata": {"labels": {"controller-uid": "of the job itself"}},
                    "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}},
                })
            };
            let mut item = job(&before);
            drop_identity(&mut item);
            assert_eq!(item, job(&after), "{before}");
        }
    }

    #[test]
    fn a_job_without_a_selector_is_left_alone() {
        let job = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
        assert_eq!(RestoreItemOutcome::changed(&job, drop_identity).updated_item, None);
    }
}

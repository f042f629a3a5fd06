//! A deployment config says what its pods need, for when it is restored its pods may have to come back without it.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::v1::Backup;
use velero_cluster::types;
use velero_plugin::item::{set_annotation, text};
use velero_plugin::{BackupItemOutcome, Result};

use crate::action::{BackupStep, Resources};
use crate::context::Context;
use crate::names::{TRUE, annotations};
use crate::shared::pods::{has_hook_annotations, has_volumes, labels_to_text};

/// Writes down what the pods of a deployment config need.
pub(crate) struct Step;

#[async_trait]
impl BackupStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/08-deploymentconfig-backup-plugin"
    }

    fn resources(&self) -> Resources {
        &["deploymentconfigs"]
    }

    async fn backup(&self, item: &Value, backup: &Backup, context: &Context) -> Result<BackupItemOutcome> {
        let lookups = context.lookups(backup).await?;
        let namespace = Some(text(item, "/metadata/namespace"));
        let selector = labels_to_text(&item["spec"]["selector"]);
        let pods = lookups.list_labelled(&types::PODS, namespace, Some(&selector)).await?;
        Ok(BackupItemOutcome::changed(item, |item| annotate(item, &pods)))
    }
}

fn annotate(item: &mut Value, pods: &[Value]) {
    let any = |has: fn(&Value) -> bool| if pods.iter().any(has) { TRUE } else { "false" };
    let labels = pods.first().map(|pod| labels_to_text(&pod["metadata"]["labels"])).unwrap_or_default();
    set_annotation(item, annotations::DISCONNECT_KNOWN, TRUE);
    set_annotation(item, annotations::HAS_POD_RESTORE_HOOKS, any(has_hook_annotations));
    set_annotation(item, annotations::PODS_HAVE_VOLUMES, any(has_volumes));
    set_annotation(item, annotations::POD_LABELS, &labels);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_config_says_what_its_pods_need() {
        let pod = |labels: Value, annotations: Value, volumes: Value| json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": {"volumes": volumes}});
        let plain = pod(json!({"b": "2", "a": "1"}), json!(null), json!([]));
        let hooked = pod(json!({}), json!({"post.hook.restore.velero.io/command": "true"}), json!([]));
        let filled = pod(json!({"c": "3"}), json!({}), json!([{"name": "v", "emptyDir": {}}]));
        for (row, pods, hooks, volumes, labels) in [
            ("no pods", vec![], "false", "false", ""),
            ("a plain pod", vec![plain.clone()], "false", "false", "a=1,b=2"),
            ("hooks", vec![plain.clone(), hooked.clone()], "true", "false", "a=1,b=2"),
            ("volumes", vec![filled.clone(), plain], "false", "true", "c=3"),
            ("both", vec![hooked, filled], "true", "true", ""),
        ] {
            let mut item = json!({"metadata": {"name": "web"}});
            annotate(&mut item, &pods);
            let expected = json!({
                "oadp.openshift.io/includes-dm-dc-fix": "true",
                "oadp.openshift.io/has-pod-restore-hooks": hooks,
                "oadp.openshift.io/pods-have-volumes": volumes,
                "oadp.openshift.io/pod-labels": labels,
            });
            assert_eq!(item["metadata"]["annotations"], expected, "{row}");
        }
    }
}

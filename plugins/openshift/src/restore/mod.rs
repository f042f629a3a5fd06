//! The steps on items that are restored.

pub(crate) mod build;
pub(crate) mod build_config;
pub(crate) mod cluster_role_binding;
pub(crate) mod common;
pub(crate) mod config_map;
pub(crate) mod cron_job;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod deployment_config;
pub(crate) mod horizontal_pod_autoscaler;
pub(crate) mod image_stream;
pub(crate) mod image_stream_tag;
pub(crate) mod image_tag;
pub(crate) mod job;
pub(crate) mod non_admin;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub(crate) mod pod;
pub(crate) mod replica_set;
pub(crate) mod replication_controller;
pub(crate) mod role_binding;
pub(crate) mod route;
pub(crate) mod secret;
pub(crate) mod security_context_constraints;
pub(crate) mod service;
pub(crate) mod service_account;
pub(crate) mod stateful_set;

use velero_plugin::{RestoreItemInput, RestoreItemOutcome};

use crate::action::RestoreStep;
use crate::shared::image_reference::rewrite_containers;

/// Where what makes pods keeps their spec.
const TEMPLATE: &str = "/spec/template/spec";

/// All of them.
pub(crate) fn steps() -> Vec<Box<dyn RestoreStep>> {
    vec![
        Box::new(common::Step),
        Box::new(service_account::STEP),
        Box::new(persistent_volume::STEP),
        Box::new(persistent_volume_claim::STEP),
        Box::new(image_stream_tag::Step),
        Box::new(route::STEP),
        Box::new(build::STEP),
        Box::new(pod::Step),
        Box::new(deployment_config::Step),
        Box::new(replication_controller::STEP),
        Box::new(job::STEP),
        Box::new(daemon_set::STEP),
        Box::new(replica_set::STEP),
        Box::new(deployment::STEP),
        Box::new(stateful_set::STEP),
        Box::new(service::STEP),
        Box::new(cron_job::STEP),
        Box::new(build_config::Step),
        Box::new(secret::STEP),
        Box::new(image_stream::Step),
        Box::new(security_context_constraints::STEP),
        Box::new(role_binding::STEP),
        Box::new(cluster_role_binding::STEP),
        Box::new(image_tag::STEP),
        Box::new(horizontal_pod_autoscaler::STEP),
        Box::new(config_map::STEP),
        Box::new(non_admin::STEP),
    ]
}

/// The item with the images of its containers renamed; `pod_spec` says where these are.
fn with_images(input: RestoreItemInput<'_>, pod_spec: &str) -> velero_plugin::RestoreItemOutcome {
    RestoreItemOutcome::changed(input.item, |item| rewrite_containers(item, pod_spec, input.restore))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

    use super::*;
    use crate::action::PureRestore;
    use crate::settings::Settings;
    use crate::testing::{Expected, check, mapping, reset, run};

    /// Something that makes pods, with the hostnames that the common actions wrote.
    fn workload(kind: &str, image: &str) -> Value {
        let containers = json!({"containers": [{"name": "a", "image": image}], "initContainers": [{"image": image}]});
        let spec = match kind {
            "CronJob" => json!({"timeZone": "UTC", "jobTemplate": {"spec": {"template": {"spec": containers}}}}),
            _ => json!({"future": {"field": 1}, "template": {"spec": containers}}),
        };
        let hostnames = json!({
            "openshift.io/backup-registry-hostname": "old:5000", "openshift.io/restore-registry-hostname": "new:5000",
        });
        json!({"kind": kind, "metadata": {"name": "web", "namespace": "shop", "annotations": hostnames}, "spec": spec})
    }

    #[test]
    fn workloads_name_images_of_the_new_registry_and_keep_every_other_field() {
        let steps: [(&str, &PureRestore); 7] = [
            ("Deployment", &deployment::STEP),
            ("StatefulSet", &stateful_set::STEP),
            ("DaemonSet", &daemon_set::STEP),
            ("ReplicaSet", &replica_set::STEP),
            ("ReplicationController", &replication_controller::STEP),
            ("Job", &job::STEP),
            ("CronJob", &cron_job::STEP),
        ];
        for (kind, step) in steps {
            for (before, after) in [
                ("old:5000/shop/web@sha256:1", "new:5000/store/web@sha256:1"),
                ("old:5000/other/web:v1", "new:5000/other/web:v1"),
                ("quay.io/shop/web:v1", "quay.io/shop/web:v1"),
            ] {
                let row = format!("{kind} {before}");
                let item = workload(kind, before);
                let restore = mapping(&json!({"shop": "store"}));
                let outcome = run(&item, &restore, |input| (step.restore)(input, &Settings::default()));
                check(&row, &item, outcome, &Expected::Item(workload(kind, after)));
            }
        }
    }

    #[test]
    fn what_an_owner_makes_again_stays_out() {
        use crate::compat::Compat::SkipOwnedReplicaSets;
        let old_way = crate::testing::compat(&[SkipOwnedReplicaSets]);
        let now = Settings::default();
        let paused = "openshift.io/paused-owner-ref";
        let rows: [(&str, &PureRestore, &str, &Settings, bool); 10] = [
            ("Job", &job::STEP, "CronJob", &now, true),
            ("Job", &job::STEP, "Workflow", &now, false),
            ("Job", &job::STEP, "", &now, false),
            ("ReplicaSet", &replica_set::STEP, "Deployment", &now, false),
            ("ReplicaSet", &replica_set::STEP, "Deployment", &old_way, true),
            ("ReplicaSet", &replica_set::STEP, "Rollout", &old_way, false),
            ("ReplicationController", &replication_controller::STEP, "DeploymentConfig", &now, true),
            ("ReplicationController", &replication_controller::STEP, "Other", &now, false),
            ("ReplicationController", &replication_controller::STEP, "", &now, false),
            ("ReplicationController", &replication_controller::STEP, paused, &now, false),
        ];
        for (kind, step, owner, settings, skip) in rows {
            let mut item = workload(kind, "quay.io/a/b");
            if owner == paused {
                item["metadata"]["annotations"][paused] = json!("true");
                item["metadata"]["ownerReferences"] = json!([{"kind": "DeploymentConfig"}]);
            } else if !owner.is_empty() {
                item["metadata"]["ownerReferences"] = json!([{"kind": "Something"}, {"kind": owner}]);
            }
            let outcome = run(&item, &mapping(&json!({})), |input| (step.restore)(input, settings));
            let mut unmarked = reset(&item);
            velero_plugin::item::remove_annotation(&mut unmarked, paused);
            let expected = if skip { Expected::Skip } else { Expected::Item(unmarked) };
            check(&format!("{kind} of {owner}"), &reset(&item), outcome, &expected);
        }
    }

    #[test]
    fn builds_and_image_tags_never_come_back() {
        let always = |step: &PureRestore| -> Result<RestoreItemOutcome> {
            let (item, restore) = (json!({"metadata": {"name": "web"}}), mapping(&json!({})));
            let input = RestoreItemInput { item: &item, item_from_backup: &item, restore: &restore };
            (step.restore)(input, &Settings::default())
        };
        for (row, step) in [("build", &build::STEP), ("image tag", &image_tag::STEP)] {
            check(row, &json!({}), always(step), &Expected::Skip);
        }
    }
}

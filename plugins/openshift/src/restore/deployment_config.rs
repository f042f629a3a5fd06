//! Deployment configs run images of the internal registry, follow tags whose namespace may be mapped, and must not make
//! pods beside those that are restored with their data.

use async_trait::async_trait;
use serde_json::{Value, json};
use velero_api::metadata;
use velero_api::v1::Restore;
use velero_plugin::item::{annotation, elements_mut, set_annotation, set_label, text};
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use super::TEMPLATE;
use crate::action::{Resources, RestoreStep};
use crate::compat::Compat;
use crate::context::Context;
use crate::names::{TRUE, annotations, labels};
use crate::settings::Settings;
use crate::shared::image_reference::rewrite_containers;
use crate::shared::pods::{hooks_select, label_value, labels_from_text, takes_all_volumes};

/// Renames images and triggers, and scales down what waits for its pods.
pub(crate) struct Step;

#[async_trait]
impl RestoreStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/08-deploymentconfig-restore-plugin"
    }

    fn resources(&self) -> Resources {
        &["deploymentconfigs"]
    }

    async fn restore(&self, input: RestoreItemInput<'_>, context: &Context) -> Result<RestoreItemOutcome> {
        let takes_all = match annotation(input.item, annotations::DISCONNECT_KNOWN).unwrap_or_default() {
            "" => takes_all(input.restore, context).await?,
            _ => false,
        };
        Ok(restore(input, takes_all, context.settings().await?))
    }
}

/// Whether the backup took all volumes through the file system; a backup that cannot be read says no.
pub(super) async fn takes_all(restore: &Restore, context: &Context) -> Result<bool> {
    let lookups = context.lookups(restore).await?;
    match lookups.backup_of(restore).await {
        Ok(backup) => Ok(backup.is_some_and(takes_all_volumes)),
        Err(error) => {
            tracing::warn!("cannot tell whether backup {} took all volumes: {error}", restore.spec.backup_name);
            Ok(false)
        }
    }
}

fn restore(input: RestoreItemInput<'_>, takes_all: bool, settings: &Settings) -> RestoreItemOutcome {
    let RestoreItemInput { item, restore, .. } = input;
    RestoreItemOutcome::changed(item, |item| {
        rewrite_containers(item, TEMPLATE, restore);
        map_triggers(item, restore, settings);
        if pods_come_first(item, restore, takes_all) {
            scale_down(item, restore);
        }
    })
}

fn map_triggers(item: &mut Value, restore: &Restore, settings: &Settings) {
    let namespaces = &restore.spec.namespace_mapping;
    let own = namespaces.get(text(item, "/metadata/namespace")).map_or("", String::as_str).to_owned();
    for trigger in elements_mut(item, "/spec/triggers") {
        let Some(from) = trigger.pointer_mut("/imageChangeParams/from") else { continue };
        let Some(new) = namespaces.get(text(from, "/namespace")) else { continue };
        let new = if settings.compat(Compat::TriggerNamespace) { &own } else { new };
        from["namespace"] = new.as_str().into();
    }
}

/// Whether its pods are restored themselves, for their data or hooks.
fn pods_come_first(item: &Value, restore: &Restore, takes_all: bool) -> bool {
    if annotation(item, annotations::DISCONNECT_KNOWN).unwrap_or_default().is_empty() {
        return takes_all;
    }
    let says = |key: &str| annotation(item, key) == Some(TRUE);
    let labels = labels_from_text(annotation(item, annotations::POD_LABELS).unwrap_or_default());
    let selected = || hooks_select(restore, text(item, "/metadata/namespace"), &labels).unwrap_or(false);
    says(annotations::PODS_HAVE_VOLUMES) || says(annotations::HAS_POD_RESTORE_HOOKS) || selected()
}

/// Makes no pods until somebody scales it up again; the annotations say to what.
fn scale_down(item: &mut Value, restore: &Restore) {
    let replicas = item.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    if replicas <= 0 {
        return;
    }
    let paused = item.pointer("/spec/paused") == Some(&json!(true));
    set_annotation(item, annotations::ORIGINAL_REPLICAS, &replicas.to_string());
    set_annotation(item, annotations::ORIGINAL_PAUSED, &paused.to_string());
    set_label(item, labels::REPLICAS_MODIFIED, &label_value(metadata::name(restore)));
    item["spec"]["replicas"] = json!(0);
    if paused {
        item["spec"]["paused"] = json!(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Expected, check, compat, mapping, merge, restore as restore_of, run};

    fn config(fields: &Value) -> Value {
        let hostnames = json!({
            "openshift.io/backup-registry-hostname": "old:5000", "openshift.io/restore-registry-hostname": "new:5000",
        });
        let mut item = json!({
            "kind": "DeploymentConfig",
            "metadata": {"name": "web", "namespace": "shop", "annotations": hostnames},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": "quay.io/a/b"}]}}, "strategy": {"type": "Rolling"}},
        });
        merge(&mut item, fields);
        item
    }

    fn triggers(namespace: &str) -> Value {
        let from = json!({"kind": "ImageStreamTag", "name": "web:v1", "namespace": namespace});
        config(&json!({"spec": {"triggers": [
            {"type": "ConfigChange"},
            {"type": "ImageChange", "imageChangeParams": {"from": from, "lastTriggeredImage": "old:5000/shop/web@sha256:1"}},
        ]}}))
    }

    #[test]
    fn images_and_triggers_follow_registry_and_namespaces() {
        let now = Settings::default();
        let old_way = compat(&[Compat::TriggerNamespace]);
        let image = |name: &str| config(&json!({"spec": {"template": {"spec": {"containers": [{"image": name}]}}}}));
        let both = json!({"shop": "store", "base": "bases"});
        for (row, namespaces, settings, item, expected) in [
            ("image", &both, &now, image("old:5000/shop/web:1"), Expected::Item(image("new:5000/store/web:1"))),
            ("external image", &both, &now, image("quay.io/shop/web:1"), Expected::Same),
            ("own trigger", &both, &now, triggers("shop"), Expected::Item(triggers("store"))),
            ("other trigger", &both, &now, triggers("base"), Expected::Item(triggers("bases"))),
            ("trigger not mapped", &both, &now, triggers("openshift"), Expected::Same),
            ("no mapping", &json!({}), &now, triggers("shop"), Expected::Same),
            ("other trigger, old way", &both, &old_way, triggers("base"), Expected::Item(triggers("store"))),
            (
                "own namespace not mapped, old way",
                &json!({"base": "bases"}),
                &old_way,
                triggers("base"),
                Expected::Item(triggers("")),
            ),
        ] {
            let outcome = run(&item, &mapping(namespaces), |input| Ok(restore(input, false, settings)));
            check(row, &item, outcome, &expected);
        }
    }

    #[test]
    fn a_config_whose_pods_are_restored_is_scaled_down() {
        let known = |volumes: &str, hooks: &str| {
            json!({"metadata": {"annotations": {
                "oadp.openshift.io/includes-dm-dc-fix": "true", "oadp.openshift.io/pods-have-volumes": volumes,
                "oadp.openshift.io/has-pod-restore-hooks": hooks, "oadp.openshift.io/pod-labels": "app=web",
            }}})
        };
        let hook = json!({"spec": {"hooks": {"resources": [{
            "name": "h", "postHooks": [{"exec": {"command": ["x"]}}], "labelSelector": {"matchLabels": {"app": "web"}},
        }]}}});
        let down = |before: &Value, replicas: &str, paused: &str| {
            let mut item = config(before);
            merge(
                &mut item,
                &json!({"metadata": {
                "annotations": {"oadp.openshift.io/original-replicas": replicas, "oadp.openshift.io/original-paused": paused},
                "labels": {"oadp.openshift.io/replicas-modified": "again"},
            }, "spec": {"replicas": 0}}),
            );
            if paused == "true" {
                item["spec"]["paused"] = json!(false);
            }
            Expected::Item(item)
        };
        let mut paused = known("true", "false");
        paused["spec"] = json!({"paused": true});
        let mut none = known("true", "false");
        none["spec"] = json!({"replicas": 0});
        let plain = json!({});
        let yes_no = known("true", "false");
        for (row, fields, takes_all, work, expected) in [
            ("volumes", yes_no.clone(), false, &plain, down(&yes_no, "2", "false")),
            ("hooks", known("false", "true"), false, &plain, down(&known("false", "true"), "2", "false")),
            ("neither", known("false", "false"), false, &plain, Expected::Same),
            ("neither, all volumes", known("false", "false"), true, &plain, Expected::Same),
            (
                "hook of the restore",
                known("false", "false"),
                false,
                &hook,
                down(&known("false", "false"), "2", "false"),
            ),
            ("old backup of all volumes", plain.clone(), true, &plain, down(&plain, "2", "false")),
            ("old backup", plain.clone(), false, &plain, Expected::Same),
            ("paused", paused.clone(), false, &plain, down(&paused, "2", "true")),
            ("no replicas", none, false, &plain, Expected::Same),
        ] {
            let item = config(&fields);
            let outcome = run(&item, &restore_of(work), |input| Ok(restore(input, takes_all, &Settings::default())));
            check(row, &item, outcome, &expected);
        }
    }
}

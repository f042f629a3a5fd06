//! What comes into a backup because something else needs it, against a real API server.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod support;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use support::{Scene, claims, pods, service_accounts, volumes};
use velero_api::records::ResourceIdentifier;
use velero_api::v1::{Backup, BackupSpec};
use velero_cluster::ResourceType;
use velero_plugin::{ActionSource, Actions, BackupItemAction, BackupItemOutcome, Error, ResourceSelector, Result};
use velero_testkit::cluster_test;

fn pod(name: &str, claim: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": false,
            "nodeSelector": {"example.com/never": "true"},
            "containers": [{"name": "main", "image": "none"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

/// Makes a volume and a claim that are bound to each other.
async fn bound_claim(scene: &Scene, name: &str) -> String {
    let volume_name = format!("{}-{name}", scene.namespace);
    let volume = json!({"metadata": {"name": volume_name}, "spec": {
        "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "by-hand",
        "hostPath": {"path": "/nowhere"}, "claimRef": {"namespace": scene.namespace, "name": name},
    }});
    scene.cluster.create(&volumes(), None, &volume).await.unwrap();
    let claim = json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteMany"], "storageClassName": "by-hand", "volumeName": volume_name,
        "resources": {"requests": {"storage": "1Mi"}},
    }});
    scene.create(&claims(), claim).await;
    scene.wait(&claims(), name, |claim| claim["status"]["phase"] == "Bound").await;
    volume_name
}

async fn remove_volume(scene: &Scene, claim: &str, volume: &str) {
    scene.cluster.delete(&claims(), Some(&scene.namespace), claim, &Default::default()).await.unwrap();
    scene.cluster.delete(&volumes(), None, volume, &Default::default()).await.unwrap();
}

#[test]
fn a_pod_brings_its_claim_and_the_claim_its_volume() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.wait(&service_accounts(), "default", |_| true).await;
        let volume = bound_claim(&scene, "data").await;
        scene.create(&pods(), pod("web", "data")).await;
        let taken = scene.back_up(scene.own_namespace()).await;
        assert_eq!(taken.names("pods", &scene.namespace), ["web"]);
        assert_eq!(taken.names("persistentvolumeclaims", &scene.namespace), ["data"]);
        assert!(taken.has(&format!("resources/persistentvolumes/cluster/{volume}.json")));
        assert_eq!(taken.journal.counts().warnings, 0, "{:?}", taken.journal.results());
        remove_volume(&scene, "data", &volume).await;
    });
}

#[test]
fn a_volume_of_an_excluded_type_stays_out() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let volume = bound_claim(&scene, "data").await;
        let spec = BackupSpec {
            excluded_cluster_scoped_resources: vec!["persistentvolumes".to_owned()],
            ..scene.own_namespace()
        };
        let taken = scene.back_up(spec).await;
        assert_eq!(taken.names("persistentvolumeclaims", &scene.namespace), ["data"]);
        assert!(!taken.has(&format!("resources/persistentvolumes/cluster/{volume}.json")));
        remove_volume(&scene, "data", &volume).await;
    });
}

#[test]
fn a_claim_that_is_gone_is_a_warning_not_an_error() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.wait(&service_accounts(), "default", |_| true).await;
        scene.create(&pods(), pod("web", "vanished")).await;
        let taken = scene.back_up(scene.own_namespace()).await;
        assert_eq!(taken.names("pods", &scene.namespace), ["web"]);
        assert_eq!(taken.journal.counts().errors, 0);
        let warnings = taken.journal.results().warnings;
        assert!(warnings.namespaces[&scene.namespace].iter().any(|text| text.contains("vanished")), "{warnings:?}");
    });
}

#[test]
fn a_service_account_brings_its_cluster_wide_rights() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let kind = |kind, plural| ResourceType::new("rbac.authorization.k8s.io/v1", kind, plural, false);
        let (roles, bindings) =
            (kind("ClusterRole", "clusterroles"), kind("ClusterRoleBinding", "clusterrolebindings"));
        let name = scene.namespace.as_str();
        scene.create(&service_accounts(), json!({"metadata": {"name": "robot"}})).await;
        scene.cluster.create(&roles, None, &json!({"metadata": {"name": name}, "rules": []})).await.unwrap();
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": name, "name": "robot"}],
        });
        scene.cluster.create(&bindings, None, &binding).await.unwrap();
        let taken = scene.back_up(scene.own_namespace()).await;
        assert!(taken.has(&format!("resources/clusterrolebindings.rbac.authorization.k8s.io/cluster/{name}.json")));
        assert!(taken.has(&format!("resources/clusterroles.rbac.authorization.k8s.io/cluster/{name}.json")));
        scene.cluster.delete(&bindings, None, name, &Default::default()).await.unwrap();
        scene.cluster.delete(&roles, None, name, &Default::default()).await.unwrap();
    });
}

#[test]
fn a_custom_resource_brings_its_definition_and_may_be_large() {
    cluster_test(|test| async move {
        let mut scene = Scene::new(&test).await;
        let group = format!("{}.example.com", scene.namespace);
        let definitions = ResourceType::new(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            false,
        );
        let name = format!("widgets.{group}");
        let definition = json!({"metadata": {"name": name}, "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        }});
        scene.cluster.create(&definitions, None, &definition).await.unwrap();
        let established = |crd: Option<&Value>| {
            let conditions = crd.and_then(|crd| crd["status"]["conditions"].as_array());
            conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
        };
        let limit = std::time::Duration::from_secs(30);
        scene.cluster.wait_until(&definitions, None, &name, limit, established).await.unwrap();
        let widgets = ResourceType::new(&format!("{group}/v1"), "Widget", "widgets", true);
        let large = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "large"}, "blob": "x".repeat(1_400_000)});
        while scene.cluster.create(&widgets, Some(&scene.namespace), &large).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        loop {
            scene.discovery = Arc::new(scene.cluster.discover().await.unwrap());
            if scene.discovery.resolve(&name).is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        let taken = scene.back_up(scene.own_namespace()).await;
        let path = format!("resources/widgets.{group}/namespaces/{}/large.json", scene.namespace);
        assert_eq!(taken.body(&path)["blob"].as_str().unwrap().len(), 1_400_000);
        assert!(taken.has(&format!("resources/customresourcedefinitions.apiextensions.k8s.io/cluster/{name}.json")));
        scene.cluster.delete(&definitions, None, &name, &Default::default()).await.unwrap();
    });
}

/// Treats ConfigMaps by their name.
struct ByName;

#[async_trait]
impl BackupItemAction for ByName {
    fn name(&self) -> &str {
        "example.com/by-name"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["configmap"]))
    }

    async fn execute(&self, item: &Value, _: &Backup) -> Result<BackupItemOutcome> {
        let mut updated = item.clone();
        let namespace = item["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        match item["metadata"]["name"].as_str() {
            Some("broken") => return Err(Error::Item("this one cannot be read".to_owned())),
            Some("skipped") => updated["metadata"]["annotations"] = json!({"velero.io/skip-from-backup": "true"}),
            Some("changed") => {
                updated["data"] = json!({"k": "changed"});
                updated["metadata"]["annotations"] = json!({"backup.velero.io/must-include-additional-items": "true"});
                let secret = ResourceIdentifier {
                    resource: "secrets".to_owned(),
                    namespace,
                    name: "needed".to_owned(),
                    ..Default::default()
                };
                let outcome = BackupItemOutcome {
                    updated_item: Some(updated),
                    additional_items: vec![secret],
                    operation_id: Some("op-1".to_owned()),
                    ..BackupItemOutcome::default()
                };
                return Ok(outcome);
            }
            _ => return Ok(BackupItemOutcome::default()),
        }
        Ok(BackupItemOutcome { updated_item: Some(updated), ..BackupItemOutcome::default() })
    }
}

#[test]
fn actions_change_skip_and_fail_items_and_bring_others() {
    cluster_test(|test| async move {
        let mut scene = Scene::new(&test).await;
        scene.extra_actions =
            Actions::from_source(ActionSource { backup_item: vec![Arc::new(ByName)], ..ActionSource::default() })
                .unwrap();
        for name in ["broken", "skipped", "changed", "plain"] {
            scene.config_map(name, json!({})).await;
        }
        let secrets = ResourceType::new("v1", "Secret", "secrets", true);
        scene.create(&secrets, json!({"metadata": {"name": "needed"}})).await;
        scene.create(&secrets, json!({"metadata": {"name": "not-needed"}})).await;
        let spec = BackupSpec { included_resources: vec!["configmaps".to_owned()], ..scene.own_namespace() };
        let taken = scene.back_up(spec).await;
        let names = taken.names("configmaps", &scene.namespace);
        assert!(names.contains(&"changed") && names.contains(&"plain"), "{names:?}");
        assert!(!names.contains(&"broken") && !names.contains(&"skipped"), "{names:?}");
        assert_eq!(taken.names("secrets", &scene.namespace), ["needed"]);
        let changed = taken.body(&format!("resources/configmaps/namespaces/{}/changed.json", scene.namespace));
        assert_eq!(changed["data"], json!({"k": "changed"}));
        assert_eq!(changed["metadata"]["annotations"], json!({}));
        assert_eq!(taken.outcome.failed_items.len(), 1);
        assert_eq!(taken.outcome.failed_items[0].name, "broken");
        assert_eq!(taken.outcome.skipped_items[0].name, "skipped");
        assert_eq!(taken.outcome.operations[0].spec.operation_id, "op-1");
        assert_eq!(taken.journal.counts().errors, 1);
        let listed: usize = taken.outcome.resource_list.values().map(Vec::len).sum();
        assert_eq!(taken.outcome.progress.items_backed_up, listed as i64);
    });
}

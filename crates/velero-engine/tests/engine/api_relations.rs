//! What comes into a backup because something else needs it, against a real API server.

use std::sync::Arc;

use crate::support::{Scene, claims, pods, service_accounts, volumes};
use async_trait::async_trait;
use serde_json::{Value, json};
use velero_api::records::ResourceIdentifier;
use velero_api::v1::{Backup, BackupSpec};
use velero_cluster::{ResourceType, types};
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
    bound_claim_of(scene, name, ("hostPath", json!({"path": "/nowhere"}))).await
}

/// The same with a volume of a type of its own.
async fn bound_claim_of(scene: &Scene, name: &str, (kind, source): (&str, Value)) -> String {
    let volume_name = format!("{}-{name}", scene.namespace);
    let volume = json!({"metadata": {"name": volume_name}, "spec": {
        "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "by-hand",
        kind: source, "claimRef": {"namespace": scene.namespace, "name": name},
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
    scene.cluster.delete(claims().item(Some(&scene.namespace), claim), &Default::default()).await.unwrap();
    scene.cluster.delete(volumes().item(None, volume), &Default::default()).await.unwrap();
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
        scene.cluster.delete(bindings.item(None, name), &Default::default()).await.unwrap();
        scene.cluster.delete(roles.item(None, name), &Default::default()).await.unwrap();
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
        scene.cluster.wait_until(definitions.item(None, &name), limit, established).await.unwrap();
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
        scene.cluster.delete(definitions.item(None, &name), &Default::default()).await.unwrap();
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
            Some(name) if name.starts_with("becomes-") => {
                updated["metadata"]["name"] = json!(name.trim_start_matches("becomes-"));
            }
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
        scene.create(&types::SECRETS, json!({"metadata": {"name": "needed"}})).await;
        scene.create(&types::SECRETS, json!({"metadata": {"name": "not-needed"}})).await;
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
        let listed: usize = taken.outcome.resource_list.to_map().values().map(Vec::len).sum();
        assert_eq!(taken.outcome.progress.items_backed_up, listed as i64);
    });
}

#[test]
fn an_item_that_an_action_renames_onto_another_is_an_error_and_the_archive_has_each_path_once() {
    cluster_test(|test| async move {
        let mut scene = Scene::new(&test).await;
        scene.extra_actions =
            Actions::from_source(ActionSource { backup_item: vec![Arc::new(ByName)], ..ActionSource::default() })
                .unwrap();
        for name in ["taken", "becomes-taken", "becomes-free"] {
            scene.config_map(name, json!({})).await;
        }
        let spec = BackupSpec { included_resources: vec!["configmaps".to_owned()], ..scene.own_namespace() };
        // Reading it back refuses a path that occurs twice.
        let taken = scene.back_up(spec).await;
        let mut names = taken.names("configmaps", &scene.namespace);
        names.sort_unstable();
        let mut expected = vec!["free", "taken"];
        if names.contains(&"kube-root-ca.crt") {
            expected.insert(1, "kube-root-ca.crt");
        }
        assert_eq!(names, expected);
        let listed: Vec<String> = names.iter().map(|name| format!("{}/{name}", scene.namespace)).collect();
        assert_eq!(taken.outcome.resource_list.to_map()["v1/ConfigMap"], listed, "the list names what is there");
        assert_eq!((taken.outcome.failed_items.len(), taken.journal.counts().errors), (1, 1));
        let errors = taken.journal.results().errors.namespaces[&scene.namespace].clone();
        assert!(errors[0].contains("renamed") && errors[0].contains("taken"), "{errors:?}");
        let listed: usize = taken.outcome.resource_list.to_map().values().map(Vec::len).sum();
        assert_eq!(taken.outcome.progress.items_backed_up, listed as i64);
    });
}

/// Makes a pod, running as far as the API server knows.
async fn running_pod(scene: &Scene, name: &str, annotations: Value, volumes: Value) {
    let mounts: Vec<Value> = volumes
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| json!({"name": volume["name"], "mountPath": format!("/{}", volume["name"].as_str().unwrap())}))
        .collect();
    let pod = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "automountServiceAccountToken": false,
            "nodeSelector": {"example.com/never": "true"},
            "containers": [{"name": "main", "image": "none", "volumeMounts": mounts}],
            "volumes": volumes,
        },
    });
    let mut pod = scene.create(&pods(), pod).await;
    pod["status"] = json!({"phase": "Running"});
    // The scheduler writes too.
    pod["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    scene.cluster.update_status(&pods(), Some(&scene.namespace), &pod).await.unwrap();
}

const ASK: &str = "backup.velero.io/backup-volumes";

/// Only what volumes are about: types of other tests come and go meanwhile.
fn of_volumes(scene: &Scene) -> BackupSpec {
    let included_resources = ["pods", "persistentvolumeclaims", "persistentvolumes"].map(str::to_owned).into();
    BackupSpec { included_resources, ..scene.own_namespace() }
}

#[test]
fn without_node_agents_data_that_pods_ask_for_is_an_error_of_each_volume_also_without_a_persistent_one() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.wait(&service_accounts(), "default", |_| true).await;
        let volume = bound_claim_of(&scene, "shared", ("nfs", json!({"server": "nowhere", "path": "/"}))).await;
        let (cache, shared) = (
            json!({"name": "cache", "emptyDir": {}}),
            json!({"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}),
        );
        let config = json!({"name": "config", "configMap": {"name": "c", "optional": true}});
        running_pod(&scene, "web", json!({ASK: "cache,shared,typo"}), json!([cache, shared, config])).await;
        running_pod(&scene, "web-2", json!({ASK: "shared"}), json!([shared, config])).await;
        let pending = json!({"metadata": {"name": "waits", "annotations": {ASK: "cache"}}, "spec": {
            "automountServiceAccountToken": false, "nodeSelector": {"example.com/never": "true"},
            "containers": [{"name": "main", "image": "none"}], "volumes": [cache],
        }});
        scene.create(&pods(), pending).await;
        let spec = BackupSpec { include_cluster_resources: Some(false), ..of_volumes(&scene) };
        let taken = scene.back_up(spec).await;
        assert!(!taken.has(&format!("resources/persistentvolumes/cluster/{volume}.json")));
        let results = taken.journal.results();
        let errors = results.errors.namespaces[&scene.namespace].clone();
        assert_eq!((errors.len(), results.errors.len()), (4, 4), "{errors:?}");
        for (volume, pod, remedy) in [
            ("cache", "waits", "the pod is Pending"),
            ("cache", "web", "take the volume out of that annotation"),
            ("shared", "web", "install them with velero install --use-node-agent"),
        ] {
            let said = format!("volume {volume} of pod {}/{pod} is not backed up", scene.namespace);
            let error = errors.iter().find(|error| error.contains(&said));
            assert!(error.is_some_and(|error| error.contains(remedy)), "{said}, {remedy}: {errors:?}");
        }
        assert!(errors.iter().any(|error| error.contains("names volume typo")), "{errors:?}");
        remove_volume(&scene, "shared", &volume).await;
    });
}

#[test]
fn a_persistent_volume_that_pods_should_copy_is_one_error_whether_a_pod_runs_or_not() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.wait(&service_accounts(), "default", |_| true).await;
        let source = || ("nfs", json!({"server": "nowhere", "path": "/"}));
        let (used, idle) =
            (bound_claim_of(&scene, "used", source()).await, bound_claim_of(&scene, "idle", source()).await);
        let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "used"}});
        running_pod(&scene, "web", json!({}), json!([claim])).await;
        scene.create(&pods(), pod("waits", "idle")).await;
        let spec = BackupSpec { default_volumes_to_fs_backup: Some(true), ..of_volumes(&scene) };
        let taken = scene.back_up(spec).await;
        let errors = taken.journal.results().errors;
        assert_eq!(errors.len(), 2, "{errors:?}");
        let of_pods = &errors.namespaces[&scene.namespace];
        assert!(of_pods.iter().any(|error| error.contains("volume data of pod")), "{errors:?}");
        let waits = format!("of pod {}/waits is not backed up: the pod is Pending", scene.namespace);
        assert!(of_pods.iter().any(|error| error.contains(&waits)), "{errors:?}");
        let skipped = taken
            .outcome
            .saved
            .infos
            .iter()
            .filter(|info| info.skipped && info.skipped_reason.starts_with("podvolume:"));
        assert_eq!(skipped.count(), 2, "{:?}", taken.outcome.saved.infos);
        remove_volume(&scene, "used", &used).await;
        remove_volume(&scene, "idle", &idle).await;
    });
}

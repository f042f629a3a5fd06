//! What the built-in restore actions look up in a cluster, against a real API server.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use velero_api::FeatureFlags;
use velero_api::v1::{Restore, RestoreSpec};
use velero_cluster::{Cluster, Discovery, ResourceType, types};
use velero_plugin::{Actions, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};
use velero_testkit::{TestCluster, cluster_test};

/// A cluster, with the namespace of the test as Velero's own.
struct Scene {
    cluster: Cluster,
    discovery: Discovery,
    namespace: String,
    actions: Actions,
}

impl Scene {
    async fn new(test: &TestCluster) -> Self {
        let cluster = Cluster::from_client(test.client.clone());
        let discovery = cluster.discover().await.unwrap();
        let features = FeatureFlags::default();
        let actions = velero_plugin_core::builtin(&cluster, &discovery, &features, &test.namespace).unwrap();
        Self { cluster, discovery, namespace: test.namespace.clone(), actions }
    }

    fn action(&self, name: &str) -> &Arc<dyn RestoreItemAction> {
        self.actions.restore_item().iter().find(|action| action.name() == name).unwrap()
    }

    async fn try_restore(&self, action: &str, item: &Value) -> Result<RestoreItemOutcome> {
        let restore = Restore::new(&self.namespace, "r1", RestoreSpec::default());
        let input = RestoreItemInput { item, item_from_backup: item, restore: &restore };
        self.action(action).execute(input).await
    }

    /// The item after an action.
    async fn restored(&self, action: &str, item: Value) -> Value {
        self.try_restore(action, &item).await.unwrap().updated_item.unwrap_or(item)
    }

    async fn create(&self, resource_type: &ResourceType, object: Value) -> Value {
        self.cluster.create(resource_type, Some(&self.namespace), &object).await.unwrap()
    }

    async fn delete(&self, resource_type: &ResourceType, name: &str) {
        self.cluster.delete(resource_type.item(Some(&self.namespace), name), &Default::default()).await.unwrap();
    }

    async fn plugin_config(&self, name: &str, action: &str, data: Value) {
        let labels = json!({"velero.io/plugin-config": "", action: "RestoreItemAction"});
        self.create(&config_maps(), json!({"metadata": {"name": name, "labels": labels}, "data": data})).await;
    }
}

fn config_maps() -> ResourceType {
    types::CONFIG_MAPS.clone()
}

fn storage_classes() -> ResourceType {
    types::STORAGE_CLASSES.clone()
}

fn services() -> ResourceType {
    ResourceType::new("v1", "Service", "services", true)
}

fn claim(class: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "data"}, "spec": {"storageClassName": class}})
}

fn pod(image: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

const CHANGE_CLASS: &str = "velero.io/change-storage-class";
const CHANGE_IMAGE: &str = "velero.io/change-image-name";

#[test]
fn every_action_selects_types_that_the_cluster_serves() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        for action in scene.actions.restore_item() {
            let selector = action.applies_to().await.unwrap();
            assert!(!selector.included_resources.is_empty(), "{}", action.name());
            for name in &selector.included_resources {
                let found = scene.discovery.resolve(name).map(ResourceType::group_resource);
                assert_eq!(found.as_ref(), Some(name), "{}", action.name());
            }
        }
    });
}

#[test]
fn the_actions_have_the_names_by_which_users_configure_and_find_them() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let names: Vec<_> = scene.actions.restore_item().iter().map(|action| action.name()).collect();
        let expected = [
            "add-pvc-from-pod",
            "admission-webhook-configuration",
            "apiservice",
            "change-image-name",
            "change-storage-class",
            "cluster-role-bindings",
            "crd-preserve-fields",
            "init-restore-hook",
            "job",
            "pod",
            "pod-volume-restore",
            "pvc",
            "role-bindings",
            "secret",
            "service",
            "service-account",
        ];
        assert_eq!(names, expected.map(|name| format!("velero.io/{name}")));
    });
}

#[test]
fn api_services_that_the_cluster_made_stay_out_and_others_do_not() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let action = scene.action("velero.io/apiservice");
        let selector = action.applies_to().await.unwrap();
        let resolved = velero_plugin::resolve(action.name(), action, &selector, &scene.discovery).unwrap();
        let api_services = ResourceType::new("apiregistration.k8s.io/v1", "APIService", "apiservices", false);
        let item = scene.cluster.get(api_services.item(None, "v1.apps")).await.unwrap().unwrap();
        let labels: BTreeMap<String, String> = serde_json::from_value(item["metadata"]["labels"].clone()).unwrap();
        assert!(resolved.applies_to_type("apiservices.apiregistration.k8s.io"));
        assert!(resolved.applies_to_item(None, || labels));
        assert!(!resolved.applies_to_item(None, BTreeMap::new));
        assert!(scene.try_restore(action.name(), &item).await.unwrap().skip_restore);
    });
}

#[test]
fn a_storage_class_changes_as_the_config_says_which_is_read_once() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let class = scene.namespace.as_str();
        scene.create(&storage_classes(), json!({"metadata": {"name": class}, "provisioner": "example.com/none"})).await;
        scene.plugin_config("classes", CHANGE_CLASS, json!({"old": class, "bad": "missing-class"})).await;
        assert_eq!(scene.restored(CHANGE_CLASS, claim("old")).await["spec"]["storageClassName"], class);
        assert_eq!(scene.restored(CHANGE_CLASS, claim("other")).await["spec"]["storageClassName"], "other");
        let error = scene.try_restore(CHANGE_CLASS, &claim("bad")).await.unwrap_err().to_string();
        assert!(error.contains("missing-class") && error.contains("shop/data"), "{error}");
        scene.delete(&config_maps(), "classes").await;
        scene.delete(&storage_classes(), class).await;
        assert_eq!(scene.restored(CHANGE_CLASS, claim("old")).await["spec"]["storageClassName"], class);
    });
}

#[test]
fn without_a_config_nothing_changes() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        // Another action's config, and one that is not marked as a config.
        scene.plugin_config("other", "velero.io/other", json!({"old": "new", "row": "old,new"})).await;
        for action in [CHANGE_CLASS, CHANGE_IMAGE] {
            let name = action.rsplit('/').next().unwrap();
            let labels = json!({action: "RestoreItemAction"});
            let unmarked =
                json!({"metadata": {"name": name, "labels": labels}, "data": {"old": "new", "row": "old,new"}});
            scene.create(&config_maps(), unmarked).await;
        }
        assert_eq!(scene.restored(CHANGE_CLASS, claim("old")).await, claim("old"));
        assert_eq!(scene.restored(CHANGE_IMAGE, pod("old/web")).await, pod("old/web"));
    });
}

#[test]
fn an_image_name_changes_by_the_first_row_of_the_config() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let rows = json!({"b": "old,second", "a": "old/,first/", "c": "web,third"});
        scene.plugin_config("images", CHANGE_IMAGE, rows).await;
        assert_eq!(scene.restored(CHANGE_IMAGE, pod("old/web:1")).await, pod("first/web:1"));
        assert_eq!(scene.restored(CHANGE_IMAGE, pod("other")).await, pod("other"));
    });
}

#[test]
fn two_configs_for_one_action_are_an_error_that_names_both() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        for name in ["one", "two"] {
            scene.plugin_config(name, CHANGE_IMAGE, json!({"row": "old,new"})).await;
        }
        let error = scene.try_restore(CHANGE_IMAGE, &pod("old/web")).await.unwrap_err().to_string();
        assert!(error.contains("one, two") && error.contains(CHANGE_IMAGE), "{error}");
    });
}

#[test]
fn tokens_of_service_accounts_that_exist_stay_out() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.create(&types::SERVICE_ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
        let secret = |kind: &str, namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}, "type": kind, "data": {"token": "eA==", "k": "eA=="}});
        let token = "kubernetes.io/service-account-token";
        let own = scene.namespace.as_str();
        for (secret, skipped, emptied) in [
            (secret(token, own, "robot-token-x1"), true, false),
            (secret(token, own, "robots-secret"), false, true),
            (secret(token, "not-there", "robot-token-x1"), false, true),
            (secret("Opaque", own, "robot-token-x1"), false, false),
        ] {
            let outcome = scene.try_restore("velero.io/secret", &secret).await.unwrap();
            assert_eq!(outcome.skip_restore, skipped, "{secret}");
            let data = outcome.updated_item.map(|mut item| item["data"].take());
            assert_eq!(data, emptied.then(|| json!({"k": "eA=="})), "{secret}");
        }
        // The accounts of a namespace are listed once.
        scene.create(&types::SERVICE_ACCOUNTS, json!({"metadata": {"name": "late"}})).await;
        let outcome = scene.try_restore("velero.io/secret", &secret(token, own, "late-token-x1")).await.unwrap();
        assert!(!outcome.skip_restore);
    });
}

#[test]
fn a_node_port_that_the_server_chose_goes_and_one_that_was_asked_for_stays() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let service = |node_port: Option<&Value>| {
            let ports = json!([{"name": "http", "port": 80, "nodePort": node_port}, {"name": "admin", "port": 90}]);
            json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": ports}})
        };
        let chosen = scene.create(&services(), service(None)).await;
        let node_port = &chosen["spec"]["ports"][0]["nodePort"];
        assert!(node_port.is_number(), "{chosen}");
        let spec = scene.restored("velero.io/service", chosen.clone()).await["spec"].take();
        assert_eq!(spec.get("clusterIP"), None);
        assert_eq!(spec["ports"][0].get("nodePort"), None);
        scene.delete(&services(), "web").await;
        let asked = scene.create(&services(), service(Some(node_port))).await;
        let spec = scene.restored("velero.io/service", asked).await["spec"].take();
        assert_eq!(&spec["ports"][0]["nodePort"], node_port);
        assert_eq!(spec["ports"][1].get("nodePort"), None);
    });
}

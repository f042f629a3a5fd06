//! A restore whose API server fails for a moment, or whose answers get lost on the way.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::support::lossy_api::{self, Fault, LossyApi, Plan};
use crate::support::restore::{Restored, archive, request, try_restore};
use crate::support::{Scene, config_maps};
use serde_json::{Value, json};
use velero_api::v1::{RestoreSpec, RestoreStatusSpec};
use velero_cluster::ResourceType;
use velero_plugin::Actions;
use velero_testkit::cluster_test;

fn plural(kind: &str) -> &'static str {
    match kind {
        "Namespace" => "namespaces",
        "ConfigMap" => "configmaps",
        "Ingress" => "ingresses.networking.k8s.io",
        other => panic!("no plural for {other}"),
    }
}

/// A ConfigMap with two owners and an Ingress with a status: all that follows a creation.
fn items() -> Vec<Value> {
    let owner = |manager: &str, operation: &str| {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}}})
    };
    let owners = json!([owner("kubectl-create", "Update"), owner("argo", "Apply")]);
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"a": "b"}}});
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "shop", "managedFields": owners}, "data": {"k": "v"}});
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"defaultBackend": backend}, "status": status()});
    vec![namespace, config_map, ingress]
}

/// Nobody in the box writes the status of an Ingress.
fn status() -> Value {
    json!({"loadBalancer": {"ingress": [{"ip": "10.1.2.3"}]}})
}

async fn restore(api: &LossyApi, target: &str) -> Restored {
    let spec = RestoreSpec {
        namespace_mapping: BTreeMap::from([("shop".to_owned(), target.to_owned())]),
        restore_status: Some(RestoreStatusSpec {
            included_resources: vec!["ingresses".to_owned()],
            ..RestoreStatusSpec::default()
        }),
        ..RestoreSpec::default()
    };
    let request = request(&api.cluster, spec, Actions::default()).await;
    try_restore(request, archive(&items(), plural)).await.unwrap()
}

/// Everything is there, said to be created, and complete.
async fn assert_whole(scene: &Scene, restored: &Restored, target: &str, case: &str) {
    let results = restored.journal.results();
    assert_eq!(restored.journal.counts(), Default::default(), "{case}: {results:?}");
    assert_eq!(restored.list("v1/Namespace"), [format!("{target}(created)")], "{case}");
    assert_eq!(restored.list("v1/ConfigMap"), [format!("{target}/settings(created)")], "{case}");
    assert_eq!(restored.list("networking.k8s.io/v1/Ingress"), [format!("{target}/web(created)")], "{case}");
    assert_eq!(restored.seen.last(), Some(&(3, 3)), "{case}");
    let settings = scene.cluster.get(config_maps().item(Some(target), "settings")).await.unwrap().unwrap();
    let owners = settings["metadata"]["managedFields"].as_array().unwrap();
    let mut managers: Vec<_> = owners.iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
    managers.sort_unstable();
    assert_eq!(managers, ["argo", "kubectl-create"], "{case}: {settings}");
    let ingresses = ResourceType::new("networking.k8s.io/v1", "Ingress", "ingresses", true);
    let web = scene.cluster.get(ingresses.item(Some(target), "web")).await.unwrap().unwrap();
    assert_eq!(web["status"], status(), "{case}: {web}");
}

#[test]
fn a_namespace_that_could_not_be_made_at_first_loses_none_of_its_items() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        for fault in [Fault::Refuse(500), Fault::Refuse(504), Fault::LoseAnswer] {
            let target = velero_testkit::harness::unique_name("lost");
            let path_ends = "/api/v1/namespaces".to_owned();
            let plan = Plan { fault, path_ends, first: 0, count: 2 };
            let api = lossy_api::start(test.client.clone(), plan).await;
            let restored = restore(&api, &target).await;
            assert!(api.writes.load(Ordering::SeqCst) > 1, "the fault was met");
            assert_whole(&scene, &restored, &target, &format!("{fault:?}")).await;
        }
    });
}

#[test]
fn whichever_answer_of_a_restore_is_lost_everything_is_restored_once() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        for fault in [Fault::LoseAnswer, Fault::Refuse(500)] {
            for first in 0.. {
                let target = velero_testkit::harness::unique_name("lost");
                let plan = Plan { fault, path_ends: String::new(), first, count: 1 };
                let api = lossy_api::start(test.client.clone(), plan).await;
                let restored = restore(&api, &target).await;
                assert_whole(&scene, &restored, &target, &format!("write {first}, {fault:?}")).await;
                if api.writes.load(Ordering::SeqCst) <= first {
                    assert!(first > 4, "a namespace, two objects, owners and a status are written");
                    break;
                }
            }
        }
    });
}

#[test]
fn an_object_of_somebody_else_is_not_taken_for_ours_after_a_lost_answer() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let theirs = json!({"metadata": {"name": "settings"}, "data": {"k": "theirs"}});
        scene.create(&config_maps(), theirs).await;
        let path_ends = "/configmaps".to_owned();
        let plan = Plan { fault: Fault::Refuse(502), path_ends, first: 0, count: 1 };
        let api = lossy_api::start(test.client.clone(), plan).await;
        let restored = restore(&api, &scene.namespace).await;
        assert_eq!(restored.list("v1/ConfigMap"), [format!("{}/settings(skipped)", scene.namespace)]);
        assert_eq!(restored.journal.counts().warnings, 1, "{:?}", restored.journal.results());
        let live = scene.cluster.get(config_maps().item(Some(&scene.namespace), "settings")).await.unwrap().unwrap();
        assert_eq!(live["data"], json!({"k": "theirs"}));
    });
}

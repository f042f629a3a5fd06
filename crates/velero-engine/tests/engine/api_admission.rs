//! Webhooks that guard what is restored: those of the backup come last, and what an unreachable one refuses is tried
//! again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::restore::{archive, preview, request, try_restore};
use crate::support::{Scene, config_maps};
use serde_json::{Value, json};
use velero_api::v1::RestoreSpec;
use velero_cluster::ResourceType;
use velero_engine::restore::PreviewAction;
use velero_plugin::Actions;
use velero_testkit::{BoxKind, TestBox, TestCluster, harness};

const BOX: &str = "admission";

fn plural(kind: &str) -> &'static str {
    match kind {
        "ConfigMap" => "configmaps",
        "NetworkPolicy" => "networkpolicies.networking.k8s.io",
        "MutatingWebhookConfiguration" => "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        other => panic!("no plural for {other}"),
    }
}

fn webhooks() -> ResourceType {
    let version = "admissionregistration.k8s.io/v1";
    ResourceType::new(version, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false)
}

fn network_policies() -> ResourceType {
    ResourceType::new("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true)
}

/// A webhook that guards a type in one namespace, and whose service is nowhere.
fn webhook(name: &str, guards: &str, namespace: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": name},
    "webhooks": [{
        "name": "guard.example.com", "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 2,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "nobody", "namespace": namespace}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
            "resources": [guards]}],
    }]})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}})
}

fn network_policy() -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "closed", "namespace": "shop"}, "spec": {"podSelector": {}}})
}

fn into(target: &str) -> RestoreSpec {
    let namespace_mapping = BTreeMap::from([("shop".to_owned(), target.to_owned())]);
    RestoreSpec { namespace_mapping, include_cluster_resources: Some(true), ..RestoreSpec::default() }
}

/// Waits until the API server asks the webhook, which it learns of a moment later.
async fn until_guarded(scene: &Scene, kind: &ResourceType, object: &Value) {
    let mut probe = object.clone();
    probe["metadata"] = json!({"name": "probe", "namespace": scene.namespace});
    for _ in 0..300 {
        if scene.cluster.try_create(kind, Some(&scene.namespace), &probe).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody guards {}", scene.namespace);
}

async fn webhooks_of_the_backup_refuse_nothing_of_it(test: &TestCluster) {
    let scene = Scene::new(test).await;
    let guard = format!("{}-guard", scene.namespace);
    let items = [webhook(&guard, "networkpolicies", &scene.namespace), network_policy(), config_map("c")];
    let plan =
        preview(request(&scene.cluster, into(&scene.namespace), Actions::default()).await, archive(&items, plural));
    let plan = plan.await.items;
    let last = plan.last().unwrap();
    assert_eq!((last.kind.as_str(), last.action), ("MutatingWebhookConfiguration", PreviewAction::Create), "{plan:?}");
    assert!(last.reason.contains("last of all"), "{last:?}");

    let request = request(&scene.cluster, into(&scene.namespace), Actions::default()).await;
    let restored = try_restore(request, archive(&items, plural)).await.unwrap();
    assert_eq!(restored.journal.counts(), Default::default(), "{:?}", restored.journal.results());
    assert_eq!(restored.list("networking.k8s.io/v1/NetworkPolicy"), [format!("{}/closed(created)", scene.namespace)]);
    until_guarded(&scene, &network_policies(), &network_policy()).await;
    scene.cluster.delete(webhooks().item(None, &guard), &Default::default()).await.unwrap();
}

/// A webhook is there before the restore and out of reach, until what it needs has been restored.
async fn what_an_unreachable_webhook_refuses_is_tried_again(test: &TestCluster) {
    let scene = Scene::new(test).await;
    let guard = format!("{}-guard", scene.namespace);
    let object = webhook(&guard, "configmaps", &scene.namespace);
    scene.cluster.create(&webhooks(), None, &object).await.unwrap();
    until_guarded(&scene, &config_maps(), &config_map("probe")).await;
    let items = [config_map("a"), config_map("b"), network_policy()];

    let plan =
        preview(request(&scene.cluster, into(&scene.namespace), Actions::default()).await, archive(&items, plural));
    for item in plan.await.items.iter().filter(|item| item.kind == "ConfigMap") {
        assert_eq!(item.action, PreviewAction::Create, "{item:?}");
        assert!(
            item.reason.contains("tried again at the end") && item.reason.contains("guard.example.com"),
            "{item:?}"
        );
    }

    let mut hopeless = request(&scene.cluster, into(&scene.namespace), Actions::default()).await;
    hopeless.resource_timeout = Duration::from_secs(1);
    let restored = try_restore(hopeless, archive(&items[..1], plural)).await.unwrap();
    let errors = restored.journal.results().errors;
    assert_eq!(errors.len(), 1, "{errors:?}");
    let error = &errors.namespaces[&scene.namespace][0];
    assert!(error.contains("failed calling webhook") && error.contains("it was tried again for 1s"), "{error}");
    assert_eq!(restored.list("v1/ConfigMap"), [format!("{}/a(failed)", scene.namespace)]);
    assert_eq!(restored.seen.last(), Some(&(2, 2)));

    let request = request(&scene.cluster, into(&scene.namespace), Actions::default()).await;
    let restoring = try_restore(request, archive(&items, plural));
    let freeing = async {
        let minute = Duration::from_secs(60);
        let policy = |live: Option<&Value>| live.is_some();
        scene
            .cluster
            .wait_until(network_policies().item(Some(&scene.namespace), "closed"), minute, policy)
            .await
            .unwrap();
        scene.cluster.delete(webhooks().item(None, &guard), &Default::default()).await.unwrap();
    };
    let (restored, ()) = tokio::join!(restoring, freeing);
    let restored = restored.unwrap();
    assert_eq!(restored.journal.counts(), Default::default(), "{:?}", restored.journal.results());
    let expected = ["a", "b"].map(|name| format!("{}/{name}(created)", scene.namespace));
    assert_eq!(restored.list("v1/ConfigMap"), expected);
    assert_eq!(restored.seen.last(), Some(&(4, 4)));
}

#[test]
fn webhooks_come_last_and_what_one_refused_out_of_reach_is_tried_again() {
    TestBox::down(BOX).unwrap();
    harness::run(BOX, BoxKind::ControlPlane, async |test| {
        webhooks_of_the_backup_refuse_nothing_of_it(&test).await;
    });
    harness::run(BOX, BoxKind::ControlPlane, async |test| {
        what_an_unreachable_webhook_refuses_is_tried_again(&test).await;
    });
    TestBox::down(BOX).unwrap();
}

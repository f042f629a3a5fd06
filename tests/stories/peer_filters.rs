//! The same cluster backed up by both servers gives the same items, whatever the filters.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, load};
use velero_tests::difference::differences;
use velero_tests::{backups, fixture};

/// Filters of a Backup, each with a name.
#[expect(clippy::too_many_lines, reason = "a table")]
fn filters() -> Vec<(&'static str, Value)> {
    let within = within_fixture;
    let front = json!({"matchLabels": {"tier": "front"}});
    vec![
        ("one-namespace", json!({"includedNamespaces": ["alpha"]})),
        ("two-namespaces", json!({"includedNamespaces": ["alpha", "beta"]})),
        ("namespace-wildcard", json!({"includedNamespaces": ["gamma-*"]})),
        ("namespace-question-mark", json!({"includedNamespaces": ["gamma-?"]})),
        ("namespace-class", json!({"includedNamespaces": ["gamma-[12]"], "excludedNamespaces": ["gamma-2"]})),
        (
            "namespace-wildcard-excluded",
            json!({"includedNamespaces": ["*"], "excludedNamespaces": ["gamma-*", "kube-*", "velero*", "test-*", "default"]}),
        ),
        ("namespace-that-is-empty", json!({"includedNamespaces": ["empty"]})),
        ("namespace-that-is-hidden", json!({"includedNamespaces": ["hidden", "alpha"]})),
        ("namespace-that-is-missing", json!({"includedNamespaces": ["alpha", "nowhere"]})),
        ("namespace-pattern-without-match", json!({"includedNamespaces": ["nowhere-*"]})),
        ("old-include-one-type", within(json!({"includedResources": ["configmaps"]}))),
        ("old-include-short-names", within(json!({"includedResources": ["cm", "deploy", "sa"]}))),
        (
            "old-include-with-group",
            within(json!({"includedResources": ["deployments.apps", "networkpolicies.networking.k8s.io"]})),
        ),
        ("old-include-pods", within(json!({"includedResources": ["pods"]}))),
        ("old-include-pods-and-claims", within(json!({"includedResources": ["pods", "persistentvolumeclaims"]}))),
        ("old-include-claims-with-volumes", within(json!({"includedResources": ["pvc", "pv"]}))),
        ("old-include-accounts", within(json!({"includedResources": ["serviceaccounts"]}))),
        (
            "old-include-accounts-with-cluster",
            within(json!({"includedResources": ["serviceaccounts"], "includeClusterResources": true})),
        ),
        ("old-include-custom", within(json!({"includedResources": ["widgets.example.com"]}))),
        (
            "old-include-custom-with-cluster",
            within(
                json!({"includedResources": ["widgets.example.com", "gadgets.example.com"], "includeClusterResources": true}),
            ),
        ),
        (
            "old-include-custom-without-definitions",
            within(json!({"includedResources": ["widgets"], "excludedResources": ["customresourcedefinitions"]})),
        ),
        ("old-include-unknown", within(json!({"includedResources": ["configmaps", "nothings.example.org"]}))),
        ("old-exclude-types", within(json!({"excludedResources": ["secrets", "events", "pods"]}))),
        ("old-exclude-volumes", within(json!({"excludedResources": ["persistentvolumes"]}))),
        (
            "old-cluster-resources-true",
            within(
                json!({"includeClusterResources": true, "excludedResources": ["apiservices", "customresourcedefinitions", "nodes", "leases", "componentstatuses"]}),
            ),
        ),
        ("old-cluster-resources-false", within(json!({"includeClusterResources": false}))),
        (
            "old-cluster-false-with-pods",
            json!({"includedNamespaces": ["alpha"], "includeClusterResources": false, "includedResources": ["pods", "persistentvolumeclaims", "persistentvolumes"]}),
        ),
        (
            "new-cluster-scoped",
            within(
                json!({"includedClusterScopedResources": ["clusterroles", "storageclasses"], "excludedNamespaceScopedResources": ["*"]}),
            ),
        ),
        ("new-cluster-scoped-and-all", within(json!({"includedClusterScopedResources": ["priorityclasses"]}))),
        (
            "new-exclude-cluster-scoped",
            within(json!({"excludedClusterScopedResources": ["persistentvolumes", "clusterrolebindings"]})),
        ),
        ("new-exclude-all-cluster-scoped", within(json!({"excludedClusterScopedResources": ["*"]}))),
        ("new-namespace-scoped", within(json!({"includedNamespaceScopedResources": ["configmaps", "secrets"]}))),
        ("new-namespace-scoped-pods", within(json!({"includedNamespaceScopedResources": ["pods"]}))),
        ("new-namespace-scoped-custom", within(json!({"includedNamespaceScopedResources": ["widgets.example.com"]}))),
        (
            "new-exclude-namespace-scoped",
            within(json!({"excludedNamespaceScopedResources": ["configmaps", "serviceaccounts"]})),
        ),
        (
            "new-both",
            within(
                json!({"includedNamespaceScopedResources": ["serviceaccounts"], "includedClusterScopedResources": ["clusterroles", "gadgets.example.com"]}),
            ),
        ),
        ("selector", within(json!({"labelSelector": front}))),
        (
            "selector-expressions",
            within(json!({"labelSelector": {"matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front", "back"]}, {"key": "app", "operator": "Exists"}]}})),
        ),
        (
            "selector-not-in",
            within(
                json!({"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}}),
            ),
        ),
        (
            "selector-does-not-exist",
            json!({"includedNamespaces": ["alpha"], "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}),
        ),
        (
            "selector-with-types",
            within(json!({"labelSelector": front, "includedResources": ["configmaps", "services"]})),
        ),
        ("selector-with-cluster", within(json!({"labelSelector": front, "includeClusterResources": true}))),
        ("selector-everywhere", json!({"labelSelector": front, "excludedNamespaces": ["velero", "velero-ours"]})),
        ("selector-of-namespaces", json!({"labelSelector": {"matchLabels": {"team": "red"}}})),
        ("or-selectors", within(json!({"orLabelSelectors": [front, {"matchLabels": {"tier": "back"}}]}))),
        ("or-selectors-overlapping", within(json!({"orLabelSelectors": [front, {"matchLabels": {"app": "shop"}}]}))),
        (
            "ordered",
            within(
                json!({"includedResources": ["configmaps"], "orderedResources": {"configmaps": "beta/front,alpha/back"}}),
            ),
        ),
        (
            "pods-exclude-claims",
            json!({"includedNamespaces": ["alpha"], "excludedNamespaceScopedResources": ["persistentvolumeclaims"]}),
        ),
    ]
}

/// The filters, with the fixture's namespaces included but for the one that asks not to be backed up.
fn within_fixture(mut filters: Value) -> Value {
    let namespaces: Vec<_> = fixture::NAMESPACES.iter().filter(|name| **name != "hidden").collect();
    filters["includedNamespaces"] = json!(namespaces);
    filters
}

/// The one filter that both servers have to refuse.
const REFUSED: &str = "namespace-that-is-hidden";

/// What changes between two backups of the same cluster, whoever takes them.
fn changes_by_itself(path: &str) -> bool {
    let own = ["/namespaces/velero/", "/namespaces/velero-ours/", "/namespaces/kube-system/", "/namespaces/default/"];
    let types = ["resources/events/", "resources/events.events.k8s.io/", "resources/leases.coordination.k8s.io/"];
    own.iter().any(|part| path.contains(part))
        || types.iter().any(|part| path.starts_with(part))
        || path.contains("/test-")
}

fn compare(name: &str, ours: &BTreeMap<String, Vec<u8>>, theirs: &BTreeMap<String, Vec<u8>>, wrong: &mut Vec<String>) {
    let paths = |files: &BTreeMap<String, Vec<u8>>| {
        files.keys().filter(|path| !changes_by_itself(path)).cloned().collect::<Vec<_>>()
    };
    let (our_paths, their_paths) = (paths(ours), paths(theirs));
    wrong.extend(
        our_paths.iter().filter(|path| !their_paths.contains(path)).map(|path| format!("{name}: only ours has {path}")),
    );
    wrong.extend(
        their_paths
            .iter()
            .filter(|path| !our_paths.contains(path))
            .map(|path| format!("{name}: only the peer has {path}")),
    );
    for path in our_paths.iter().filter(|path| path.ends_with(".json") && their_paths.contains(path)) {
        let read = |files: &BTreeMap<String, Vec<u8>>| serde_json::from_slice::<Value>(&files[path]).unwrap();
        let changed = differences(&read(ours), &read(theirs));
        let changed: Vec<_> = changed
            .into_iter()
            .filter(|line| !line.contains("/resourceVersion:") && !line.contains("/time:"))
            .collect();
        wrong.extend(changed.iter().map(|line| format!("{name}: {path} {line}")));
    }
}

#[test]
fn both_servers_choose_the_same_items_for_every_filter() {
    harness::run("filters", BoxKind::ControlPlane, async |cluster| {
        load::create_all(&cluster.client, fixture::objects().into_iter()).await.unwrap();
        let run = harness::unique_name("filters");
        let server = |edition, namespace: &str| {
            let prefix = format!("{run}/{namespace}");
            let options = ServerOptions { namespace: namespace.into(), prefix, ..ServerOptions::default() };
            VeleroServer::up(&cluster.test_box, edition, options).unwrap()
        };
        let ours = server(Edition::Ours, "velero-ours");
        let peer = server(Edition::Peer, "velero");
        let filters = filters();
        let mut wrong = Vec::new();
        for (name, spec) in &filters {
            // One after the other: the peer's queue has been seen to stand still with backups waiting in it.
            backups::create(&peer, name, spec).unwrap();
            backups::create(&ours, name, spec).unwrap();
            let phase =
                |server| backups::ended(server, name, Duration::from_secs(300)).unwrap()["status"]["phase"].clone();
            let (our_phase, their_phase) = (phase(&ours), phase(&peer));
            if our_phase != their_phase {
                wrong.push(format!("{name}: ours is {our_phase}, the peer's {their_phase}"));
            }
            assert_eq!(their_phase == "FailedValidation", *name == REFUSED, "{name} compares nothing");
            if *name == REFUSED {
                continue;
            }
            let files = |namespace: &str| {
                backups::archive(cluster.test_box.machine(), "velero", &format!("{run}/{namespace}"), name).unwrap()
            };
            compare(name, &files("velero-ours"), &files("velero"), &mut wrong);
        }
        assert!(wrong.is_empty(), "{} differences in {} filters:\n{}", wrong.len(), filters.len(), wrong.join("\n"));
    });
    TestBox::down("filters").unwrap();
}

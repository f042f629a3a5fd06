//! A restore writes types in the order of their priorities, and a definition is served before its objects come.

use std::time::Duration;

use serde_json::json;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, load};
use velero_tests::audit::{AuditLog, Request};
use velero_tests::{backups, fixture, restores, workloads};

const SOURCE: &str = "order-source";
const TARGET: &str = "order-target";
const BACKUP: &str = "all";

/// The types that come first, in this order; the others follow by name. Namespaces are made when they are needed.
const FIRST: &[&str] = &[
    "customresourcedefinitions.apiextensions.k8s.io",
    "storageclasses.storage.k8s.io",
    "persistentvolumes",
    "persistentvolumeclaims",
    "clusterroles.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "serviceaccounts",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "secrets",
    "configmaps",
    "limitranges",
    "priorityclasses.scheduling.k8s.io",
    "pods",
    "replicasets.apps",
    "endpoints",
    "services",
];

/// What our edition writes last of all, because it could refuse the others (docs/compatibility.md).
const LAST: &[&str] = &[
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];

fn rank(edition: Edition, resource: &str) -> (usize, &str) {
    let place = |list: &[&str]| list.iter().position(|known| *known == resource);
    let last = place(LAST).filter(|_| matches!(edition, Edition::Ours)).map(|place| FIRST.len() + 1 + place);
    (place(FIRST).or(last).unwrap_or(FIRST.len()), resource)
}

/// The creations of a restore, without the server's own objects and the namespaces.
fn creations(log: &AuditLog) -> Vec<Request> {
    let requests = log.requests_of("velero-server").unwrap();
    let restored = |request: &Request| {
        request.verb == "create"
            && request.part.is_empty()
            && request.namespace != "velero"
            && request.resource != "namespaces"
    };
    requests.into_iter().filter(restored).collect()
}

fn restore_everything(edition: Edition, prefix: &str) -> Vec<Request> {
    TestBox::down(TARGET).unwrap();
    let target = TestBox::up(TARGET, BoxKind::ControlPlane).unwrap();
    let flags = vec!["--backup-sync-period=2s".into()];
    let options = ServerOptions { prefix: prefix.into(), flags, ..ServerOptions::default() };
    let server = VeleroServer::up(&target, edition, options).unwrap();
    restores::wait_for_backup(&server, BACKUP).unwrap();
    let log = AuditLog::from_now(target.machine()).unwrap();
    let spec = json!({"backupName": BACKUP, "includeClusterResources": true});
    let name = format!("order-{edition:?}").to_lowercase();
    let ending = restores::run(&server, prefix, &name, &spec).unwrap();
    assert_eq!(ending.phase(), "Completed", "{:#?}", ending.messages);
    server.stop().unwrap();
    creations(&log)
}

/// Every type is answered before the first of the next comes in.
fn check_order(edition: Edition, creations: &[Request]) {
    let mut types: Vec<&str> = creations.iter().map(|request| request.resource.as_str()).collect();
    types.sort_by_key(|resource| rank(edition, resource));
    types.dedup();
    assert!(types.len() >= 25, "{edition:?} wrote only {types:?}");
    let of = |resource: &str| {
        creations.iter().filter(move |request| request.resource == resource).cloned().collect::<Vec<_>>()
    };
    for pair in types.windows(2) {
        let last = of(pair[0]).into_iter().max_by_key(|request| request.answered).unwrap();
        let first = of(pair[1]).into_iter().min_by_key(|request| request.received).unwrap();
        assert!(last.answered <= first.received, "{edition:?} wrote {first:#?}\nbefore it had an answer for {last:#?}");
    }
}

fn check_definitions(edition: Edition, creations: &[Request]) {
    let custom: Vec<&Request> = creations.iter().filter(|request| request.resource.ends_with("example.com")).collect();
    assert!(custom.len() >= 5, "{edition:?} restored only {} custom resources", custom.len());
    let refused: Vec<_> = custom.iter().filter(|request| request.code != 201).collect();
    assert!(refused.is_empty(), "{edition:?} came before the definition was served: {refused:#?}");
}

#[test]
fn types_are_written_in_the_order_of_their_priorities() {
    TestBox::down(SOURCE).unwrap();
    let prefix = harness::unique_name("order");
    let source_prefix = prefix.clone();
    harness::run(SOURCE, BoxKind::ControlPlane, async move |cluster| {
        load::create_all(&cluster.client, fixture::objects().into_iter()).await.unwrap();
        workloads::create(cluster.test_box.machine()).unwrap();
        for namespace in ["alpha", "beta"] {
            workloads::wait_for_claim(cluster.test_box.machine(), namespace, "data").unwrap();
        }
        let options = ServerOptions { prefix: source_prefix, ..ServerOptions::default() };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
        let spec = json!({
            "includedNamespaces": ["alpha", "beta", "gamma-1", "work", "side"],
            "includedClusterScopedResources": ["*"],
            "excludedClusterScopedResources": ["apiservices.apiregistration.k8s.io", "nodes"],
        });
        backups::create(&server, BACKUP, &spec).unwrap();
        let backup = backups::ended(&server, BACKUP, Duration::from_secs(120)).unwrap();
        assert_eq!(backup["status"]["phase"], "Completed", "{}", backup["status"]);
        server.stop().unwrap();
    });
    TestBox::down(SOURCE).unwrap();
    for edition in [Edition::Peer, Edition::Ours] {
        let creations = restore_everything(edition, &prefix);
        check_order(edition, &creations);
        check_definitions(edition, &creations);
    }
    TestBox::down(TARGET).unwrap();
}

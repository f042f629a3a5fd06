//! The same backup restored by both servers comes to the same, whatever the restore asks for.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, load, objects};
use velero_tests::picture::Picture;
use velero_tests::restores::{self, Ending};
use velero_tests::{backups, fixture, workloads};

const BACKUP: &str = "all";
const NAMESPACE: &str = "velero";
/// How long the controllers of a cluster may take, for instance to bind a claim.
const CONTROLLERS: Duration = Duration::from_secs(30);

/// Restores of every kind, few enough to be compared every time.
const OFTEN: [&str; 16] = [
    "all",
    "namespace-excluded",
    "namespace-missing",
    "types-unknown",
    "type-that-is-never-restored",
    "or-selectors",
    "cluster-false",
    "pods-bring-claims",
    "mapping-of-two-into-one",
    "node-ports-kept",
    "status-excluded",
    "existing",
    "existing-update",
    "modifier-json",
    "modifier-strategic",
    "policy-namespaced",
];

/// What stays for a moment after it was deleted.
const LET_GO_LATE: [(&str, &str); 3] =
    [("/apis/batch/v1", "jobs"), ("/api/v1", "pods"), ("/api/v1", "persistentvolumeclaims")];

/// A restore, and what is in the cluster before it.
#[derive(Clone)]
struct Case {
    name: &'static str,
    spec: Value,
    before: Vec<Value>,
}

fn case(name: &'static str, spec: Value) -> Case {
    Case { name, spec, before: Vec::new() }
}

/// What a restore finds in the namespace `alpha`: objects as they were, and objects that have changed since.
fn changed_alpha() -> Vec<Value> {
    let mut front = objects::config_map("alpha", "front", "a", "changed");
    front["metadata"]["labels"] = json!({"tier": "changed"});
    let mut account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner", "namespace": "alpha"}});
    account["metadata"]["labels"] = json!({"added": "here"});
    account["imagePullSecrets"] = json!([{"name": "added-here"}]);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "alpha"}, "stringData": {"key": "changed", "more": "1"}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "alpha"},
        "spec": {"clusterIP": "None", "selector": {"app": "other"}, "ports": [{"port": 81}]}});
    vec![objects::namespace("alpha"), front, account, secret, service]
}

/// A volume, a role and a class that have changed since.
fn changed_cluster() -> Vec<Value> {
    vec![
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "work-look"}, "rules": []}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "work-first"}, "value": 7}),
    ]
}

/// A ConfigMap beside the server that a Restore refers to.
fn document(name: &str, text: &str) -> Value {
    objects::config_map(NAMESPACE, name, "document.yaml", text)
}

fn modifiers(name: &'static str, rules: &str) -> Case {
    let spec = json!({"includedNamespaces": ["alpha"], "resourceModifier": {"kind": "configmap", "name": name}});
    let text = format!("version: v1\nresourceModifierRules:\n{rules}");
    Case { name, spec, before: vec![document(name, &text)] }
}

fn policy(name: &'static str, spec: Value, text: &str) -> Case {
    let mut spec = spec;
    spec["resourcePolicy"] = json!({"kind": "configmap", "name": name});
    Case { name, spec, before: vec![document(name, &format!("version: v1\n{text}"))] }
}

fn filters() -> Vec<Case> {
    let front = json!({"matchLabels": {"tier": "front"}});
    vec![
        case("all", json!({})),
        case("one-namespace", json!({"includedNamespaces": ["alpha"]})),
        case("namespace-wildcard", json!({"includedNamespaces": ["gamma-*"]})),
        case("namespace-excluded", json!({"includedNamespaces": ["*"], "excludedNamespaces": ["work", "gamma-?"]})),
        case("namespace-missing", json!({"includedNamespaces": ["nowhere", "beta"]})),
        case("types", json!({"includedResources": ["configmaps", "deployments.apps", "sa"]})),
        case("types-excluded", json!({"excludedResources": ["secrets", "pods", "widgets.example.com"]})),
        case(
            "types-unknown",
            json!({"includedResources": ["nothings.example.org", "configmaps"], "includedNamespaces": ["alpha"]}),
        ),
        case("type-that-is-never-restored", json!({"includedResources": ["nodes", "configmaps"]})),
        case("selector", json!({"labelSelector": front, "includedNamespaces": ["alpha", "beta"]})),
        case("selector-with-cluster", json!({"labelSelector": front, "includeClusterResources": true})),
        case("or-selectors", json!({"orLabelSelectors": [front, {"matchLabels": {"tier": "back"}}]})),
        case("both-selectors", json!({"labelSelector": front, "orLabelSelectors": [front]})),
        case("cluster-false", json!({"includeClusterResources": false})),
        case("cluster-true", json!({"includedNamespaces": ["beta"], "includeClusterResources": true})),
        case(
            "pods-bring-claims",
            json!({"includedNamespaces": ["alpha"], "labelSelector": front, "includedResources": ["pods", "pvc", "pv"]}),
        ),
        case("volumes-only", json!({"includedResources": ["persistentvolumes", "persistentvolumeclaims"]})),
        case("no-volumes", json!({"includedNamespaces": ["work"], "restorePVs": false})),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn manners() -> Vec<Case> {
    let work_moved = json!({"work": "work-moved"});
    vec![
        case("mapping", json!({"includedNamespaces": ["work", "side"], "namespaceMapping": work_moved})),
        case(
            "mapping-with-cluster",
            json!({"includeClusterResources": true, "namespaceMapping": {"work": "work-moved", "alpha": "alpha-moved", "nowhere": "x"}}),
        ),
        case(
            "mapping-of-two-into-one",
            json!({"includedNamespaces": ["gamma-1", "gamma-2"], "namespaceMapping": {"gamma-1": "gamma", "gamma-2": "gamma"}}),
        ),
        case("node-ports-kept", json!({"includedNamespaces": ["work"], "preserveNodePorts": true})),
        case("node-ports-dropped", json!({"includedNamespaces": ["work"], "preserveNodePorts": false})),
        case(
            "status",
            json!({"includedNamespaces": ["work"], "restoreStatus": {"includedResources": ["orders.shop.example.com"]}}),
        ),
        case(
            "status-excluded",
            json!({"includedNamespaces": ["work"], "restoreStatus": {"includedResources": ["*"], "excludedResources": ["orders.shop.example.com", "pods", "jobs.batch"]}}),
        ),
        Case { name: "existing", spec: json!({"includedNamespaces": ["alpha"]}), before: changed_alpha() },
        Case {
            name: "existing-none",
            spec: json!({"includedNamespaces": ["alpha"], "existingResourcePolicy": "none"}),
            before: changed_alpha(),
        },
        Case {
            name: "existing-update",
            spec: json!({"includedNamespaces": ["alpha"], "existingResourcePolicy": "update"}),
            before: changed_alpha(),
        },
        Case { name: "existing-in-cluster", spec: json!({"includeClusterResources": true}), before: changed_cluster() },
        Case {
            name: "existing-in-cluster-update",
            spec: json!({"includeClusterResources": true, "existingResourcePolicy": "update"}),
            before: changed_cluster(),
        },
        case("existing-wrong-policy", json!({"existingResourcePolicy": "replace"})),
        case("unknown-backup", json!({"backupName": "nowhere"})),
        modifiers(
            "modifier-json",
            concat!(
                "- conditions:\n    groupResource: configmaps\n    resourceNameRegex: \"^fr\"\n    matches:\n    - path: /data/a\n      value: \"<b>&c\"\n",
                "  patches:\n  - operation: replace\n    path: /data/a\n    value: \"42\"\n  - operation: add\n    path: /metadata/labels/added\n    value: \"\\\"true\\\"\"\n",
                "- conditions:\n    groupResource: \"*.apps\"\n    labelSelector:\n      matchLabels:\n        tier: front\n  patches:\n  - operation: test\n    path: /spec/replicas\n    value: \"99\"\n  - operation: replace\n    path: /spec/replicas\n    value: \"5\"\n",
                "- conditions:\n    groupResource: secrets\n  patches:\n  - operation: remove\n    path: /data/absent\n",
            ),
        ),
        modifiers(
            "modifier-merge",
            concat!(
                "- conditions:\n    groupResource: configmaps\n    namespaces: [alpha]\n  mergePatches:\n  - patchData: |\n      {\"data\": {\"merged\": \"yes\", \"a\": null}}\n",
                "- conditions:\n    groupResource: configmaps\n    namespaces: [beta]\n  mergePatches:\n  - patchData: |\n      data:\n        never: here\n",
            ),
        ),
        modifiers(
            "modifier-strategic",
            concat!(
                "- conditions:\n    groupResource: deployments.apps\n  strategicPatches:\n  - patchData: |\n      spec:\n        template:\n          spec:\n            containers:\n            - name: web\n              image: changed:1\n            - name: beside\n              image: beside:1\n",
                "- conditions:\n    groupResource: widgets.example.com\n  strategicPatches:\n  - patchData: |\n      spec: {a: b}\n",
            ),
        ),
        modifiers(
            "modifier-invalid",
            "- conditions:\n    groupResource: configmaps\n  patches:\n  - operation: multiply\n    path: /a\n",
        ),
        policy(
            "policy-namespaced",
            json!({"includedNamespaces": ["alpha", "beta"]}),
            "namespacedFilterPolicies:\n- namespaces: [alpha]\n  resourceFilters:\n  - kinds: [configmaps]\n    names: [\"fr*\"]\n  - kinds: [secrets, services]\n    labelSelector:\n      matchLabels:\n        tier: back\n",
        ),
        policy(
            "policy-cluster",
            json!({"includeClusterResources": true, "includedNamespaces": ["beta"]}),
            "clusterScopedFilterPolicy:\n  resourceFilters:\n  - kinds: [clusterroles]\n    names: [\"fixture-*\"]\n    excludedNames: [fixture-unused]\n  - kinds: [storageclasses]\n",
        ),
    ]
}

/// One server with a cluster of its own; both have the same history.
struct Side {
    server: VeleroServer,
    test_box: TestBox,
    prefix: String,
}

impl Side {
    fn start(edition: Edition, name: &str, prefix: &str) -> Self {
        let test_box = TestBox::up(name, BoxKind::ControlPlane).unwrap();
        let flags = vec!["--backup-sync-period=2s".into()];
        let options =
            ServerOptions { prefix: prefix.into(), namespace: NAMESPACE.into(), flags, ..ServerOptions::default() };
        let server = VeleroServer::up(&test_box, edition, options).unwrap();
        restores::wait_for_backup(&server, BACKUP).unwrap();
        Self { server, test_box, prefix: prefix.into() }
    }

    fn run(&self, case: &Case) -> Ending {
        for object in &case.before {
            self.test_box.machine().apply(&object.to_string()).unwrap();
        }
        let mut spec = case.spec.clone();
        if spec["backupName"].is_null() {
            spec["backupName"] = json!(BACKUP);
        }
        let name = format!("{}-{}", case.name, self.test_box.machine().name);
        restores::run(&self.server, &self.prefix, &name, &spec).unwrap()
    }

    fn picture(&self) -> Picture {
        Picture::take(self.test_box.machine()).unwrap()
    }

    /// Makes the cluster what it was before, but for the definitions: the peer waits for ever for a type that is gone.
    fn clean(&self, picture: &Picture) {
        let doomed = picture.0.values().filter(|object| object["metadata"]["namespace"].is_null());
        let doomed = doomed.filter(|object| object["kind"] != "CustomResourceDefinition").map(|object| {
            let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            match object["apiVersion"].as_str().unwrap().split_once('/') {
                Some((group, version)) => format!("{kind}.{version}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        });
        let doomed: Vec<String> = doomed.collect();
        if doomed.is_empty() {
            return;
        }
        self.empty(picture);
        // All at once: what holds another back goes at the same time.
        let names = doomed.iter().map(String::as_str);
        let command: Vec<&str> = ["delete", "--ignore-not-found", "--timeout=120s"].into_iter().chain(names).collect();
        self.test_box.machine().kubectl(&command).unwrap();
    }

    /// Deletes the namespaces, and from within them what controllers have to let go of first. The controller of namespaces
    /// looks after five seconds: what it still finds then makes it wait for eight more.
    fn empty(&self, picture: &Picture) {
        let machine = self.test_box.machine();
        let namespaces = picture.0.values().filter(|object| object["kind"] == "Namespace");
        let names: Vec<&str> = namespaces.filter_map(|object| object["metadata"]["name"].as_str()).collect();
        for name in &names {
            machine.delete(&format!("/api/v1/namespaces/{name}")).unwrap();
        }
        for name in &names {
            for (version, plural) in LET_GO_LATE {
                machine.delete(&format!("{version}/namespaces/{name}/{plural}")).unwrap();
            }
        }
    }
}

async fn back_up(cluster: TestCluster, prefix: String) {
    load::create_all(&cluster.client, fixture::objects().into_iter()).await.unwrap();
    workloads::create(cluster.test_box.machine()).unwrap();
    for namespace in ["alpha", "beta"] {
        workloads::wait_for_claim(cluster.test_box.machine(), namespace, "data").unwrap();
    }
    let options = ServerOptions { prefix, ..ServerOptions::default() };
    let server = VeleroServer::up(&cluster.test_box, Edition::Peer, options).unwrap();
    let namespaces = ["alpha", "beta", "gamma-1", "gamma-2", "empty", "work", "side"];
    let types = [
        "customresourcedefinitions",
        "clusterroles",
        "clusterrolebindings",
        "persistentvolumes",
        "storageclasses",
        "priorityclasses",
        "gadgets.example.com",
    ];
    let spec = json!({"includedNamespaces": namespaces, "includedClusterScopedResources": types});
    backups::create(&server, BACKUP, &spec).unwrap();
    let backup = backups::ended(&server, BACKUP, Duration::from_secs(120)).unwrap();
    assert_eq!(backup["status"]["phase"], "Completed", "{}", backup["status"]);
    server.stop().unwrap();
}

/// Does two things at the same time.
fn both<T: Send>(ours: impl FnOnce() -> T + Send, theirs: impl FnOnce() -> T) -> (T, T) {
    thread::scope(|scope| {
        let running = scope.spawn(ours);
        let theirs = theirs();
        (running.join().unwrap(), theirs)
    })
}

/// Pictures of both clusters when the controllers have answered what was restored, as far as they do in time.
fn settled(ours: &Side, peer: &Side) -> (Picture, Picture) {
    let start = Instant::now();
    loop {
        thread::sleep(Duration::from_secs(1));
        let pictures = both(|| ours.picture(), || peer.picture());
        if pictures.0.differences(&pictures.1).is_empty() || start.elapsed() > CONTROLLERS {
            return pictures;
        }
    }
}

#[test]
fn both_servers_restore_the_same_whatever_is_chosen_and_in_whatever_manner() {
    let often = [filters(), manners()].concat().into_iter().filter(|case| OFTEN.contains(&case.name));
    let often: Vec<Case> = often.collect();
    assert_eq!(often.len(), OFTEN.len());
    compare("often", &often);
}

#[test]
#[ignore = "many times the usual run; begun with --thorough"]
fn both_servers_restore_the_same_whatever_is_chosen() {
    compare("filters", &filters());
}

#[test]
#[ignore = "many times the usual run; begun with --thorough"]
fn both_servers_restore_the_same_in_whatever_manner() {
    compare("manners", &manners());
}

/// Restores with both servers, each into a cluster of its own, and compares what they say and what is there afterwards.
fn compare(part: &str, cases: &[Case]) {
    let [source, ours, peer] = ["source", "ours", "peer"].map(|role| format!("{part}-{role}"));
    for name in [&source, &ours, &peer] {
        TestBox::down(name).unwrap();
    }
    let prefix = harness::unique_name(part);
    let source_prefix = prefix.clone();
    harness::run(&source, BoxKind::ControlPlane, move |cluster| back_up(cluster, source_prefix));
    let targets = [(Edition::Ours, &ours), (Edition::Peer, &peer)];
    let [ours, peer] = thread::scope(|scope| {
        let prefix = &prefix;
        let starting = targets.map(|(edition, name)| scope.spawn(move || Side::start(edition, name, prefix)));
        starting.map(|side| side.join().unwrap())
    });
    TestBox::down(&source).unwrap();

    let mut wrong = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let (our_ending, their_ending) = both(|| ours.run(case), || peer.run(case));
        // The definitions stay after the first restore; from then on the owners of their fields differ.
        let definitions: &[&str] = if index > 0 { &["CustomResourceDefinition"] } else { &[] };
        // Only ours says that a name means nothing.
        let names: &[&str] = &["nothings.example.org"];
        let known = [restores::RACES, restores::OF_EVERY_CLUSTER, definitions, names].concat();
        let mut found = restores::differences(&our_ending, &their_ending, &known);
        let (our_picture, their_picture) = settled(&ours, &peer);
        found.extend(our_picture.differences(&their_picture));
        both(|| ours.clean(&our_picture), || peer.clean(&their_picture));
        let objects = their_picture.0.len();
        println!("{}: {} ({objects} objects), {} differences", case.name, their_ending.phase(), found.len());
        for line in found {
            println!("  {line}");
            wrong.push(format!("{}: {line}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} differences in {} restores:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    for (_, name) in targets {
        TestBox::down(name).unwrap();
    }
}

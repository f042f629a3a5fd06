//! A dry run says, item for item, what the restore then does; and it writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::machine::Machine;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, load, objects};
use velero_tests::audit::{AuditLog, Request};
use velero_tests::restores::{self, Ending, is_a_race, item_key};
use velero_tests::{backups, fixture, workloads};

const BACKUP: &str = "all";

/// A restore, and what happens in the cluster before it.
struct Scenario {
    name: &'static str,
    flags: Vec<String>,
    before: fn(&Machine),
    /// Actions that must be in the plan, so that the scenario tests what it says.
    expected: &'static [&'static str],
}

fn kubectl(machine: &Machine, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    machine.kubectl(&words).unwrap();
}

/// Some objects differ from the backup, one is gone.
fn change(machine: &Machine) {
    kubectl(machine, "-n again patch configmap settings --type=merge -p {\"data\":{\"a\":\"changed\",\"new\":\"1\"}}");
    kubectl(machine, "-n again label role look changed=yes --overwrite");
    kubectl(machine, "-n again delete secret registry --ignore-not-found");
}

fn modifiers(machine: &Machine) {
    let rules = "version: v1\nresourceModifierRules:\n- conditions:\n    groupResource: configmaps\n  mergePatches:\n  - patchData: |\n      {\"data\": {\"added\": \"here\"}}\n- conditions:\n    groupResource: roles.rbac.authorization.k8s.io\n  patches:\n  - operation: remove\n    path: /absent\n";
    machine.apply(&objects::config_map("velero", "modifiers", "rules.yaml", rules).to_string()).unwrap();
}

fn account(machine: &Machine) {
    machine.apply(&objects::namespace("merged").to_string()).unwrap();
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker", "namespace": "merged"},
        "imagePullSecrets": [{"name": "mine"}],
    });
    machine.apply(&account.to_string()).unwrap();
}

fn roles(machine: &Machine) {
    kubectl(machine, "label clusterrole work-look changed=yes --overwrite");
    kubectl(machine, "delete clusterrolebinding work-look --ignore-not-found");
}

/// A namespace that never goes: something in it holds it.
fn stuck(machine: &Machine) {
    machine.apply(&objects::namespace("stuck").to_string()).unwrap();
    let mut holder = objects::config_map("stuck", "holder", "a", "b");
    holder["metadata"]["finalizers"] = json!(["example.com/hold"]);
    machine.apply(&holder.to_string()).unwrap();
    kubectl(machine, "delete namespace stuck --wait=false");
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn scenarios() -> Vec<Scenario> {
    let nothing: fn(&Machine) = |_| {};
    let scenario = |name, flags: &str, before, expected| {
        let flags = flags.split_whitespace().map(str::to_owned).collect();
        Scenario { name, flags, before, expected }
    };
    let again = "--include-namespaces work --namespace-mappings work:again";
    let with = |more: &str| format!("{again} {more}");
    vec![
        scenario("fresh", again, nothing, &["create", "skip"]),
        scenario("equal", again, nothing, &["skip"]),
        scenario("different", again, change, &["create", "conflict"]),
        scenario("different-none", &with("--existing-resource-policy none"), change, &["create", "conflict"]),
        scenario("different-update", &with("--existing-resource-policy update"), change, &["create", "update"]),
        scenario("equal-update", &with("--existing-resource-policy update"), nothing, &[]),
        scenario(
            "mapping",
            "--include-namespaces alpha,beta --namespace-mappings alpha:one,beta:one",
            nothing,
            &["create", "conflict"],
        ),
        scenario(
            "modified",
            "--include-namespaces work --namespace-mappings work:modified --resource-modifier-configmap modifiers",
            modifiers,
            &["create"],
        ),
        scenario(
            "finished",
            "--include-namespaces work --namespace-mappings work:finished --include-resources pods,jobs,serviceaccounts",
            nothing,
            &["create"],
        ),
        scenario(
            "account",
            "--include-namespaces work --namespace-mappings work:merged --include-resources serviceaccounts,configmaps",
            account,
            &["create", "update"],
        ),
        scenario(
            "selected",
            "--selector tier=front --exclude-namespaces work --exclude-resources pods --namespace-mappings alpha:picked,beta:picked-2,gamma-1:picked-3",
            nothing,
            &["create"],
        ),
        scenario(
            "cluster-scoped",
            "--include-namespaces side --include-resources clusterroles,clusterrolebindings,configmaps --include-cluster-resources=true --namespace-mappings side:aside",
            roles,
            &["create", "conflict"],
        ),
        scenario(
            "unmapped",
            "--include-namespaces side",
            |machine| kubectl(machine, "delete namespace side"),
            &["create"],
        ),
        scenario(
            "terminating",
            "--include-namespaces side --include-resources configmaps --namespace-mappings side:stuck",
            stuck,
            &["conflict"],
        ),
        scenario(
            "missing-type",
            "--include-namespaces work --namespace-mappings work:missing --include-cluster-resources=false",
            |machine| kubectl(machine, "delete crd orders.shop.example.com"),
            &["create"],
        ),
    ]
}

/// What a dry run says of an item: its action, and how the restore must list it then.
#[derive(Debug)]
struct Planned {
    action: String,
    becomes: &'static str,
}

/// The plan: each item and what is planned for it.
fn plan(server: &VeleroServer, scenario: &Scenario) -> BTreeMap<String, Planned> {
    let name = format!("{}-plan", scenario.name);
    let fixed = ["restore", "create", &name, "--from-backup", BACKUP, "--dry-run", "-o", "json"];
    let output = server.command(Edition::Ours).unwrap().args(fixed).args(&scenario.flags).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let plan: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{}: {error}: {text}{}", scenario.name, String::from_utf8_lossy(&output.stderr))
    });
    let items = plan["items"].as_array().unwrap_or_else(|| panic!("{}: no items in {plan}", scenario.name));
    let fails = items.iter().any(|item| item["action"] == "fail");
    assert_eq!(output.status.success(), !fails, "{}: the exit code tells whether something fails", scenario.name);
    let planned =
        |item: &Value| Planned { action: item["action"].as_str().unwrap().to_owned(), becomes: becomes(item) };
    items.iter().map(|item| (item_key(item), planned(item))).collect()
}

/// How a planned item appears in the list of a restore: what brings an error has failed, what stays as it is was skipped.
fn becomes(item: &Value) -> &'static str {
    let stays = item["reason"].as_str().is_some_and(|reason| reason.contains("would stay as it is"));
    match item["action"].as_str() {
        Some("create") => "created",
        Some("update") => "updated",
        Some("skip") => "skipped",
        Some("conflict") if stays => "skipped",
        Some("conflict" | "fail") => "failed",
        other => panic!("an action of which nothing is known: {other:?}"),
    }
}

fn compare(name: &str, plan: &BTreeMap<String, Planned>, ending: &Ending, wrong: &mut Vec<String>) {
    let items: BTreeSet<&String> = plan.keys().chain(ending.items.keys()).collect();
    for item in items.into_iter().filter(|item| !is_a_race(item)) {
        let (planned, became) = (plan.get(item), ending.items.get(item));
        if planned.map(|planned| planned.becomes) != became.map(String::as_str) {
            wrong.push(format!("{name}: {item}: planned {planned:?}, became {became:?}"));
        }
    }
}

/// Whatever the dry run asked the API server to write: only its questions to the server, and these go again.
fn check_writes(name: &str, log: &AuditLog, machine: &Machine) {
    let allowed = |request: &Request| match request.agent.as_str() {
        agent if agent.starts_with("velero/") => {
            ["restores.velero.io", "downloadrequests.velero.io"].contains(&request.resource.as_str())
        }
        // It answers the request, and keeps house.
        agent if agent.starts_with("velero-server") => request.is_own_of("velero"),
        _ => true,
    };
    let requests = log.requests().unwrap();
    assert!(requests.iter().any(|request| request.agent.starts_with("velero/")), "{name}: nothing is written down");
    let others: Vec<Request> = requests.into_iter().filter(|it| !it.tried && !allowed(it)).collect();
    assert!(others.is_empty(), "{name}: the dry run wrote {others:#?}");
    let left = machine.names_at("/apis/velero.io/v1/namespaces/velero/downloadrequests").unwrap();
    assert!(left.is_empty(), "{name}: the dry run left something behind: {left:?}");
    let restores = machine.names_at("/apis/velero.io/v1/namespaces/velero/restores").unwrap();
    assert!(!restores.iter().any(|name| name.contains("dry-run")), "{name}: the question is left: {restores:?}");
}

#[test]
fn a_dry_run_says_item_for_item_what_the_restore_then_does() {
    TestBox::down("dry-run").unwrap();
    harness::run("dry-run", BoxKind::ControlPlane, async |cluster| {
        let machine = cluster.test_box.machine();
        load::create_all(&cluster.client, fixture::objects().into_iter()).await.unwrap();
        workloads::create(machine).unwrap();
        for namespace in ["alpha", "beta"] {
            workloads::wait_for_claim(machine, namespace, "data").unwrap();
        }
        // Their node ports are wanted by number: only one namespace can have them.
        kubectl(machine, "-n work delete service asked remembered");
        let prefix = harness::unique_name("dry-run");
        let flags = vec!["--terminating-resource-timeout=5s".into()];
        let options = ServerOptions { prefix: prefix.clone(), flags, ..ServerOptions::default() };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
        let spec = json!({
            "includedNamespaces": ["alpha", "beta", "gamma-1", "work", "side"],
            "includedClusterScopedResources": ["clusterroles", "clusterrolebindings", "persistentvolumes", "customresourcedefinitions"],
        });
        backups::create(&server, BACKUP, &spec).unwrap();
        let backup = backups::ended(&server, BACKUP, Duration::from_secs(120)).unwrap();
        assert_eq!(backup["status"]["phase"], "Completed", "{}", backup["status"]);

        let mut wrong = Vec::new();
        for scenario in scenarios() {
            (scenario.before)(machine);
            let log = AuditLog::from_now(machine).unwrap();
            let plan = plan(&server, &scenario);
            check_writes(scenario.name, &log, machine);
            let actions: BTreeSet<&str> = plan.values().map(|planned| planned.action.as_str()).collect();
            for expected in scenario.expected {
                assert!(actions.contains(expected), "{}: nothing to {expected} in {plan:#?}", scenario.name);
            }
            let create = ["restore", "create", scenario.name, "--from-backup", BACKUP];
            let flags: Vec<&str> = scenario.flags.iter().map(String::as_str).collect();
            server.velero(&[&create[..], &flags].concat()).unwrap();
            let ending = restores::ending(&server, &prefix, scenario.name).unwrap();
            println!("{}: {}, {} items", scenario.name, ending.phase(), plan.len());
            compare(scenario.name, &plan, &ending, &mut wrong);
        }
        assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    });
    TestBox::down("dry-run").unwrap();
}

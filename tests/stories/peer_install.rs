//! What `velero install` makes, compared with the original's, and installing over it.

use std::fs;

use serde_json::Value;
use velero_testkit::machine::Machine;
use velero_testkit::{BoxKind, Edition, TestBox, harness};
use velero_tests::command_line::CommandLine;
use velero_tests::difference::differences;

/// Where the two differ; the same list is in docs/compatibility.md.
const DIFFERENCES: [&str; 22] = [
    "ClusterRole/velero",
    "ClusterRoleBinding/velero/roleRef/name",
    "DaemonSet/node-agent/spec/template/spec/containers/node-agent/args/--features=",
    "Deployment/velero/metadata/annotations",
    "Deployment/velero/spec/strategy",
    "Deployment/velero/spec/template/spec/containers/velero/args/--features=",
    "Deployment/velero/spec/template/spec/containers/velero/livenessProbe",
    "Deployment/velero/spec/template/spec/containers/velero/readinessProbe",
    "Deployment/velero/spec/template/spec/containers/velero/securityContext",
    "Deployment/velero/spec/template/spec/containers/velero/startupProbe",
    "Deployment/velero/spec/template/spec/containers/velero/volumeMounts//tmp",
    "Deployment/velero/spec/template/spec/initContainers/velero-velero-plugin-for-aws/securityContext",
    "Deployment/velero/spec/template/spec/securityContext",
    "Deployment/velero/spec/template/spec/terminationGracePeriodSeconds",
    "NetworkPolicy/velero",
    "NetworkPolicy/velero-node-agent",
    "Role/velero-data-mover",
    "Role/velero-node-agent",
    "RoleBinding/velero-data-mover",
    "RoleBinding/velero-node-agent",
    "ServerStatusRequest/velero-server-status",
    "ServiceAccount/velero-data-mover",
];

/// The flags of an ordinary installation.
fn flags(machine: &Machine) -> Vec<String> {
    let keys = machine.state().join("keys");
    fs::write(&keys, "keys").unwrap();
    let fixed = "--provider=aws --bucket=my-bucket --prefix=p --plugins=velero/velero-plugin-for-aws:v1.14.3 \
                 --image=velero/velero:v1.18.3 --backup-location-config=region=eu,s3ForcePathStyle=true \
                 --snapshot-location-config=region=eu --pod-annotations=a=b --pod-labels=c=d --sa-annotations=e=f \
                 --garbage-collection-frequency=2h --server-priority-class-name=high";
    let mut flags: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
    flags.push(format!("--secret-file={}", keys.display()));
    flags
}

/// The objects a dry run shows: their titles in order, and all but the definitions by title.
fn shown(machine: &Machine, edition: Edition) -> (Vec<String>, Value) {
    let flags = flags(machine);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let further = ["--use-node-agent", "--dry-run", "-o", "yaml"];
    let velero = CommandLine::new(machine, edition);
    let text = velero.velero(&[&["install"], &flags[..], &further].concat()).unwrap();
    let list: Value = serde_saphyr::from_str(&text).unwrap();
    let objects = list["items"].as_array().unwrap();
    let others = objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition");
    let others = others.map(|object| (title(object), comparable(object))).collect();
    (objects.iter().map(title).collect(), Value::Object(others))
}

fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// The same document without what says nothing, and with lists by what their items are called.
fn comparable(document: &Value) -> Value {
    let called = |item: &Value| {
        let name = item["mountPath"].as_str().or(item["name"].as_str()).or(item.as_str());
        name.map_or_else(|| item.to_string(), str::to_owned)
    };
    let says_something = |value: &Value| !value.is_null() && value.as_object().is_none_or(|fields| !fields.is_empty());
    let fields: Vec<(String, &Value)> = match document {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().map(|item| (called(item), item)).collect(),
        other => return other.clone(),
    };
    let fields = fields.into_iter().map(|(name, value)| (name, comparable(value)));
    Value::Object(fields.filter(|(_, value)| says_something(value)).collect())
}

fn shows_what_the_peer_shows_but_for_the_known_differences(machine: &Machine) {
    let [(our_titles, ours), (their_titles, theirs)] =
        [Edition::Ours, Edition::Peer].map(|edition| shown(machine, edition));
    let common: Vec<_> = our_titles.into_iter().filter(|title| their_titles.contains(title)).collect();
    assert_eq!(common, their_titles, "all of the peer's objects, in its order");
    let lines = differences(&ours, &theirs);
    let places: Vec<&str> = lines.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, DIFFERENCES.map(|place| format!("/{place}")), "{}", lines.join("\n"));
}

/// What the original installed, and how often it was changed.
fn versions(machine: &Machine) -> String {
    let kinds = "deployments,serviceaccounts,secrets,backupstoragelocations,backups,clusterrolebindings,namespaces,crd";
    let columns = "-o=custom-columns=KIND:.kind,NAME:.metadata.name,GENERATION:.metadata.generation,UID:.metadata.uid";
    machine.kubectl(&["-n", "velero", "get", kinds, columns]).unwrap()
}

fn replaces_the_peer_only_when_told_to(machine: &Machine) {
    let flags = flags(machine);
    let flags: Vec<&str> = flags.iter().map(String::as_str).filter(|flag| !flag.contains("priority")).collect();
    let [ours, peer] = [Edition::Ours, Edition::Peer].map(|edition| CommandLine::new(machine, edition));
    peer.velero(&[&["install"], &flags[..]].concat()).unwrap();
    let backup = r#"{"apiVersion": "velero.io/v1", "kind": "Backup", "spec": {},
        "metadata": {"name": "theirs", "namespace": "velero"}}"#;
    machine.apply(backup).unwrap();
    let before = versions(machine);

    let said = ours.refusal(&["install"]).unwrap();
    assert!(said.contains("--force") && said.contains("velero/velero:v1.18.3"), "{said}");
    assert_eq!(versions(machine), before);

    let said = ours.velero(&["install", "--force"]).unwrap();
    assert!(said.contains("replacing the server of velero/velero:v1.18.3"), "{said}");
    let get = |object: &str, path: &str| {
        machine.kubectl(&["-n", "velero", "get", object, &format!("-o=jsonpath={{{path}}}")]).unwrap()
    };
    assert_eq!(get("backup/theirs", ".metadata.name"), "theirs");
    assert_eq!(get("backupstoragelocation/default", ".spec.objectStorage.bucket"), "my-bucket");
    assert!(get("deployment/velero", ".spec.template.spec.containers[0].image").contains(env!("CARGO_PKG_VERSION")));
    assert_eq!(get("deployment/velero", ".spec.strategy.type"), "Recreate");
    assert_eq!(get("deployment/velero", ".spec.template.spec.volumes[2].secret.secretName"), "cloud-credentials");
    assert_eq!(get("clusterrolebinding/velero", ".roleRef.name"), "velero");
    ours.velero(&["install"]).unwrap();
}

#[test]
fn an_installation_is_the_originals_but_for_the_known_differences_and_replaces_it_only_when_told_to() {
    TestBox::down("in-peer").unwrap();
    harness::run("in-peer", BoxKind::ControlPlane, async |cluster| {
        let machine = cluster.test_box.machine();
        shows_what_the_peer_shows_but_for_the_known_differences(machine);
        replaces_the_peer_only_when_told_to(machine);
    });
    TestBox::down("in-peer").unwrap();
}

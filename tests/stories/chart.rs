//! The Helm chart: what it renders is accepted by an API server, and the server it deploys works.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::image::Image;
use velero_testkit::install::repository_root;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{BUCKET, Certificates, Images};
use velero_testkit::server::credentials_file;
use velero_testkit::{BoxKind, Edition, TestBox, Tool, harness};
use velero_tests::command_line::CommandLine;

const NAMESPACE: &str = "charted";
/// The image the chart names when values do not.
const IMAGE: &str = concat!("ghcr.io/velero-rust/velero:v", env!("CARGO_PKG_VERSION"));

/// What the chart makes of some values, or why it does not.
fn render(machine: &Machine, values: &Value) -> Result<String, String> {
    let file = machine.state().join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    let chart = repository_root().join("deploy/chart/velero");
    let mut command = Command::new(Tool::Helm.path().unwrap());
    command.args(["template", "velero"]).arg(chart).args(["--namespace", NAMESPACE, "--values"]).arg(file);
    let output = command.env("HOME", machine.state()).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Values as people have them who come from Velero's chart.
fn familiar_values() -> Value {
    json!({
        "configuration": {
            "backupStorageLocation": [{
                "name": "default", "provider": "aws", "bucket": BUCKET, "default": true,
                "prefix": harness::unique_name("chart"),
                "credential": {"name": "velero", "key": "cloud"},
                "config": {
                    "region": "us-east-1", "s3ForcePathStyle": true, "s3Url": TestBox::store_url_for_pods(),
                },
            }],
            "volumeSnapshotLocation": [{"name": "default", "provider": "aws", "config": {"region": "us-east-1"}}],
            "features": "EnableCSI",
            "logLevel": "debug",
            "defaultBackupTTL": "48h",
            "garbageCollectionFrequency": "2h",
            "extraEnvVars": [{"name": "MINE", "value": "1"}],
        },
        "credentials": {"secretContents": {"cloud": credentials_file()}},
        "schedules": {"daily": {"schedule": "@daily", "template": {"includedNamespaces": ["shop"], "ttl": "24h"}}},
        "podLabels": {"team": "shop"},
        "serviceAccount": {"server": {"annotations": {"who": "velero"}}},
    })
}

fn is_accepted_whatever_the_values(machine: &Machine) {
    let plugin = json!({
        "name": "plugin", "image": "example.io/plugin:v1", "volumeMounts": [{"name": "plugins", "mountPath": "/target"}],
    });
    let mut two_servers = familiar_values();
    two_servers["replicas"] = json!(2);
    let values = [
        json!({}),
        json!({"rbac": {"clusterAdministrator": true}, "metrics": {"enabled": false}, "upgradeCRDs": false}),
        json!({"initContainers": [plugin], "persistence": {"existingClaim": "mine"}, "backupsEnabled": true}),
        json!({"credentials": {"existingSecret": "mine", "extraEnvVars": {"KEY": ""}, "extraSecretRef": "more"}}),
        json!({"configMaps": {"plugin": {"labels": {"velero.io/plugin-config": ""}, "data": {"a": "b"}}}}),
        json!({"extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}"}}]}),
        json!({"deployNodeAgent": true}),
        json!({"networkPolicy": {"enabled": false}, "configuration": {"metricsAddress": "0.0.0.0:9999"}}),
        json!({"deployNodeAgent": true, "rbac": {"clusterAdministrator": true}, "nodeAgent": {
            "disableHostPath": true, "extraArgs": ["--node-agent-configmap=agents"], "extraEnvVars": {"A": "b"},
            "tolerations": [{"operator": "Exists"}], "containerSecurityContext": {"privileged": true},
            "serviceAccount": {"server": {"annotations": {"eks.amazonaws.com/role-arn": "arn:1"}}},
        }}),
        familiar_values(),
        two_servers,
    ];
    for values in values {
        let rendered = render(machine, &values).unwrap_or_else(|problem| panic!("{values}: {problem}"));
        let file = machine.state().join("rendered.yaml");
        fs::write(&file, rendered).unwrap();
        let path = file.display().to_string();
        let tried = machine.kubectl(&["--namespace", NAMESPACE, "apply", "--dry-run=server", "-f", &path]);
        tried.unwrap_or_else(|problem| panic!("{values}: {problem:#}"));
    }
    let unnamed = json!({"configuration": {"backupStorageLocation": [{"provider": "aws"}]}});
    assert!(render(machine, &unnamed).unwrap_err().contains("bucket is required"));
    for (values, problem) in [
        (json!({"replicas": 0}), "use 1, 2 or 3"),
        (json!({"replicas": 5}), "use 1, 2 or 3"),
        (json!({"replicas": 2}), "backups go to a volume"),
    ] {
        let refused = render(machine, &values).unwrap_err();
        assert!(refused.contains(problem), "{values}: {refused}");
    }
}

/// What Velero's own chart makes that ours makes too, under the same names.
const VELEROS_CHART: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: "{{ .Release.Name }}-velero-server"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "{{ .Release.Name }}-velero-server"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: "{{ .Release.Name }}-velero-server", namespace: "{{ .Release.Namespace }}"}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}-velero"}
spec:
  replicas: 1
  selector:
    matchLabels: {app.kubernetes.io/instance: "{{ .Release.Name }}", app.kubernetes.io/name: velero}
  template:
    metadata:
      labels: {name: velero, app.kubernetes.io/instance: "{{ .Release.Name }}", app.kubernetes.io/name: velero}
    spec:
      serviceAccountName: "{{ .Release.Name }}-velero-server"
      containers: [{name: velero, image: "velero/velero:v1.18.3", imagePullPolicy: Never}]
"#;

/// Runs Helm against the box and gives what it printed.
fn helm(machine: &Machine, arguments: &[&str]) -> String {
    let mut command = machine.command(Tool::Helm.path().unwrap());
    command.args(arguments).env("KUBECONFIG", Certificates::kubeconfig(machine)).env("HOME", machine.state());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "helm {}: {said}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// Whoever has a release of Velero's chart upgrades it to ours, and changes the rights of the server later.
fn upgrades_a_release_of_veleros_own_chart(machine: &Machine) {
    const RELEASE: &str = "moved";
    let theirs = machine.folder("veleros-chart").unwrap();
    fs::create_dir_all(theirs.join("templates")).unwrap();
    fs::write(theirs.join("Chart.yaml"), "apiVersion: v2\nname: velero\nversion: 12.1.0\n").unwrap();
    fs::write(theirs.join("templates/all.yaml"), VELEROS_CHART).unwrap();
    let theirs = theirs.display().to_string();
    helm(machine, &["install", RELEASE, &theirs, "--namespace", RELEASE, "--create-namespace"]);

    let ours = repository_root().join("deploy/chart/velero").display().to_string();
    let upgrade = ["upgrade", RELEASE, &ours, "--namespace", RELEASE, "--set=upgradeCRDs=false"];
    let role = |binding: &str| {
        let role = "-o=jsonpath={.roleRef.name}";
        machine.kubectl(&["get", "clusterrolebinding", binding, role, "--ignore-not-found"]).unwrap()
    };
    helm(machine, &[&upgrade[..], &["--set=credentials.extraEnvVars.TOKEN=secret"]].concat());
    assert_eq!(role("moved-velero-server"), "", "the binding to all rights is still there");
    assert_eq!(role("moved-velero-server-role"), "moved-velero-server");
    let deployment = machine.kubectl(&["-n", RELEASE, "get", "deployment", "moved-velero", "-o=json"]).unwrap();
    let deployment: Value = serde_json::from_str(&deployment).unwrap();
    let variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let token = variables.iter().find(|variable| variable["name"] == "TOKEN").expect("no variable TOKEN");
    let reference = &token["valueFrom"]["secretKeyRef"];
    let path = format!("-o=jsonpath={{.data.{}}}", reference["key"].as_str().unwrap());
    let value = machine.kubectl(&["-n", RELEASE, "get", "secret", reference["name"].as_str().unwrap(), &path]).unwrap();
    assert_eq!(value, "c2VjcmV0", "the Secret has no such key, or another value");

    helm(machine, &[&upgrade[..], &["--set=rbac.clusterAdministrator=true"]].concat());
    assert_eq!([role("moved-velero-server"), role("moved-velero-server-role")], ["cluster-admin", ""]);
    helm(machine, &["uninstall", RELEASE, "--namespace", RELEASE]);
}

fn deploys_a_server_that_works(machine: &Machine, velero: &CommandLine<'_>) {
    let archive = machine.state().join("velero-image.tar");
    Image::of_velero(IMAGE, &Edition::Ours.binary().unwrap()).unwrap().write(&archive).unwrap();
    Images::load(machine, &archive).unwrap();
    machine.apply(&render(machine, &familiar_values()).unwrap()).unwrap();
    let kubectl = |arguments: &[&str]| machine.kubectl(&[&["--namespace", NAMESPACE], arguments].concat());
    // Hooks are objects like others when Helm is not there to run them: this one upgrades the definitions.
    kubectl(&["wait", "--for=condition=Complete", "--timeout=60s", "job/velero-upgrade-crds"]).unwrap();
    kubectl(&["rollout", "status", "deployment/velero", "--timeout=90s"]).unwrap();
    wait_until("the location", Duration::from_secs(60), || {
        let path = format!("/apis/velero.io/v1/namespaces/{NAMESPACE}/backupstoragelocations/default");
        let phase = &machine.read(&path)?["status"]["phase"];
        anyhow::ensure!(phase == "Available", "the location is {phase}");
        Ok(())
    })
    .unwrap();
    let create = ["-n", NAMESPACE, "backup", "create", "one", "--include-namespaces", "default", "--wait"];
    let told = velero.velero(&create).unwrap();
    assert!(told.contains("Backup completed with status: Completed"), "{told}");
}

#[test]
fn the_chart_is_accepted_by_the_api_server_upgrades_veleros_own_and_deploys_a_server_that_works() {
    TestBox::down("in-chart").unwrap();
    harness::run("in-chart", BoxKind::Whole, async |cluster| {
        let machine = cluster.test_box.machine();
        let velero = CommandLine::new(machine, Edition::Ours);
        velero.velero(&["install", "--crds-only"]).unwrap();
        machine.kubectl(&["create", "namespace", NAMESPACE]).unwrap();
        // What it deploys without node agents has to do with the least rights that Kubernetes knows.
        machine.kubectl(&["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"]).unwrap();
        is_accepted_whatever_the_values(machine);
        upgrades_a_release_of_veleros_own_chart(machine);
        deploys_a_server_that_works(machine, &velero);
    });
    TestBox::down("in-chart").unwrap();
}

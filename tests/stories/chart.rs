//! The Helm chart in a cluster: what it renders is accepted by an API server, it upgrades a release of Velero's own chart,
//! and the server it deploys works, from `helm install` to `helm uninstall`.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::image::Image;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{BUCKET, Images};
use velero_testkit::server::credentials_file;
use velero_testkit::{BoxKind, Edition, TestBox, Tool, harness};
use velero_tests::command_line::CommandLine;
use velero_tests::helm::{Helm, chart, image, veleros_chart};

const NAMESPACE: &str = "charted";
/// What the server of the original runs, for `kubectl set image`.
const PEER_IMAGE: &str = "velero=docker.io/velero/velero:v1.18.3";
/// An image with kubectl, for the Jobs of the chart.
const KUBECTL: &str = "docker.io/velero-box/kubectl:1";

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

/// The kinds of the Prometheus operator, with any content.
fn monitoring_definitions() -> String {
    let definition = |plural: &str, kind: &str| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
    };
    let kinds =
        [("servicemonitors", "ServiceMonitor"), ("podmonitors", "PodMonitor"), ("prometheusrules", "PrometheusRule")];
    json!({"apiVersion": "v1", "kind": "List", "items": kinds.map(|(plural, kind)| definition(plural, kind))})
        .to_string()
}

fn is_accepted_whatever_the_values(machine: &Machine) {
    machine.apply(&monitoring_definitions()).unwrap();
    machine.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
    let classes = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "runc"});
    machine.apply(&classes.to_string()).unwrap();
    let mut files: Vec<_> = fs::read_dir(chart().join("ci")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let values: Value = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let rendered = Helm::alone().template(NAMESPACE, &values).unwrap();
        let manifest = machine.state().join("rendered.yaml");
        fs::write(&manifest, rendered).unwrap();
        let path = manifest.display().to_string();
        let tried = machine.kubectl(&["apply", "--dry-run=server", "-f", &path]);
        tried.unwrap_or_else(|problem| panic!("{}: {problem:#}", file.display()));
    }
}

/// The names and versions of what must not be made anew.
fn kept(machine: &Machine, release: &str) -> String {
    let kinds = "deployments,daemonsets,services,secrets,serviceaccounts,configmaps,schedules,backupstoragelocations";
    let selected = format!("app.kubernetes.io/instance={release}");
    let columns = "-o=custom-columns=KIND:.kind,NAME:.metadata.name,UID:.metadata.uid";
    machine.kubectl(&["-n", release, "get", kinds, "-l", &selected, columns]).unwrap()
}

fn all_kept(before: &str, after: &str) {
    for object in before.lines() {
        assert!(
            after.lines().any(|kept| kept.split_whitespace().eq(object.split_whitespace())),
            "{object} is gone:\n{after}"
        );
    }
}

/// Whoever has a release of Velero's chart upgrades it to ours, changes the rights of the server later, and goes back.
fn upgrades_a_release_of_veleros_own_chart(machine: &Machine) {
    const RELEASE: &str = "moved";
    let helm = Helm::of(machine);
    let [theirs, ours] = [veleros_chart(), chart()].map(|chart| chart.display().to_string());
    let mut values = familiar_values();
    values["deployNodeAgent"] = json!(true);
    values["configuration"]["backupStorageLocation"][0]["credential"]["name"] = json!("moved-velero");
    // Pods, and Jobs of hooks, are another story's.
    let quiet = ["--namespace", RELEASE, "--no-hooks"];
    let install = ["install", RELEASE, &theirs, "--create-namespace", "--set=replicas=0"];
    helm.run(&[&install[..], &quiet].concat(), Some(&values)).unwrap();
    let before = kept(machine, RELEASE);

    let role = |binding: &str| {
        let role = "-o=jsonpath={.roleRef.name}";
        machine.kubectl(&["get", "clusterrolebinding", binding, role, "--ignore-not-found"]).unwrap()
    };
    let upgrade =
        |values: &Value| helm.run(&[&["upgrade", RELEASE, &ours][..], &quiet].concat(), Some(values)).unwrap();
    values["credentials"]["extraEnvVars"] = json!({"TOKEN": "secret of {{ .Release.Name }}"});
    upgrade(&values);
    all_kept(&before, &kept(machine, RELEASE));
    assert_eq!(role("moved-velero-server"), "", "the binding to all rights is still there");
    assert_eq!(role("moved-velero-server-role"), "moved-velero-server");
    let deployment = machine.read(&format!("/apis/apps/v1/namespaces/{RELEASE}/deployments/velero")).unwrap();
    let variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let token = variables.iter().find(|variable| variable["name"] == "TOKEN").expect("no variable TOKEN");
    let reference = &token["valueFrom"]["secretKeyRef"];
    let template = format!("-o=go-template={{{{.data.{} | base64decode}}}}", reference["key"].as_str().unwrap());
    let secret = reference["name"].as_str().unwrap();
    let value = machine.kubectl(&["-n", RELEASE, "get", "secret", secret, &template]).unwrap();
    assert_eq!(value, "secret of moved", "the Secret has no such key, or another value");

    values["rbac"] = json!({"clusterAdministrator": true});
    upgrade(&values);
    assert_eq!([role("moved-velero-server"), role("moved-velero-server-role")], ["cluster-admin", ""]);
    helm.run(&[&["rollback", RELEASE, "1"][..], &quiet].concat(), None).unwrap();
    assert_eq!([role("moved-velero-server"), role("moved-velero-server-role")], ["cluster-admin", ""]);
    all_kept(&before, &kept(machine, RELEASE));
    refuses_what_it_would_harm(machine, RELEASE);
    refuses_what_is_not_of_the_release(machine);
    helm.run(&["uninstall", RELEASE, "--namespace", RELEASE, "--no-hooks"], None).unwrap();
}

/// Velero's chart makes an empty Secret where values have no credentials, for others to fill: it stays, and is used.
fn keeps_a_secret_that_somebody_else_has_filled(machine: &Machine) {
    const RELEASE: &str = "filled";
    let helm = Helm::of(machine);
    let [theirs, ours] = [veleros_chart(), chart()].map(|chart| chart.display().to_string());
    let values = json!({"configuration": {"backupStorageLocation": []}, "snapshotsEnabled": false});
    let quiet = ["--namespace", RELEASE, "--no-hooks"];
    let install = ["install", RELEASE, &theirs, "--create-namespace", "--set=replicas=0"];
    helm.run(&[&install[..], &quiet].concat(), Some(&values)).unwrap();
    let filled = r#"{"stringData": {"cloud": "keys"}}"#;
    machine.kubectl(&["-n", RELEASE, "patch", "secret/filled-velero", "--patch", filled]).unwrap();
    helm.run(&[&["upgrade", RELEASE, &ours][..], &quiet].concat(), Some(&values)).unwrap();
    let get = |object: &str, template: &str| {
        machine.kubectl(&["-n", RELEASE, "get", object, &format!("-o=go-template={template}")]).unwrap()
    };
    assert_eq!(get("secret/filled-velero", "{{.data.cloud | base64decode}}"), "keys");
    let variables = get("deployment/velero", "{{range (index .spec.template.spec.containers 0).env}}{{.name}} {{end}}");
    assert!(variables.contains("AWS_SHARED_CREDENTIALS_FILE"), "{variables}");
    let made =
        machine.kubectl(&["-n", RELEASE, "get", "persistentvolumeclaims,backupstoragelocations", "-o=name"]).unwrap();
    assert_eq!(made, "", "nobody asked for a location");
    helm.run(&["uninstall", RELEASE, "--namespace", RELEASE, "--no-hooks"], None).unwrap();
}

/// A release of Velero's chart is there: what is asked for wrongly changes nothing of it.
fn refuses_what_it_would_harm(machine: &Machine, release: &str) {
    let helm = Helm::of(machine);
    let ours = chart().display().to_string();
    let refused = |arguments: &[&str], values: Option<&Value>, reason: &str| {
        let said = helm.refusal(arguments, values).unwrap();
        assert!(said.contains(reason), "{said}");
    };
    let before = kept(machine, release);
    let upgrade = ["upgrade", release, &ours, "--namespace", release];
    refused(&[&upgrade[..], &["--reuse-values"]].concat(), None, "--reset-then-reuse-values");
    refused(&upgrade, Some(&json!({"image": {"tag": "v1.18.3"}})), "image.tag is v1.18.3");
    refused(
        &upgrade,
        Some(&json!({"rbac": {"clusterAdministrator": true, "clusterAdministratorName": "admin"}})),
        "cannot be changed",
    );
    refused(&["install", "second", &ours, "--namespace", release], None, "but of the release moved");
    let label = ["-n", release, "label", "--overwrite", "deployment/velero"];
    machine.kubectl(&[&label[..], &["helm.sh/chart=velero-8.1.0"]].concat()).unwrap();
    refused(&upgrade, Some(&json!({"replicas": 1})), "upgrade it to Velero's chart 12 first");
    machine.kubectl(&[&label[..], &["helm.sh/chart=velero-13.0.0"]].concat()).unwrap();
    refused(&upgrade, Some(&json!({"replicas": 1})), "12 is the newest of Velero's charts that is known here");
    machine.kubectl(&[&label[..], &["helm.sh/chart=velero-12.1.0"]].concat()).unwrap();
    for (tag, reason) in [("v1.8.1", "older than Velero 1.9"), ("v1.19.0", "newer than Velero 1.18")] {
        let image = format!("velero=docker.io/velero/velero:{tag}");
        machine.kubectl(&["-n", release, "set", "image", "deployment/velero", &image]).unwrap();
        refused(&upgrade, Some(&json!({"replicas": 1})), reason);
    }
    machine.kubectl(&["-n", release, "set", "image", "deployment/velero", PEER_IMAGE]).unwrap();
    assert_eq!(kept(machine, release), before);
}

/// What is of another release, or of none, is left alone.
fn refuses_what_is_not_of_the_release(machine: &Machine) {
    let helm = Helm::of(machine);
    let ours = chart().display().to_string();
    let refused = |arguments: &[&str], reason: &str| {
        let said = helm.refusal(arguments, None).unwrap();
        assert!(said.contains(reason), "{said}");
    };
    let other = machine.folder("other-chart").unwrap();
    fs::create_dir_all(other.join("templates")).unwrap();
    fs::write(other.join("Chart.yaml"), "apiVersion: v2\nname: shop\nversion: 1.0.0\n").unwrap();
    let other_chart = other.display().to_string();
    for kind in ["ConfigMap", "Secret"] {
        let object = format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: shop}}\n");
        fs::write(other.join("templates/shop.yaml"), object).unwrap();
        helm.run(&["install", "shop", &other_chart, "--namespace", "shop", "--create-namespace"], None).unwrap();
        let reason = format!("is of another chart ({kind} shop)");
        refused(&["upgrade", "shop", &ours, "--namespace", "shop"], &reason);
        machine.kubectl(&["-n", "shop", "get", kind, "shop"]).unwrap();
        helm.run(&["uninstall", "shop", "--namespace", "shop"], None).unwrap();
    }

    // A Velero that no release made.
    let velero = CommandLine::new(machine, Edition::Ours);
    velero.velero(&["-n", "by-hand", "install", "--no-default-backup-location", "--no-secret"]).unwrap();
    let uid = ["-n", "by-hand", "get", "deployment/velero", "-o=jsonpath={.metadata.uid}"];
    let before = machine.kubectl(&uid).unwrap();
    refused(
        &["install", "velero", &ours, "--namespace", "by-hand"],
        "is not one of the release velero: remove that Velero first",
    );
    assert_eq!(machine.kubectl(&uid).unwrap(), before);
}

fn load_images(machine: &Machine) {
    let kubectl =
        Image::of_plugin(KUBECTL, &Tool::Kubernetes.path().unwrap()).unwrap().link("../kubernetes", "bin/kubectl");
    let velero = Image::of_velero(&image(), &Edition::Ours.binary().unwrap()).unwrap();
    for made in [kubectl, velero] {
        let archive = machine.state().join("image.tar");
        made.write(&archive).unwrap();
        Images::load(machine, &archive).unwrap();
        fs::remove_file(&archive).unwrap();
    }
}

fn back_up(machine: &Machine, velero: &CommandLine<'_>, name: &str) {
    wait_until("the location", Duration::from_secs(60), || {
        let path = format!("/apis/velero.io/v1/namespaces/{NAMESPACE}/backupstoragelocations/default");
        let phase = &machine.read(&path)?["status"]["phase"];
        anyhow::ensure!(phase == "Available", "the location is {phase}");
        Ok(())
    })
    .unwrap();
    let create = ["-n", NAMESPACE, "backup", "create", name, "--include-namespaces", "default", "--wait"];
    let told = velero.velero(&create).unwrap();
    assert!(told.contains("Backup completed with status: Completed"), "{told}");
}

/// From nothing to a server that works, another one, the first again, and to nothing but the backups.
fn installs_upgrades_rolls_back_and_uninstalls(machine: &Machine, velero: &CommandLine<'_>) {
    load_images(machine);
    let helm = Helm::of(machine);
    let source = chart().display().to_string();
    let within = ["--namespace", NAMESPACE, "--wait", "--timeout=120s"];
    let mut values = familiar_values();
    values["namespace"] = json!({"labels": {"team": "backup"}});
    let (repository, tag) = KUBECTL.rsplit_once(':').unwrap();
    values["kubectl"] = json!({"image": {"repository": repository, "tag": tag}});
    helm.run(&[&["install", "velero", &source][..], &within].concat(), Some(&values)).unwrap();
    let label = ["get", "namespace", NAMESPACE, "-o=jsonpath={.metadata.labels.team}"];
    assert_eq!(machine.kubectl(&label).unwrap(), "backup");
    back_up(machine, velero, "installed");

    let arguments = || {
        let path = "-o=jsonpath={.spec.template.spec.containers[0].args}";
        machine.kubectl(&["-n", NAMESPACE, "get", "deployment/velero", path]).unwrap()
    };
    values["configuration"]["defaultBackupTTL"] = json!("72h");
    helm.run(&[&["upgrade", "velero", &source][..], &within].concat(), Some(&values)).unwrap();
    assert!(arguments().contains("--default-backup-ttl=72h"), "{}", arguments());
    back_up(machine, velero, "upgraded");
    helm.run(&[&["rollback", "velero"][..], &within].concat(), None).unwrap();
    assert!(arguments().contains("--default-backup-ttl=48h"), "{}", arguments());
    back_up(machine, velero, "rolled-back");

    let backups = velero.velero(&["-n", NAMESPACE, "backup", "get"]).unwrap();
    assert_eq!(backups.matches(" Completed ").count(), 3, "{backups}");
    helm.run(&[&["uninstall", "velero"][..], &within].concat(), None).unwrap();
    let left = machine
        .kubectl(&["-n", NAMESPACE, "get", "deployments,jobs,services,schedules,networkpolicies", "-o=name"])
        .unwrap();
    assert_eq!(left, "");
    let rights =
        machine.kubectl(&["get", "clusterroles,clusterrolebindings", "-l=component=velero", "-o=name"]).unwrap();
    assert!(!rights.contains(NAMESPACE) && !rights.contains("velero-server"), "{rights}");
    machine.kubectl(&["-n", NAMESPACE, "get", "backups/installed", "backups/upgraded", "backups/rolled-back"]).unwrap();
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
        keeps_a_secret_that_somebody_else_has_filled(machine);
        installs_upgrades_rolls_back_and_uninstalls(machine, &velero);
    });
    TestBox::down("in-chart").unwrap();
}

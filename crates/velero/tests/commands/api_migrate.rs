//! `velero migrate`: what it says of an installed Velero, and what it makes of its workloads.

use std::io::Write;
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use velero_testkit::{TestCluster, cluster_test};

use crate::api_tables::install_definitions;
use crate::support::{refused, said, velero, with_rights};

/// A Velero as its owner has set it up, with something of everything.
fn install_peer(cluster: &TestCluster, image: &str) {
    let namespace = &cluster.namespace;
    let labels = json!({"component": "velero", "deploy": "velero"});
    let metadata = |name: &str| json!({"name": name, "namespace": namespace, "labels": {"component": "velero"}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("velero"),
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"deploy": "velero"}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "nodeSelector": {"own": "choice"},
                "initContainers": [
                    {"name": "velero-plugin-for-aws", "image": "velero/velero-plugin-for-aws:v1.14.3"},
                    {"name": "own-plugin", "image": "example.com/own:v1"},
                ],
                "containers": [{
                    "name": "velero", "image": image, "command": ["/velero"],
                    "args": ["server", "--features=EnableCSI", "--uploader-type=kopia", "--no-such-flag=1"],
                    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
                }],
            }},
        },
    });
    let agents = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata("node-agent"),
        "spec": {
            "selector": {"matchLabels": {"name": "node-agent"}},
            "template": {"metadata": {"labels": {"name": "node-agent", "role": "node-agent"}}, "spec": {
                "nodeSelector": {"nowhere": "true"},
                "containers": [{"name": "node-agent", "image": image, "args": ["node-agent", "server", "--features=EnableCSI"]}],
            }},
        },
    });
    let own = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata(name), "spec": spec});
    let machine = cluster.test_box.machine();
    for object in [
        deployment,
        agents,
        own("Schedule", "daily", json!({"schedule": "0 3 * * *", "template": {}})),
        own(
            "BackupStorageLocation",
            "default",
            json!({
                "provider": "aws", "objectStorage": {"bucket": "b"}, "config": {"regoin": "r"},
            }),
        ),
        own(
            "BackupRepository",
            "old",
            json!({
                "repositoryType": "restic", "volumeNamespace": "a", "backupStorageLocation": "default",
                "resticIdentifier": "r", "maintenanceFrequency": "1h",
            }),
        ),
    ] {
        machine.apply(&object.to_string()).unwrap();
    }
}

#[test]
fn every_object_of_an_installed_velero_is_judged() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        let told = refused(&cluster, &["migrate", "check"]);
        assert!(told.contains("no Velero is installed in this namespace"), "{told}");

        install_peer(&cluster, "velero/velero:v1.18.3");
        let report: Value = serde_json::from_str(&said(&cluster, &["migrate", "check", "-o", "json"])).unwrap();
        let verdict = |object: &str| {
            let lines = report["objects"].as_array().unwrap();
            let line = lines.iter().find(|line| line["object"] == object);
            line.unwrap_or_else(|| panic!("{object} is not in {report:#}"))["verdict"].as_str().unwrap().to_owned()
        };
        for (object, expected) in [
            ("Deployment/velero", "Works"),
            ("Deployment/velero --no-such-flag=1", "Missing"),
            ("DaemonSet/node-agent", "Works"),
            ("Plugin/velero-plugin-for-aws", "Works"),
            ("Schedule/daily", "Works"),
            ("BackupStorageLocation/default", "Missing"),
            ("BackupRepository/old", "Missing"),
        ] {
            assert_eq!(verdict(object), expected, "{object}");
        }
        let table = said(&cluster, &["migrate", "check"]);
        assert!(table.contains("invalid keys [regoin]") && table.contains("0 stand in the way."), "{table}");

        let folder = tempfile::tempdir().unwrap();
        let rights = [("list", "deployments.apps,schedules.velero.io")];
        let kubeconfig = with_rights(&cluster, folder.path(), "reader", &rights);
        let output = Command::new(env!("CARGO_BIN_EXE_velero"))
            .args(["--namespace", &cluster.namespace, "--kubeconfig"])
            .arg(&kubeconfig)
            .args(["migrate", "check"])
            .env("HOME", "/nonexistent")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let table = String::from_utf8(output.stdout).unwrap();
        for told in ["Schedule/daily", "Velero 1.18", "configmaps is forbidden", "backups.velero.io is forbidden"] {
            assert!(table.contains(told), "{told:?} is missing in {table}");
        }
    });
}

/// The specifications of server and node agents.
fn specs(cluster: &TestCluster) -> [Value; 2] {
    ["deployments/velero", "daemonsets/node-agent"].map(|path| {
        let path = format!("/apis/apps/v1/namespaces/{}/{path}", cluster.namespace);
        cluster.test_box.machine().read(&path).unwrap()["spec"].clone()
    })
}

#[test]
fn a_velero_too_old_or_too_new_is_refused_before_anything_is_changed() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        for (image, words) in [
            ("velero/velero:v1.8.1", "older than 1.9: upgrade Velero to 1.18 first"),
            ("velero/velero:v1.19.0", "newer than 1.18"),
            ("velero/velero:v2.0.0", "newer than 1.18"),
        ] {
            install_peer(&cluster, image);
            let before = specs(&cluster);
            for arguments in [&["migrate", "check"][..], &["migrate", "run"], &["migrate", "run", "--force"]] {
                let told = refused(&cluster, arguments);
                assert!(told.contains(words), "{told}");
            }
            assert_eq!(specs(&cluster), before, "{image}");
        }
        for image in ["velero/velero:v1.9.7", "velero/velero:v1.12.4", "velero/velero:v1.18.3"] {
            install_peer(&cluster, image);
            let told = said(&cluster, &["migrate", "check"]);
            assert!(told.contains("0 stand in the way."), "{image}: {told}");
        }
        let told = refused(&cluster, &["migrate", "back"]);
        assert!(told.contains("velero-before-migration"), "nothing is kept yet: {told}");
    });
}

#[test]
fn who_may_not_do_all_of_an_exchange_is_refused_before_a_part_of_it_is_done() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        install_peer(&cluster, "velero/velero:v1.18.3");
        let before = specs(&cluster);
        let folder = tempfile::tempdir().unwrap();
        let own = ["backups", "restores", "schedules", "backupstoragelocations", "volumesnapshotlocations"];
        let further = ["backuprepositories", "podvolumebackups", "datauploads"];
        let own = own.iter().chain(&further).map(|name| format!("{name}.velero.io")).collect::<Vec<_>>().join(",");
        let rights = [
            ("get,list,create,patch", "configmaps"),
            ("get,list", "secrets,serviceaccounts,deployments.apps,daemonsets.apps"),
            ("list", own.as_str()),
        ];
        let kubeconfig = with_rights(&cluster, folder.path(), "owner", &rights);
        let output = Command::new(env!("CARGO_BIN_EXE_velero"))
            .args(["--namespace", &cluster.namespace, "--kubeconfig"])
            .arg(&kubeconfig)
            .args(["migrate", "run", "--image=example.com/velero-rust:v1"])
            .env("HOME", "/nonexistent")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        for words in ["create customresourcedefinitions.apiextensions.k8s.io", "nothing was changed"] {
            assert!(told.contains(words), "{words:?} is missing in {told}");
        }
        assert_eq!(specs(&cluster), before);
        let kept = format!("/api/v1/namespaces/{}/configmaps/velero-before-migration", cluster.namespace);
        assert!(cluster.test_box.machine().read(&kept).is_err(), "something is kept of what was not replaced");
    });
}

/// What Helm remembers of a release.
fn helm_release(cluster: &TestCluster, chart: &Value, values: &Value) -> Value {
    let document = json!({"name": "backup", "version": 1, "chart": {"metadata": chart}, "config": values});
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(document.to_string().as_bytes()).unwrap();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {
            "name": "sh.helm.release.v1.backup.v1", "namespace": cluster.namespace,
            "labels": {"owner": "helm", "name": "backup", "status": "deployed", "version": "1"},
        },
        "stringData": {"release": BASE64_STANDARD.encode(packed.finish().unwrap())},
    })
}

#[test]
fn a_release_of_helm_is_left_to_helm_and_the_values_that_our_chart_refuses_are_named() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        install_peer(&cluster, "velero/velero:v1.18.3");
        let before = specs(&cluster);
        let values = json!({
            "image": {"tag": "v1.18.1"}, "snapshotsEnabled": false,
            "configuration": {"defaultBackupTtl": "1h", "defaultVolumesToRestic": true},
        });
        let release = helm_release(&cluster, &json!({"name": "velero", "version": "12.1.0"}), &values);
        cluster.test_box.machine().apply(&release.to_string()).unwrap();
        let told = said(&cluster, &["migrate", "check"]);
        for expected in [
            "chart velero-12.1.0: upgrade the release to our chart",
            "Release/backup value configuration.defaultBackupTtl",
            "it is called defaultVolumesToFsBackup",
            "Release/backup value image.tag",
        ] {
            assert!(told.contains(expected), "{expected}: {told}");
        }
        let told = refused(&cluster, &["migrate", "run", "--image=example.com/velero-rust:v1"]);
        assert!(told.contains("nothing was changed: Helm has installed this Velero"), "{told}");
        assert_eq!(specs(&cluster), before);

        // A release of something else under that name says nothing about the Velero that is there.
        let release = helm_release(&cluster, &json!({"name": "shop", "version": "1.0.0"}), &values);
        cluster.test_box.machine().apply(&release.to_string()).unwrap();
        let told = said(&cluster, &["migrate", "check"]);
        assert!(!told.contains("Release/"), "{told}");
    });
}

#[test]
fn what_a_repository_keeps_as_it_is_is_exchanged_only_by_force() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        install_peer(&cluster, "velero/velero:v1.18.3");
        let before = specs(&cluster);
        let tracked = "argocd.argoproj.io/tracking-id=backup:apps/Deployment:velero/velero";
        let machine = cluster.test_box.machine();
        machine.kubectl(&["-n", &cluster.namespace, "annotate", "deployment/velero", tracked]).unwrap();
        let told = said(&cluster, &["migrate", "check"]);
        assert!(told.contains("application \"backup\" of Argo CD") && told.contains("0 stand in the way."), "{told}");
        let run = ["migrate", "run", "--image=example.com/velero-rust:v1"];
        let told = refused(&cluster, &run);
        assert!(told.contains("nothing was changed: Deployment/velero") && told.contains("use --force"), "{told}");
        assert_eq!(specs(&cluster), before);
        said(&cluster, &[&run[..], &["--force"]].concat());
        assert_ne!(specs(&cluster), before);
    });
}

#[test]
fn workloads_are_exchanged_and_put_back_as_they_were() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        install_peer(&cluster, "velero/velero:v1.18.3");
        let machine = cluster.test_box.machine();
        let namespace = &cluster.namespace;
        let read = |path: &str| machine.read(&format!("/apis/apps/v1/namespaces/{namespace}/{path}")).unwrap();
        let specs = || [read("deployments/velero")["spec"].clone(), read("daemonsets/node-agent")["spec"].clone()];
        let before = specs();

        let running = json!({
            "apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "running", "namespace": namespace},
            "spec": {}, "status": {"phase": "InProgress"},
        });
        machine.apply(&running.to_string()).unwrap();
        let told = refused(&cluster, &["migrate", "run", "--image=example.com/velero-rust:v1"]);
        assert!(told.contains("running") && told.contains("nothing was changed"), "{told}");
        assert_eq!(specs(), before);

        let shown = said(&cluster, &["migrate", "run", "--image=example.com/velero-rust:v1", "--force", "--dry-run"]);
        assert!(shown.contains("example.com/velero-rust:v1"), "{shown}");
        assert_eq!(specs(), before);

        let output = velero(&cluster, &["migrate", "run", "--image=example.com/velero-rust:v1", "--force"]);
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        let missing = told.lines().find(|line| line.starts_with("Missing here: BackupStorageLocation/default: "));
        assert!(missing.is_some_and(|line| line.contains("[regoin]") && line.contains("its plugin stays")), "{told}");
        let [server, agents] = specs();
        let pod = &server["template"]["spec"];
        assert_eq!(pod["containers"][0]["image"], "example.com/velero-rust:v1");
        assert_eq!(pod["containers"][0]["args"], json!(["server", "--features=EnableCSI", "--uploader-type=kopia"]));
        assert_eq!(pod["containers"][0]["env"][0]["name"], "HTTPS_PROXY");
        assert_eq!(pod["nodeSelector"], json!({"own": "choice"}));
        let plugins: Vec<&Value> =
            pod["initContainers"].as_array().unwrap().iter().map(|plugin| &plugin["name"]).collect();
        assert_eq!(plugins, ["velero-plugin-for-aws", "own-plugin"], "our store refuses the location");
        assert_eq!(agents["template"]["spec"]["containers"][0]["image"], "example.com/velero-rust:v1");
        machine.read(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/velero-data-mover")).unwrap();

        let again = refused(&cluster, &["migrate", "run", "--force"]);
        assert!(again.contains("are ours already"), "{again}");
        said(&cluster, &["migrate", "back", "--force"]);
        assert_eq!(specs(), before);
        let output = velero(&cluster, &["migrate", "back", "--force"]);
        assert!(!output.status.success(), "what is back cannot be put back again: {output:?}");

        // What somebody has put back another way is not overwritten by what was kept of it.
        said(&cluster, &["migrate", "run", "--image=example.com/velero-rust:v1", "--force"]);
        let newer = "node-agent=velero/velero:v1.18.4";
        machine.kubectl(&["-n", namespace, "set", "image", "daemonset/node-agent", newer]).unwrap();
        let told = said(&cluster, &["migrate", "back", "--force"]);
        assert!(told.contains("DaemonSet/node-agent: is not ours, and stays as it is"), "{told}");
        let [server, agents] = specs();
        assert_eq!(server, before[0]);
        assert_eq!(agents["template"]["spec"]["containers"][0]["image"], "velero/velero:v1.18.4");
    });
}

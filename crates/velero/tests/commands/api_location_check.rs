//! `velero backup-location check`: locations of the cluster and of files, good and broken.

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};
use velero_testkit::parts::BUCKET;
use velero_testkit::server::credentials_file;
use velero_testkit::{TestBox, TestCluster, cluster_test};

use crate::api_tables::install_definitions;
use crate::support::{refused, said, velero};

fn location(name: &str, namespace: &str, bucket: &str, credential: bool) -> Value {
    let mut location = json!({
        "apiVersion": "velero.io/v1",
        "kind": "BackupStorageLocation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "provider": "aws",
            "objectStorage": {"bucket": bucket, "prefix": format!("check-{namespace}")},
            "config": {"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": TestBox::store_url()},
        },
    });
    if credential {
        location["spec"]["credential"] = json!({"name": "keys", "key": "cloud"});
    }
    location
}

#[test]
fn a_location_of_the_cluster_is_tried_out_with_its_credentials() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        let machine = cluster.test_box.machine();
        let namespace = &cluster.namespace;
        let keys = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": namespace},
            "stringData": {"cloud": credentials_file()},
        });
        machine.apply(&location("early", namespace, BUCKET, true).to_string()).unwrap();
        let told = refused(&cluster, &["backup-location", "check", "early"]);
        assert!(told.contains("spec.credential refers to key \"cloud\" of secret \"keys\""), "{told}");
        machine.apply(&keys.to_string()).unwrap();
        let told = said(&cluster, &["backup-location", "check", "early"]);
        assert!(told.contains("delete   ok") && told.contains("early can be used."), "{told}");

        machine.apply(&location("lost", namespace, "no-such-bucket", true).to_string()).unwrap();
        let output = velero(&cluster, &["backup-location", "check", "lost", "-o", "json"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["good"], false);
        assert_eq!(report["findings"][0]["cause"], "BucketMissing");
        assert_eq!(report["findings"][0]["severity"], "Error");
        assert_eq!(report["steps"][0], json!({"step": "list", "result": "refused", "detail": "404 NoSuchBucket"}));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("bucket \"no-such-bucket\" does not exist; create it"), "{told}");

        let told = refused(&cluster, &["backup-location", "check", "absent"]);
        assert!(told.contains("\"absent\" not found"), "{told}");
    });
}

/// Checks a file without any cluster, with these variables.
fn check_file(cluster: &TestCluster, location: &Value, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let folder = cluster.test_box.machine().folder(&cluster.namespace).unwrap();
    let file = folder.join("location.yaml");
    fs::write(&file, location.to_string()).unwrap();
    Command::new(env!("CARGO_BIN_EXE_velero"))
        .args(["backup-location", "check", "--kubeconfig=/nonexistent", "--file"])
        .arg(&file)
        .args(arguments)
        .env("HOME", "/nonexistent")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn a_location_of_a_file_is_tried_out_before_there_is_a_cluster() {
    cluster_test(|cluster| async move {
        let folder = cluster.test_box.machine().folder(&cluster.namespace).unwrap();
        let keys = folder.join("keys");
        fs::write(&keys, credentials_file()).unwrap();
        let keys = format!("--credentials-file={}", keys.display());
        let good = location("planned", "velero", BUCKET, true);
        let output = check_file(&cluster, &good, &[&keys], &[]);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && told.contains("planned can be used."), "{output:?}");

        // A key as a pod gets it from a Secret that was made with echo.
        let plain = location("planned", "velero", BUCKET, false);
        let variables = [("AWS_ACCESS_KEY_ID", "velero-box"), ("AWS_SECRET_ACCESS_KEY", "velero-box-secret\n")];
        let output = check_file(&cluster, &plain, &[], &variables);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(told.contains("AWS_SECRET_ACCESS_KEY ends in a line break; write it again without one"), "{told}");
        let right = [variables[0], ("AWS_SECRET_ACCESS_KEY", "velero-box-secret")];
        let output = check_file(&cluster, &plain, &["-o", "yaml"], &right);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && told.contains("good: true"), "{output:?}");

        let output = check_file(&cluster, &json!({"kind": "Backup"}), &[], &[]);
        assert!(String::from_utf8_lossy(&output.stderr).contains("kind \"Backup\""), "{output:?}");
    });
}

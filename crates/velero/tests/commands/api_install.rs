//! `velero install` looks at the bucket before anything is changed.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::json;
use velero_store::{Credentials, StoreConfig};
use velero_testkit::parts::BUCKET;
use velero_testkit::server::credentials_file;
use velero_testkit::{TestBox, TestCluster, cluster_test};

use crate::api_tables::install_definitions;
use crate::support::{refused, said};

/// What opens the bucket of the tests.
fn bucket() -> StoreConfig {
    let mut config = StoreConfig::new("aws", BUCKET)
        .with("region", "us-east-1")
        .with("s3ForcePathStyle", "true")
        .with("s3Url", TestBox::store_url());
    config.credentials = Some(Credentials::Content(credentials_file()));
    config
}

/// The file with the keys of the bucket.
fn keys(cluster: &TestCluster) -> PathBuf {
    let keys = cluster.test_box.machine().folder(&cluster.namespace).unwrap().join("keys");
    fs::write(&keys, credentials_file()).unwrap();
    keys
}

/// What is said to an installation with a label that the API server refuses, so that nothing comes of it.
fn install(cluster: &TestCluster, url: &str, flags: &[&str]) -> String {
    let (bucket, prefix) = (format!("--bucket={BUCKET}"), format!("--prefix={}", cluster.namespace));
    let secret = format!("--secret-file={}", keys(cluster).display());
    let config = format!("--backup-location-config=region=us-east-1,s3ForcePathStyle=true,s3Url={url}");
    let wrong = "--pod-labels=a=not a label";
    let all: [&str; 7] = ["install", "--provider=aws", &bucket, &prefix, &secret, &config, wrong];
    refused(cluster, &[&all[..], flags].concat())
}

/// The end of what is said when nothing but that label is wrong.
const LABEL_REFUSED: &str = "Deployment/velero is refused; nothing was changed";

#[test]
fn backups_that_lie_in_the_bucket_are_told_before_anything_is_changed() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        let (machine, namespace) = (cluster.test_box.machine(), &cluster.namespace);
        let store = bucket().open().await.unwrap();
        store.put(&format!("{namespace}/backups/theirs/velero-backup.json"), "{}".into()).await.unwrap();

        let told = install(&cluster, &TestBox::store_url(), &[]);
        assert!(told.contains("WARNING") && told.contains("not of this cluster (theirs)"), "{told}");
        assert!(told.contains(LABEL_REFUSED), "{told}");
        let left = machine.kubectl(&["-n", namespace, "get", "secrets,deployments", "-o", "name"]).unwrap();
        assert_eq!(left, "", "nothing was changed");

        let told = install(&cluster, "http://127.0.0.1:9", &[]);
        assert!(told.contains("Note: --bucket") && told.contains("nothing listens at http://127.0.0.1:9"), "{told}");
        assert!(told.contains(LABEL_REFUSED), "{told}");

        let metadata = json!({"name": "theirs", "namespace": namespace});
        let known = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": {}});
        machine.apply(&known.to_string()).unwrap();
        let told = install(&cluster, &TestBox::store_url(), &[]);
        assert!(!told.contains("WARNING") && !told.contains("Note:") && told.contains(LABEL_REFUSED), "{told}");
    });
}

#[test]
fn a_bucket_that_another_cluster_uses_is_refused_unless_it_is_meant() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        let (machine, namespace) = (cluster.test_box.machine(), &cluster.namespace);
        let store = bucket().open().await.unwrap();
        let annotations = json!({"velero.io/source-cluster-uid": "another"});
        let lately = json!({
            "apiVersion": "velero.io/v1",
            "kind": "Backup",
            "metadata": {"name": "lately", "namespace": "velero", "annotations": annotations},
            "spec": {},
            "status": {"completionTimestamp": Timestamp::now().to_string()},
        });
        store.put(&format!("{namespace}/backups/lately/velero-backup.json"), lately.to_string().into()).await.unwrap();

        let told = install(&cluster, &TestBox::store_url(), &[]);
        for part in ["is used by another cluster", "UID another", "\"lately\"", "--share-bucket; nothing was changed"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let told = install(&cluster, &TestBox::store_url(), &["--share-bucket"]);
        assert!(told.contains("WARNING") && told.contains(LABEL_REFUSED), "{told}");

        let from_file = format!("--from-file=cloud={}", keys(&cluster).display());
        machine.kubectl(&["-n", namespace, "create", "secret", "generic", "cloud-credentials", &from_file]).unwrap();
        let (bucket, prefix) = (format!("--bucket={BUCKET}"), format!("--prefix={namespace}"));
        let config = format!("--config=region=us-east-1,s3ForcePathStyle=true,s3Url={}", TestBox::store_url());
        let create: [&str; 6] = ["backup-location", "create", "--provider=aws", &bucket, &prefix, &config];
        let told = refused(&cluster, &[&create[..], &["theirs"]].concat());
        assert!(told.contains("is used by another cluster") && told.contains("--share-bucket"), "{told}");
        for flags in [["theirs", "--access-mode=ReadOnly"], ["both", "--share-bucket"]] {
            let told = said(&cluster, &[&create[..], &flags[..]].concat());
            assert!(told.contains("configured successfully"), "{told}");
        }
        // Who shares it already goes on doing so.
        let told = install(&cluster, &TestBox::store_url(), &[]);
        assert!(told.contains(LABEL_REFUSED), "{told}");
    });
}

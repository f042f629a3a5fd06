//! `velero install` looks at the bucket before anything is changed.

use std::fs;

use serde_json::json;
use velero_store::{Credentials, StoreConfig};
use velero_testkit::parts::BUCKET;
use velero_testkit::server::credentials_file;
use velero_testkit::{TestBox, cluster_test};

use crate::api_tables::install_definitions;
use crate::support::refused;

#[test]
fn backups_that_lie_in_the_bucket_are_told_before_anything_is_changed() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        let (machine, namespace) = (cluster.test_box.machine(), &cluster.namespace);
        let keys = machine.folder(namespace).unwrap().join("keys");
        fs::write(&keys, credentials_file()).unwrap();
        let mut config = StoreConfig::new("aws", BUCKET)
            .with("region", "us-east-1")
            .with("s3ForcePathStyle", "true")
            .with("s3Url", TestBox::store_url());
        config.credentials = Some(Credentials::Content(credentials_file()));
        let store = config.open().await.unwrap();
        store.put(&format!("{namespace}/backups/theirs/velero-backup.json"), "{}".into()).await.unwrap();

        // The label is refused by the API server, so nothing comes of it.
        let install = |url: &str| {
            let (bucket, prefix) = (format!("--bucket={BUCKET}"), format!("--prefix={namespace}"));
            let secret = format!("--secret-file={}", keys.display());
            let config = format!("--backup-location-config=region=us-east-1,s3ForcePathStyle=true,s3Url={url}");
            let wrong = "--pod-labels=a=not a label";
            let told = refused(&cluster, &["install", "--provider=aws", &bucket, &prefix, &secret, &config, wrong]);
            assert!(told.contains("Deployment/velero is refused; nothing was changed"), "{told}");
            told
        };
        let told = install(&TestBox::store_url());
        assert!(told.contains("WARNING") && told.contains("not of this cluster (theirs)"), "{told}");
        let left = machine.kubectl(&["-n", namespace, "get", "secrets,deployments", "-o", "name"]).unwrap();
        assert_eq!(left, "", "nothing was changed");

        let told = install("http://127.0.0.1:9");
        assert!(told.contains("Note: --bucket") && told.contains("nothing listens at http://127.0.0.1:9"), "{told}");

        let metadata = json!({"name": "theirs", "namespace": namespace});
        let known = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": {}});
        machine.apply(&known.to_string()).unwrap();
        let told = install(&TestBox::store_url());
        assert!(!told.contains("WARNING") && !told.contains("Note:"), "{told}");
    });
}

//! Locations in the S3 store of the box.

use velero_api::v1::BackupStorageLocationSpec;
use velero_testkit::faulty_proxy::{self, Rule};
use velero_testkit::parts::{ACCESS_KEY, BUCKET, SECRET_KEY};
use velero_testkit::{TestBox, TestCluster};

use crate::support::secret;

/// A location in the box's store, below a prefix of the test's own.
pub(crate) fn s3(cluster: &TestCluster) -> BackupStorageLocationSpec {
    let mut spec = BackupStorageLocationSpec { provider: "aws".to_owned(), default: true, ..Default::default() };
    let config = [
        ("region", "us-east-1".to_owned()),
        ("s3ForcePathStyle", "true".to_owned()),
        ("s3Url", TestBox::store_url_for_pods()),
    ];
    spec.config = config.map(|(key, value)| (key.to_owned(), value)).into();
    spec.object_storage.bucket = BUCKET.to_owned();
    spec.object_storage.prefix.clone_from(&cluster.namespace);
    let selector = serde_json::json!({"name": "cloud-credentials", "key": "cloud"});
    spec.credential = Some(serde_json::from_value(selector).unwrap());
    spec
}

/// The same behind a proxy that does with requests what a rule says; its credentials are there.
pub(crate) async fn s3_behind(cluster: &TestCluster, rule: impl Rule + 'static) -> BackupStorageLocationSpec {
    secret(cluster, "cloud-credentials", "cloud", &s3_keys()).await;
    let mut spec = s3(cluster);
    let url = faulty_proxy::start_with(&TestBox::store_url_for_pods(), rule).await.unwrap();
    spec.config.insert("s3Url".to_owned(), url);
    spec
}

/// The credentials of the box's store, as a file.
pub(crate) fn s3_keys() -> String {
    format!("[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n")
}

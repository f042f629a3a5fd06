//! The S3 of a box that tests share. Who uses it names the box, so that it is known which modules need it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use velero_store::{Credentials, StoreConfig};
use velero_testkit::{BoxKind, TestBox};

/// Its address; it is there, and so is a bucket of the module's own: a location would refuse the folders of these tests.
pub(crate) fn endpoint(box_name: &str, bucket: &'static str) -> String {
    static READY: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut ready = READY.lock().unwrap_or_else(PoisonError::into_inner);
    if !ready.contains(bucket) {
        TestBox::up(box_name, BoxKind::ControlPlane).unwrap();
        TestBox::make_bucket(bucket).unwrap();
        ready.insert(bucket);
    }
    TestBox::store_url()
}

/// A location in a bucket at an address.
pub(crate) fn location(url: &str, bucket: &str, credentials: &str) -> StoreConfig {
    let mut config = StoreConfig::new("velero.io/aws", bucket)
        .with("region", "us-east-1")
        .with("s3ForcePathStyle", "true")
        .with("s3Url", url);
    config.credentials = Some(Credentials::Content(credentials.to_owned()));
    config
}

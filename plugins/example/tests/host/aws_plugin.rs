//! Velero's own AWS plugin, unmodified, as an object store under our host, against the S3 server of the shared box.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use velero_plugin::host::{HostSettings, PluginDirectory};
use velero_store::{ObjectStoreHandle, conformance, read_all};
use velero_testkit::harness::SHARED_BOX;
use velero_testkit::server::credentials_file;
use velero_testkit::{BoxKind, TestBox, Tool};

const BUCKET: &str = "plugin-tests";

async fn plugins() -> (tempfile::TempDir, PluginDirectory) {
    let folder = tempfile::tempdir().unwrap();
    let binary = Tool::VeleroPluginForAws.path().unwrap();
    std::os::unix::fs::symlink(binary, folder.path().join("velero-plugin-for-aws")).unwrap();
    let directory = PluginDirectory::discover(folder.path(), HostSettings::default()).await.unwrap();
    (folder, directory)
}

async fn open(directory: &PluginDirectory, credentials: &std::path::Path) -> ObjectStoreHandle {
    TestBox::up(SHARED_BOX, BoxKind::ControlPlane).unwrap();
    TestBox::make_bucket(BUCKET).unwrap();
    let entries = [
        ("region", "us-east-1".to_owned()),
        ("s3ForcePathStyle", "true".to_owned()),
        ("s3Url", TestBox::store_url()),
        ("bucket", BUCKET.to_owned()),
        ("prefix", String::new()),
        ("credentialsFile", credentials.display().to_string()),
    ];
    let config: BTreeMap<_, _> = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    directory.manager().object_store("velero.io/aws", BUCKET, &config).await.unwrap()
}

fn folder(test: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    format!("{test}-{now}/")
}

#[tokio::test(flavor = "multi_thread")]
async fn velero_s_aws_plugin_passes_the_conformance_suite() {
    let (plugin_folder, directory) = plugins().await;
    let listed: Vec<_> = directory.plugins().iter().map(|plugin| format!("{} {}", plugin.kind, plugin.name)).collect();
    assert_eq!(listed, ["VolumeSnapshotter velero.io/aws", "ObjectStore velero.io/aws"]);
    let credentials = plugin_folder.path().join("cloud");
    fs::write(&credentials, credentials_file()).unwrap();
    let store = open(&directory, &credentials).await;
    conformance::run(&store, &folder("conformance")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_key_the_aws_plugin_does_not_have_is_refused_in_its_words() {
    let (_folder, directory) = plugins().await;
    let config = BTreeMap::from([("nonsense".to_owned(), "x".to_owned())]);
    let outcome = directory.manager().object_store("aws", BUCKET, &config).await;
    let error = outcome.map(drop).unwrap_err().to_string();
    assert!(error.contains("ObjectStore velero.io/aws: Init: config has invalid keys [nonsense]"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_larger_than_memory_would_hold_is_streamed_both_ways() {
    let (plugin_folder, directory) = plugins().await;
    let credentials = plugin_folder.path().join("cloud");
    fs::write(&credentials, credentials_file()).unwrap();
    let store = open(&directory, &credentials).await;
    let key = format!("{}large", folder("streamed"));
    let chunks = 1_000_u32;
    let content = futures::stream::iter((0..chunks).map(|number| Ok(Bytes::from(vec![number as u8; 50_000]))));
    store.put_stream(&key, Box::pin(content)).await.unwrap();
    let found = read_all(&key, store.get_stream(&key).await.unwrap(), 60_000_000).await.unwrap();
    assert_eq!(found.len(), 50_000_000);
    assert!(found.chunks(50_000).enumerate().all(|(number, chunk)| chunk.iter().all(|byte| *byte == number as u8)));
    let url = store.signed_url(&key, Duration::from_secs(60)).await.unwrap();
    assert!(url.starts_with("http"), "{url}");
    store.delete_object(&key).await.unwrap();
    assert!(!store.exists(&key).await.unwrap());
}

//! The client for Google Cloud Storage: conformance and signed URLs, on a real server of the protocol it speaks.
//!
//! The server is a gateway in the store of the shared box, reached through its door on loopback. It takes every token,
//! so what Google's own servers think of our tokens and signatures is not tested here.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use velero_store::{Credentials, ObjectStoreHandle, StoreConfig, conformance};
use velero_testkit::faulty_proxy::{self, Action, Request};
use velero_testkit::harness::{SHARED_BOX, unique_name};
use velero_testkit::parts::{GCS_BUCKET, GcsGateway};
use velero_testkit::{BoxKind, TestBox};

const ACCOUNT: &str = "velero@velero-box.iam.gserviceaccount.com";

async fn open() -> ObjectStoreHandle {
    static READY: OnceLock<()> = OnceLock::new();
    READY.get_or_init(|| {
        TestBox::up(SHARED_BOX, BoxKind::ControlPlane).unwrap();
        TestBox::start_in_store(&GcsGateway).unwrap();
    });
    let mut config = StoreConfig::new("velero.io/gcp", GCS_BUCKET).with("storeEndpoint", GcsGateway::url());
    config.credentials = Some(Credentials::Content(service_account()));
    config.open().await.unwrap()
}

/// A key file as Google hands it out, with a key made on the spot.
fn service_account() -> String {
    let key = run(Command::new("openssl").args(["genpkey", "-quiet", "-algorithm", "RSA"]));
    serde_json::json!({
        "type": "service_account",
        "project_id": "velero-box",
        "private_key_id": "1",
        "private_key": key,
        "client_email": ACCOUNT,
    })
    .to_string()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn gcs_passes_the_conformance_suite() {
    conformance::run(&open().await, &format!("{}/", unique_name("conformance"))).await.unwrap();
}

#[tokio::test]
async fn a_signed_url_leads_to_the_object_and_carries_the_accounts_signature() {
    let store = open().await;
    let key = format!("{}/backups/b1/b1-logs.gz", unique_name("signed"));
    store.put(&key, Bytes::from_static(b"the log")).await.unwrap();
    let url = store.signed_url(&key, Duration::from_secs(60)).await.unwrap();
    assert!(url.starts_with(&format!("{}/{GCS_BUCKET}/{key}?", GcsGateway::url())), "{url}");
    let value = |name: &str| url.split(['?', '&']).find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    assert!(value("X-Goog-Credential").unwrap().starts_with(&ACCOUNT.replace('@', "%40")), "{url}");
    assert_eq!(value("X-Goog-Expires"), Some("60"));
    assert_eq!(value("X-Goog-Signature").unwrap().len(), 512, "a signature of 2048 bits in hexadecimal");
    assert_eq!(run(Command::new("curl").args(["--silent", "--show-error", "--fail", &url])), "the log");
    store.delete_object(&key).await.unwrap();
}

#[tokio::test]
async fn objects_are_made_with_the_key_that_the_location_names() {
    open().await;
    const KEY: &str = "projects/p/locations/l/keyRings/r/cryptoKeys/k";
    let named = Arc::new(AtomicUsize::new(0));
    let counter = named.clone();
    let url = faulty_proxy::start(&GcsGateway::url(), move |request: &Request| {
        let has_key = request.header("x-goog-encryption-kms-key-name").as_deref() == Some(KEY);
        assert!(!has_key || request.method != "GET", "a read names no key");
        counter.fetch_add(usize::from(has_key), Ordering::SeqCst);
        Action::Forward
    })
    .await
    .unwrap();
    let mut config = StoreConfig::new("gcp", GCS_BUCKET).with("storeEndpoint", url).with("kmsKeyName", KEY);
    config.credentials = Some(Credentials::Content(service_account()));
    let store = config.open().await.unwrap();
    let key = format!("{}/encrypted", unique_name("kms"));
    store.put(&key, Bytes::from_static(b"secret")).await.unwrap();
    assert_eq!(named.load(Ordering::SeqCst), 1);
    let large: Vec<u8> = vec![7; 12 << 20];
    store.put(&key, large.into()).await.unwrap();
    assert_eq!(named.load(Ordering::SeqCst), 2, "an upload of parts names it once, when it begins");
    store.delete_object(&key).await.unwrap();
}

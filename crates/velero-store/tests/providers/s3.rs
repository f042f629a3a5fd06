//! A real S3 server: conformance, signed URLs, and connections that fail or damage what they carry.
//!
//! The server is the store of the shared box, reached through its door on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use velero_store::{ByteStream, Credentials, ObjectStoreHandle, StoreConfig, conformance, read_all};
use velero_testkit::faulty_proxy::{self, Action, Request, first_uploads};
use velero_testkit::harness::SHARED_BOX;
use velero_testkit::server::credentials_file;

use crate::shared_store::{self, location};

const BUCKET: &str = "store-tests";

fn endpoint() -> String {
    shared_store::endpoint(SHARED_BOX, BUCKET)
}

async fn open(endpoint: &str) -> ObjectStoreHandle {
    open_with_checksum(endpoint, "CRC32").await
}

async fn open_with_checksum(endpoint: &str, algorithm: &str) -> ObjectStoreHandle {
    let mut config = location(endpoint, BUCKET, &credentials_file()).with("checksumAlgorithm", algorithm);
    config.transfer.part_size = 5 << 20;
    config.transfer.retries = 6;
    config.open().await.unwrap()
}

/// The store as seen through a proxy that follows `rule`, and the store itself.
async fn behind(rule: impl Fn(&Request) -> Action + Send + Sync + 'static) -> (ObjectStoreHandle, ObjectStoreHandle) {
    let endpoint = endpoint();
    let damaged = faulty_proxy::start(&endpoint, rule).await.unwrap();
    (open(&damaged).await, open(&endpoint).await)
}

fn folder(test: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    format!("store-tests/{test}-{now}/")
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn stream_of(content: &[u8]) -> ByteStream {
    let chunks: Vec<_> = content.chunks(1 << 18).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks).boxed()
}

async fn holds(store: &ObjectStoreHandle, key: &str, expected: &[u8]) -> bool {
    let stream = store.get_stream(key).await.unwrap();
    read_all(key, stream, 100 << 20).await.unwrap() == expected
}

#[tokio::test]
async fn s3_passes_the_conformance_suite() {
    conformance::run(&open(&endpoint()).await, &folder("conformance")).await.unwrap();
}

#[tokio::test]
async fn anyone_can_read_from_a_signed_url() {
    let store = open(&endpoint()).await;
    let key = format!("{}a log+file.gz", folder("signed"));
    store.put(&key, Bytes::from_static(b"the log")).await.unwrap();
    let url = store.signed_url(&key, Duration::from_secs(60)).await.unwrap();
    let (host, target) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut connection = tokio::net::TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("the log"), "{answer}");
    store.delete_object(&key).await.unwrap();
}

#[tokio::test]
async fn an_upload_outlives_a_store_that_is_unavailable_for_a_while() {
    let (store, direct) = behind(first_uploads(4, Action::Unavailable)).await;
    let (key, content) = (folder("unavailable") + "large", content(12 << 20));
    store.put_stream(&key, stream_of(&content)).await.unwrap();
    assert!(holds(&direct, &key, &content).await);
    direct.delete_object(&key).await.unwrap();
}

#[tokio::test]
async fn an_upload_outlives_connections_that_break_in_the_middle() {
    let (store, direct) = behind(first_uploads(4, Action::Cut(1 << 20))).await;
    let (key, content) = (folder("cut") + "large", content(12 << 20));
    store.put_stream(&key, stream_of(&content)).await.unwrap();
    assert!(holds(&direct, &key, &content).await);
    direct.delete_object(&key).await.unwrap();
}

#[tokio::test]
async fn an_upload_to_a_store_that_stays_unavailable_fails_with_the_reason() {
    let (store, direct) = behind(first_uploads(usize::MAX, Action::Unavailable)).await;
    let key = folder("down") + "object";
    for size in [1_000, 12 << 20] {
        let error = store.put_stream(&key, stream_of(&content(size))).await.unwrap_err().to_string();
        assert!(error.contains(&key) && error.contains("503"), "{error}");
        assert!(!direct.exists(&key).await.unwrap());
    }
}

#[tokio::test]
async fn a_byte_that_changes_once_is_noticed_and_sent_again() {
    for size in [50_000, 12 << 20] {
        let (store, direct) = behind(first_uploads(1, Action::Flip(1_234))).await;
        let (key, content) = (folder("flip-once") + "object", content(size));
        store.put_stream(&key, stream_of(&content)).await.unwrap();
        assert!(holds(&direct, &key, &content).await);
        direct.delete_object(&key).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_that_always_changes_a_byte_makes_the_upload_fail() {
    let (endpoint, key) = (endpoint(), folder("flip-always") + "object");
    let rule = first_uploads(usize::MAX, Action::Flip(1_234));
    let damaged = faulty_proxy::start(&endpoint, rule).await.unwrap();
    let direct = open(&endpoint).await;
    for algorithm in ["SHA256", "CRC64NVME", ""] {
        let store = open_with_checksum(&damaged, algorithm).await;
        for size in [50_000, 12 << 20] {
            let error = store.put_stream(&key, stream_of(&content(size))).await.unwrap_err().to_string();
            assert!(error.contains(&key), "{error}");
            // What lies there may be the only copy of what was there before: whoever asked decides what becomes of it.
            let is_whole = direct.exists(&key).await.unwrap() && holds(&direct, &key, &content(size)).await;
            assert!(!is_whole, "{size} bytes with checksum {algorithm:?} are not damaged");
            direct.delete_object(&key).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_upload_that_its_etag_proves_is_not_read_back() {
    let reads = Arc::new(AtomicUsize::new(0));
    let counter = reads.clone();
    let (store, direct) = behind(move |request| {
        counter.fetch_add(usize::from(request.method == "GET"), Ordering::SeqCst);
        Action::Forward
    })
    .await;
    let key = folder("etag") + "object";
    for size in [1_000, 12 << 20] {
        store.put_stream(&key, stream_of(&content(size))).await.unwrap();
        assert_eq!(reads.load(Ordering::SeqCst), 0, "{size} bytes were read back");
    }
    direct.delete_object(&key).await.unwrap();
}

#[tokio::test]
async fn a_download_outlives_a_connection_that_breaks_before_the_answer() {
    let seen = AtomicUsize::new(0);
    let (store, direct) = behind(move |request| {
        let chosen = request.method == "GET" && seen.fetch_add(1, Ordering::SeqCst) < 2;
        if chosen { Action::Cut(0) } else { Action::Forward }
    })
    .await;
    let (key, content) = (folder("download") + "object", content(3 << 20));
    direct.put(&key, content.clone().into()).await.unwrap();
    assert!(holds(&store, &key, &content).await);
    direct.delete_object(&key).await.unwrap();
}

#[tokio::test]
async fn a_wrong_secret_is_refused_with_the_key_named_and_the_secret_hidden() {
    let mut config = StoreConfig::new("aws", BUCKET)
        .with("region", "us-east-1")
        .with("s3ForcePathStyle", "true")
        .with("s3Url", endpoint());
    let file = format!(
        "[default]\naws_access_key_id={}\naws_secret_access_key=wrongsecret\n",
        velero_testkit::parts::ACCESS_KEY
    );
    config.credentials = Some(Credentials::Content(file));
    let store = config.open().await.unwrap();
    let error = store.put("refused", Bytes::from_static(b"x")).await.unwrap_err().to_string();
    assert!(error.contains("\"refused\"") && !error.contains("wrongsecret"), "{error}");
}

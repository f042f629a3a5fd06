//! A real Azure Blob server: conformance and signed URLs.
//!
//! The server is Azurite in the store of the shared box, reached through its door on loopback.

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use velero_store::{Credentials, ObjectStoreHandle, StoreConfig, conformance};
use velero_testkit::faulty_proxy::{self, Action, Request};
use velero_testkit::harness::{SHARED_BOX, unique_name};
use velero_testkit::parts::{AZURE_ACCOUNT, AZURE_CONTAINER, AZURE_KEY, Azurite};
use velero_testkit::{BoxKind, TestBox};

async fn open(key: &str) -> ObjectStoreHandle {
    static READY: OnceLock<()> = OnceLock::new();
    READY.get_or_init(|| {
        TestBox::up(SHARED_BOX, BoxKind::ControlPlane).unwrap();
        TestBox::start_in_store(&Azurite).unwrap();
    });
    let mut config = StoreConfig::new("velero.io/azure", AZURE_CONTAINER)
        .with("storageAccount", AZURE_ACCOUNT)
        .with("storageAccountURI", Azurite::url())
        .with("storageAccountKeyEnvVar", "AZURE_STORAGE_ACCOUNT_ACCESS_KEY");
    config.credentials = Some(Credentials::Content(format!("AZURE_STORAGE_ACCOUNT_ACCESS_KEY={key}\n")));
    config.open().await.unwrap()
}

/// What anyone without credentials gets from a URL: the status and the body.
fn get(url: &str) -> (String, String) {
    let answer = Command::new("curl").args(["--silent", "--write-out", "\n%{http_code}", url]).output().unwrap();
    let answer = String::from_utf8(answer.stdout).unwrap();
    let (body, status) = answer.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

#[tokio::test]
async fn azure_passes_the_conformance_suite() {
    conformance::run(&open(AZURE_KEY).await, &format!("{}/", unique_name("conformance"))).await.unwrap();
}

#[tokio::test]
async fn anyone_can_read_from_a_signed_url_and_nobody_without_its_signature() {
    let store = open(AZURE_KEY).await;
    let key = format!("{}/backups/b1/b1-logs.gz", unique_name("signed"));
    store.put(&key, Bytes::from_static(b"the log")).await.unwrap();
    let url = store.signed_url(&key, Duration::from_secs(60)).await.unwrap();
    assert_eq!(get(&url), ("200".to_owned(), "the log".to_owned()));
    let (unsigned, _) = url.split_once('?').unwrap();
    let (status, _) = get(unsigned);
    assert!(["401", "403", "404"].contains(&status.as_str()), "an unsigned request was answered with {status}");
    store.delete_object(&key).await.unwrap();
}

#[tokio::test]
async fn a_wrong_key_is_refused_with_the_object_named_and_the_key_hidden() {
    let wrong = "d3Jvbmcta2V5";
    let store = open(wrong).await;
    let error = store.put("refused", Bytes::from_static(b"x")).await.unwrap_err().to_string();
    assert!(error.contains("\"refused\"") && error.contains("403") && !error.contains(wrong), "{error}");
}

const JSON: &str = "application/json";

/// What Azure answers: a token for whoever proves who they are, and the keys of the account for that token.
async fn resource_manager(status: &'static str) -> String {
    let token = serde_json::json!({"access_token": "t", "expires_in": 3600}).to_string();
    let keys = serde_json::json!({"keys": [
        {"keyName": "key0", "value": "bm90IHRoaXM=", "permissions": "Read"},
        {"keyName": "key1", "value": AZURE_KEY, "permissions": "FULL"},
    ]})
    .to_string();
    faulty_proxy::start(&Azurite::url().replace(&format!("/{AZURE_ACCOUNT}"), ""), move |request: &Request| {
        match &request.path {
            path if path.ends_with("/tenant-1/oauth2/v2.0/token") => faulty_proxy::answer("200 OK", JSON, &token),
            path if path.contains("/resourceGroups/backups/") && path.contains("/listKeys?") => {
                faulty_proxy::answer(status, JSON, &keys)
            }
            _ => Action::Forward,
        }
    })
    .await
    .unwrap()
}

fn looked_up(manager: &str, proof: &str) -> StoreConfig {
    let mut config = StoreConfig::new("azure", AZURE_CONTAINER)
        .with("storageAccount", AZURE_ACCOUNT)
        .with("storageAccountURI", format!("{manager}/{AZURE_ACCOUNT}"))
        .with("resourceGroup", "backups")
        .with("subscriptionId", "s-1")
        .with("activeDirectoryAuthorityURI", manager);
    config.credentials = Some(Credentials::Content(format!(
        "AZURE_TENANT_ID=tenant-1\nAZURE_CLIENT_ID=c-1\nAZURE_RESOURCE_MANAGER_ENDPOINT={manager}\n{proof}\n"
    )));
    config
}

#[tokio::test]
async fn the_key_of_an_account_is_looked_up_by_a_secret_or_by_workload_identity() {
    open(AZURE_KEY).await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "federated\n").unwrap();
    for proof in ["AZURE_CLIENT_SECRET=s".to_owned(), format!("AZURE_FEDERATED_TOKEN_FILE={}", token.display())] {
        let manager = resource_manager("200 OK").await;
        let store = looked_up(&manager, &proof).open().await.unwrap();
        let key = format!("{}/looked-up", unique_name("arm"));
        store.put(&key, Bytes::from_static(b"x")).await.unwrap();
        store.delete_object(&key).await.unwrap();
    }
    let manager = resource_manager("403 Forbidden").await;
    let Err(error) = looked_up(&manager, "AZURE_CLIENT_SECRET=hunter2").open().await else { panic!("it may not") };
    let error = error.to_string();
    assert!(error.contains("listKeys/action") && error.contains("403") && !error.contains("hunter2"), "{error}");
}

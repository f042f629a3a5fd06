//! Object stores behind a plugin: the example's, and that of Velero's own AWS plugin.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use velero_store::conformance;

use crate::support::Folder;

fn config(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn the_store_of_the_example_passes_the_conformance_suite() {
    let (folder, data) = (Folder::with_example(), tempfile::tempdir().unwrap());
    let path = data.path().display().to_string();
    let manager = folder.manager().await;
    let config = config(&[("path", &path), ("bucket", "b")]);
    let store = manager.object_store("example.velero.io/folder", "b", &config).await.unwrap();
    conformance::run(&store, "suite/").await.unwrap();
}

#[tokio::test]
async fn two_configs_of_one_store_are_kept_apart() {
    let (folder, data) = (Folder::with_example(), tempfile::tempdir().unwrap());
    let manager = folder.manager().await;
    let mut stores = Vec::new();
    for name in ["one", "two"] {
        let config = config(&[("path", &data.path().join(name).display().to_string()), ("bucket", "b")]);
        stores.push(manager.object_store("example.velero.io/folder", "b", &config).await.unwrap());
    }
    stores[0].put("key", Bytes::from_static(b"x")).await.unwrap();
    assert!(stores[0].exists("key").await.unwrap());
    assert!(!stores[1].exists("key").await.unwrap());
}

#[tokio::test]
async fn a_config_that_is_wrong_is_refused_with_the_plugins_words() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let config = config(&[("path", "relative"), ("bucket", "b")]);
    let outcome = manager.object_store("example.velero.io/folder", "b", &config).await;
    let error = outcome.map(drop).unwrap_err().to_string();
    assert!(error.contains("ObjectStore example.velero.io/folder: Init: config path"), "{error}");
    folder.expect_no_processes().await;
}

#[tokio::test]
async fn a_store_whose_process_died_is_configured_again() {
    let (folder, data) = (Folder::with_example(), tempfile::tempdir().unwrap());
    let manager = folder.manager().await;
    let config = config(&[("path", &data.path().display().to_string()), ("bucket", "b")]);
    let store = manager.object_store("example.velero.io/folder", "b", &config).await.unwrap();
    store.put("key", Bytes::from_static(b"x")).await.unwrap();
    for process in folder.processes() {
        std::process::Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    }
    folder.expect_no_processes().await;
    // The host notices the end of a process a moment after it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(store.exists("key").await.unwrap());
}

//! The conformance suite on a directory.

use velero_store::{StoreConfig, conformance};

#[tokio::test]
async fn a_directory_passes_the_conformance_suite() {
    let directory = tempfile::tempdir().unwrap();
    let store = StoreConfig::new("velero.io/fs", "ignored").with("path", directory.path().to_str().unwrap());
    let store = store.open().await.unwrap();
    conformance::run(&store, "suite/").await.unwrap();
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 0, "the suite must leave nothing behind");
}

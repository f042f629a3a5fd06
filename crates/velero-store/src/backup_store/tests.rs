//! Backups and restores in a directory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use velero_api::v1::{Backup, DownloadTarget, DownloadTargetKind};
use velero_archive::{BackupFile, RestoreFile, gzjson};

use crate::{BackupStore, ByteStream, Error, ObjectStore, ObjectStoreHandle, Result, StoreConfig, read_all};

async fn location(prefix: &str) -> (tempfile::TempDir, BackupStore) {
    let directory = tempfile::tempdir().unwrap();
    let config = StoreConfig::new("fs", directory.path().to_str().unwrap());
    (directory, BackupStore::new(config.open().await.unwrap(), prefix))
}

fn backup(name: &str) -> Backup {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": name, "namespace": "velero"},
        "spec": {},
        "status": {"phase": "Completed"},
    }))
    .unwrap()
}

fn contents(text: &'static str) -> ByteStream {
    stream::iter([Ok(Bytes::from_static(text.as_bytes()))]).boxed()
}

async fn write(store: &BackupStore, name: &str) {
    store.put_contents(name, contents("tarball")).await.unwrap();
    store.put_file(name, BackupFile::Log, Bytes::from_static(b"log")).await.unwrap();
    store.put_metadata(&backup(name)).await.unwrap();
}

#[tokio::test]
async fn a_backup_exists_once_its_metadata_does() {
    let (_directory, store) = location("team/a").await;
    store.put_contents("b1", contents("tarball")).await.unwrap();
    assert!(!store.backup_exists("b1").await.unwrap());
    store.put_metadata(&backup("b1")).await.unwrap();
    assert!(store.backup_exists("b1").await.unwrap());
    assert_eq!(store.list_backups().await.unwrap(), ["b1"]);
}

#[tokio::test]
async fn metadata_is_indented_names_its_kind_and_is_written_once() {
    let (_directory, store) = location("").await;
    store.put_metadata(&backup("b1")).await.unwrap();
    let text = store.get_file("b1", BackupFile::Metadata).await.unwrap().unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.contains("\n  \"apiVersion\": \"velero.io/v1\"") && text.contains("\"kind\": \"Backup\""), "{text}");
    assert_eq!(store.get_metadata("b1").await.unwrap(), backup("b1"));
    assert!(matches!(store.put_metadata(&backup("b1")).await, Err(Error::AlreadyExists { .. })));
    let direct = store.put_file("b1", BackupFile::Metadata, Bytes::new()).await;
    assert!(matches!(direct, Err(Error::InvalidKey { .. })));
}

#[tokio::test]
async fn deleting_a_backup_leaves_its_neighbours_alone() {
    let (directory, store) = location("p").await;
    for name in ["b1", "b1-old", "b10"] {
        write(&store, name).await;
    }
    store.delete_backup("b1").await.unwrap();
    assert_eq!(store.list_backups().await.unwrap(), ["b1-old", "b10"]);
    for name in ["b1-old", "b10"] {
        let stream = store.get_contents(name).await.unwrap();
        assert_eq!(read_all(name, stream, 100).await.unwrap(), "tarball");
    }
    assert!(!directory.path().join("p/backups/b1").exists());
    store.delete_backup("b1").await.unwrap();
    for name in ["", "..", "b10/..", "/"] {
        assert!(store.delete_backup(name).await.is_err(), "{name:?}");
    }
    assert_eq!(store.list_backups().await.unwrap().len(), 2);
}

/// A store whose lists are those of before anything was written.
struct Stale(ObjectStoreHandle);

#[async_trait]
impl ObjectStore for Stale {
    async fn put_stream(&self, key: &str, content: ByteStream) -> Result<()> {
        self.0.put_stream(key, content).await
    }

    async fn get_stream(&self, key: &str) -> Result<ByteStream> {
        self.0.get_stream(key).await
    }

    async fn exists(&self, key: &str) -> Result<bool> {
        self.0.exists(key).await
    }

    async fn list_common_prefixes(&self, _: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn list_objects(&self, _: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn delete_object(&self, key: &str) -> Result<()> {
        self.0.delete_object(key).await
    }

    async fn signed_url(&self, key: &str, lifetime: Duration) -> Result<String> {
        self.0.signed_url(key, lifetime).await
    }
}

#[tokio::test]
async fn a_list_of_before_leaves_no_file_of_what_is_deleted() {
    let (directory, store) = location("p").await;
    for name in ["b1", "b2"] {
        write(&store, name).await;
    }
    for file in super::BESIDE_METADATA {
        store.put_file("b1", file, Bytes::from_static(b"x")).await.unwrap();
    }
    for file in RestoreFile::ALL {
        store.put_restore_file("r1", file, Bytes::from_static(b"x")).await.unwrap();
    }
    let stale = BackupStore::new(Arc::new(Stale(store.object_store().clone())), "p");
    stale.delete_backup("b1").await.unwrap();
    stale.delete_restore("r1").await.unwrap();
    for gone in ["p/backups/b1", "p/restores/r1"] {
        assert!(!directory.path().join(gone).exists(), "{gone}");
    }
    assert_eq!(store.list_backups().await.unwrap(), ["b2"]);
}

#[tokio::test]
async fn a_missing_optional_file_is_empty_and_so_is_null() {
    let (_directory, store) = location("").await;
    let operations: Vec<String> = store.get_json("b1", BackupFile::ItemOperations).await.unwrap();
    assert!(operations.is_empty());
    store.put_json("b1", BackupFile::VolumeSnapshots, &None::<()>).await.unwrap();
    assert!(store.get_json::<Vec<String>>("b1", BackupFile::VolumeSnapshots).await.unwrap().is_empty());
    let list = BTreeMap::from([("v1/Pod".to_owned(), vec!["web/a".to_owned()])]);
    store.put_json("b1", BackupFile::ResourceList, &list).await.unwrap();
    assert_eq!(store.get_json::<BTreeMap<String, Vec<String>>>("b1", BackupFile::ResourceList).await.unwrap(), list);
    assert!(store.get_contents("b1").await.err().unwrap().is_not_found());
    assert!(store.get_metadata("b1").await.err().unwrap().is_not_found());
}

#[tokio::test]
async fn a_damaged_file_is_an_error_that_names_it() {
    let (_directory, store) = location("").await;
    store.put_file("b1", BackupFile::Results, Bytes::from_static(b"plain text, not gzip")).await.unwrap();
    let error = store.get_json::<Vec<String>>("b1", BackupFile::Results).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "object \"backups/b1/b1-results.gz\" cannot be read: the data is not gzip compressed"
    );
}

#[tokio::test]
async fn foreign_folders_make_a_location_invalid() {
    let (directory, store) = location("p").await;
    store.is_valid().await.unwrap();
    write(&store, "b1").await;
    std::fs::create_dir_all(directory.path().join("p/kopia/ns")).unwrap();
    store.is_valid().await.unwrap();
    std::fs::create_dir_all(directory.path().join("p/photos")).unwrap();
    let text = store.is_valid().await.unwrap_err().to_string();
    assert!(text.starts_with("backup store contains invalid top-level directories: [photos]"), "{text}");
}

#[tokio::test]
async fn restores_are_written_read_and_deleted() {
    let (_directory, store) = location("").await;
    store.put_restore_file("r1", RestoreFile::Log, Bytes::from_static(b"log")).await.unwrap();
    store.put_restore_json("r1", RestoreFile::ItemOperations, &["op"]).await.unwrap();
    store.put_restore_file("r2", RestoreFile::Log, Bytes::new()).await.unwrap();
    assert_eq!(store.get_restore_file("r1", RestoreFile::Log).await.unwrap().unwrap(), "log");
    let operations = store.get_restore_file("r1", RestoreFile::ItemOperations).await.unwrap().unwrap();
    assert_eq!(gzjson::decode::<Vec<String>>(&operations, gzjson::DEFAULT_LIMIT).unwrap(), ["op"]);
    store.delete_restore("r1").await.unwrap();
    assert_eq!(store.object_store().list_common_prefixes("restores/").await.unwrap(), ["restores/r2/"]);
}

#[tokio::test]
async fn a_long_log_can_be_continued_and_other_files_are_bounded() {
    let (directory, store) = location("").await;
    write(&store, "b1").await;
    let folder = directory.path().join("backups/b1");
    for file in ["b1-logs.gz", "b1-results.gz", "velero-backup.json"] {
        std::fs::File::create(folder.join(file)).unwrap().set_len(65 << 20).unwrap();
    }
    assert_eq!(store.get_file("b1", BackupFile::Log).await.unwrap().unwrap().len(), 65 << 20);
    let refused = store.get_file("b1", BackupFile::Results).await.unwrap_err();
    assert!(format!("{refused:?}").contains("more than the 67108864 bytes"), "{refused:?}");
    let refused = store.get_metadata("b1").await.unwrap_err();
    assert!(format!("{refused:?}").contains("more than the 16777216 bytes"), "{refused:?}");
}

#[tokio::test]
async fn every_download_target_has_a_key_and_a_directory_has_no_urls() {
    let (_directory, store) = location("p").await;
    let target =
        |kind: &DownloadTargetKind| DownloadTarget { kind: kind.clone(), name: "n".to_owned(), ..Default::default() };
    let mut keys = std::collections::BTreeSet::new();
    for kind in DownloadTargetKind::ALL {
        let key = store.download_key(&target(kind)).unwrap();
        let folder = if kind.is_of_restore() { "p/restores/n/" } else { "p/backups/n/" };
        assert!(key.starts_with(folder) && keys.insert(key.clone()), "{key}");
    }
    let log = target(&DownloadTargetKind::BackupLog);
    assert!(matches!(store.download_url(&log).await, Err(Error::NotSupported { .. })));
    store.put_file("n", BackupFile::Log, Bytes::from_static(b"log")).await.unwrap();
    assert_eq!(read_all("n", store.download(&log).await.unwrap(), 10).await.unwrap(), "log");
    let unknown = target(&DownloadTargetKind::Unknown("Nothing".to_owned()));
    assert!(store.download_key(&unknown).is_err());
}

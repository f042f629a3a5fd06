//! The volume snapshotter, in the version our host knows and in the one Velero knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use velero_plugin::{Error, VolumeInfo, VolumeSnapshotter};

use crate::support::Folder;

async fn snapshotter(folder: &Folder, upload: &str) -> (Arc<dyn VolumeSnapshotter>, TempDir) {
    let data = tempfile::tempdir().unwrap();
    let entries = [("path", data.path().display().to_string()), ("upload", upload.to_owned())];
    let config: BTreeMap<_, _> = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let manager = folder.manager().await;
    (manager.volume_snapshotter("example.velero.io/volumes", &config).await.unwrap(), data)
}

fn volume(driver: &str) -> Value {
    json!({"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"csi": {"driver": driver, "volumeHandle": "v1"}}})
}

async fn round_trip(snapshotter: &dyn VolumeSnapshotter) -> String {
    let id = snapshotter.get_volume_id(&volume("example.velero.io")).await.unwrap().unwrap();
    assert_eq!(snapshotter.get_volume_id(&volume("other")).await.unwrap(), None);
    let info = snapshotter.get_volume_info(&id, "zone").await.unwrap();
    assert_eq!(info, VolumeInfo { volume_type: "file".to_owned(), iops: None });
    let tags = BTreeMap::from([("backup".to_owned(), "nightly".to_owned())]);
    let snapshot = snapshotter.create_snapshot(&id, "zone", &tags).await.unwrap();
    let restored = snapshotter.create_volume_from_snapshot(&snapshot, &info, "zone").await.unwrap();
    assert!(restored.starts_with("v1-from-"), "{restored}");
    let changed = snapshotter.set_volume_id(&volume("example.velero.io"), &restored).await.unwrap();
    assert_eq!(changed["spec"]["csi"]["volumeHandle"], json!(restored));
    snapshot
}

#[tokio::test]
async fn the_upload_of_a_snapshot_is_followed_and_cancelled() {
    let folder = Folder::with_example();
    let (snapshotter, _data) = snapshotter(&folder, "1s").await;
    let snapshot = round_trip(&*snapshotter).await;
    assert!(!snapshotter.progress(&snapshot).await.unwrap().completed);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let progress = snapshotter.progress(&snapshot).await.unwrap();
    assert!(progress.completed && progress.error.is_empty() && progress.n_completed == progress.n_total);

    let second = snapshotter.create_snapshot("v1", "", &BTreeMap::new()).await.unwrap();
    snapshotter.cancel(&second).await.unwrap();
    assert_eq!(snapshotter.progress(&second).await.unwrap().error, "the operation was cancelled");
    snapshotter.delete_snapshot(&second).await.unwrap();
    assert!(matches!(snapshotter.progress(&second).await, Err(Error::InvalidOperationId { .. })));
}

#[tokio::test]
async fn a_snapshotter_of_the_first_version_is_complete_at_once() {
    let mut folder = Folder::with_example();
    // As under a host that knows no second version.
    folder.settings.environment = vec![("VELERO_PLUGIN_FURTHER_KINDS".to_owned(), String::new())];
    let directory = folder.discover().await.unwrap();
    let kinds: Vec<_> = directory.plugins().iter().map(|plugin| plugin.kind.as_str()).collect();
    assert!(kinds.contains(&"VolumeSnapshotter") && !kinds.contains(&"VolumeSnapshotterV2"), "{kinds:?}");
    let (snapshotter, _data) = snapshotter(&folder, "300s").await;
    let snapshot = round_trip(&*snapshotter).await;
    assert!(snapshotter.progress(&snapshot).await.unwrap().completed);
    snapshotter.cancel(&snapshot).await.unwrap();
}

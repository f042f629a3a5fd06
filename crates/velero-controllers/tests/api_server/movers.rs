//! Movers: a volume is saved and comes back, in all four kinds; a cancel, and what is said when it cannot be done.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use velero_api::records::{BackupResult, DataPathProgress, RestoreResult};
use velero_api::v1::{
    BackupRepositoryPhase, BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationSpec,
    PodVolumeBackup,
};
use velero_api::v2alpha1::{DataDownload, DataDownloadSpec, DataUpload, DataUploadSpec, TargetVolumeSpec};
use velero_controllers::mover::{MovedKind, Settings, VolumeMode};
use velero_testkit::cluster_test;

use crate::mover_support::{Movers, SHOP, describe, fill, pod_volume_backup, pod_volume_restore};
use crate::s3_support::s3;
use crate::support::{PATIENCE, api};

fn reasons(events: &[(String, String)]) -> Vec<&str> {
    events.iter().map(|(reason, _)| reason.as_str()).collect()
}

#[test]
fn the_volume_of_a_pod_is_saved_and_comes_back() {
    cluster_test(|cluster| async move {
        let movers = Movers::new(&cluster).await;
        let volume = movers.empty("volume");
        fill(&volume);

        movers.begin(pod_volume_backup(&movers, "b-1")).await;
        let settings = movers.settings(MovedKind::PodVolumeBackup, "b-1", &volume);
        let (moved, said) = movers.run(settings).await;
        assert!(moved, "{said}");
        let first: BackupResult = serde_json::from_str(&said).unwrap();
        assert_eq!(first.source.by_path, volume.display().to_string());
        assert_eq!((first.source.volume_mode.as_str(), first.empty_snapshot), ("Filesystem", false));
        assert_eq!((first.total_bytes, first.incremental_bytes), (12_000_005, 12_000_005));
        let events = movers.events("b-1").await;
        let told = reasons(&events);
        assert_eq!(told.first(), Some(&"Data-Path-Started"), "{told:?}");
        assert!(told.ends_with(&["Data-Path-Progress", "Data-Path-Completed", "Data-Path-Stopped"]), "{told:?}");
        let last: DataPathProgress = serde_json::from_str(&events[events.len() - 3].1).unwrap();
        assert_eq!((last.total_bytes, last.bytes_done), (12_000_005, 12_000_005));
        assert_eq!(events[events.len() - 2].1, said);

        fs::write(volume.join("deep/er/text"), "goodbye").unwrap();
        movers.begin(pod_volume_backup(&movers, "b-2")).await;
        let settings = movers.settings(MovedKind::PodVolumeBackup, "b-2", &volume);
        let (moved, said) = movers.run(settings).await;
        assert!(moved, "{said}");
        let second: BackupResult = serde_json::from_str(&said).unwrap();
        assert_ne!(second.snapshot_id, first.snapshot_id);
        assert_eq!(second.incremental_bytes, 7);

        let target = movers.empty("target");
        symlink("/", target.join(".velero")).unwrap();
        movers.begin(pod_volume_restore(&movers, "r-1", &second.snapshot_id)).await;
        let settings = movers.settings(MovedKind::PodVolumeRestore, "r-1", &target);
        let (moved, said) = movers.run(settings).await;
        assert!(moved, "{said}");
        let restored: RestoreResult = serde_json::from_str(&said).unwrap();
        assert_eq!((restored.target.by_path, restored.total_bytes), (target.display().to_string(), 12_000_007));
        assert!(target.join(".velero").join(&movers.restore).is_file());
        fs::remove_dir_all(target.join(".velero")).unwrap();
        assert_eq!(describe(&target), describe(&volume));
    });
}

fn data_upload(movers: &Movers, name: &str) -> DataUpload {
    let spec = DataUploadSpec {
        snapshot_type: "CSI".to_owned(),
        source_namespace: SHOP.to_owned(),
        source_pvc: "data".to_owned(),
        backup_storage_location: "default".to_owned(),
        ..Default::default()
    };
    DataUpload::new(&movers.cluster.namespace, name, spec)
}

fn data_download(movers: &Movers, name: &str, snapshot: &str) -> DataDownload {
    let target = TargetVolumeSpec { namespace: SHOP.to_owned(), pvc: "data".to_owned(), ..Default::default() };
    let spec = DataDownloadSpec {
        target_volume: target,
        source_namespace: SHOP.to_owned(),
        snapshot_id: snapshot.to_owned(),
        backup_storage_location: "default".to_owned(),
        ..Default::default()
    };
    DataDownload::new(&movers.cluster.namespace, name, spec)
}

#[test]
fn a_snapshot_is_moved_away_and_back_as_a_folder_and_as_a_device() {
    cluster_test(|cluster| async move {
        let movers = Movers::new(&cluster).await;
        let volume = movers.empty("volume");
        fill(&volume);
        movers.begin(data_upload(&movers, "du-1")).await;
        let (moved, said) = movers.run(movers.settings(MovedKind::DataUpload, "du-1", &volume)).await;
        assert!(moved, "{said}");
        let saved: BackupResult = serde_json::from_str(&said).unwrap();
        let target = movers.empty("target");
        movers.begin(data_download(&movers, "dd-1", &saved.snapshot_id)).await;
        let (moved, said) = movers.run(movers.settings(MovedKind::DataDownload, "dd-1", &target)).await;
        assert!(moved, "{said}");
        assert_eq!(describe(&target), describe(&volume), "nobody waits for a file in it");

        // A file stands for the device.
        let block = |settings: Settings| Settings { volume_mode: VolumeMode::Block, ..settings };
        let (device, other) = (volume.join("large"), movers.path("device"));
        movers.begin(data_upload(&movers, "du-2")).await;
        let (moved, said) = movers.run(block(movers.settings(MovedKind::DataUpload, "du-2", &device))).await;
        assert!(moved, "{said}");
        let saved: BackupResult = serde_json::from_str(&said).unwrap();
        assert_eq!((saved.source.volume_mode.as_str(), saved.total_bytes), ("Block", 12_000_000));
        fs::write(&other, vec![1; 12_000_000]).unwrap();
        movers.begin(data_download(&movers, "dd-2", &saved.snapshot_id)).await;
        let (moved, said) = movers.run(block(movers.settings(MovedKind::DataDownload, "dd-2", &other))).await;
        assert!(moved, "{said}");
        assert_eq!(fs::read(&other).unwrap(), fs::read(&device).unwrap());
        let restored: RestoreResult = serde_json::from_str(&said).unwrap();
        assert_eq!(restored.total_bytes, 12_000_000);

        movers.begin(data_upload(&movers, "du-3")).await;
        let (moved, said) = movers.run(block(movers.settings(MovedKind::DataUpload, "du-3", &volume))).await;
        assert!(!moved && said.contains("it is no block device") && said.contains(r#"claim "shop/data""#), "{said}");
    });
}

#[test]
fn a_cancel_ends_a_backup_that_would_take_hours() {
    cluster_test(|cluster| async move {
        let movers = Movers::new(&cluster).await;
        let volume = movers.empty("volume");
        fs::File::create(volume.join("endless")).unwrap().set_len(8 << 40).unwrap();
        movers.begin(pod_volume_backup(&movers, "b-1")).await;
        let settings = movers.settings(MovedKind::PodVolumeBackup, "b-1", &volume);
        let running = movers.run(settings);
        let cancelling = async {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while !reasons(&movers.events("b-1").await).contains(&"Data-Path-Progress") {
                assert!(tokio::time::Instant::now() < deadline, "no progress is told");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            let progress = movers.events("b-1").await;
            let progress = progress.iter().find(|(reason, _)| reason == "Data-Path-Progress").unwrap();
            let progress: DataPathProgress = serde_json::from_str(&progress.1).unwrap();
            assert_eq!(progress.total_bytes, 8 << 40);
            movers.patch::<PodVolumeBackup>("b-1", json!({"spec": {"cancel": true}})).await;
        };
        let ((moved, said), ()) = tokio::join!(running, cancelling);
        assert!(!moved && said.ends_with(": data path is canceled"), "{said}");
        assert!(said.contains(r#"volume "data" of pod "shop/web-0""#), "{said}");
        let events = movers.events("b-1").await;
        let told = reasons(&events);
        assert!(told.ends_with(&["Data-Path-Canceling", "Data-Path-Canceled", "Data-Path-Stopped"]), "{told:?}");
    });
}

#[test]
fn a_transfer_that_nobody_wants_or_lets_begin_ends_by_itself() {
    cluster_test(|cluster| async move {
        let movers = Movers::new(&cluster).await;
        let volume = movers.empty("volume");
        let settings = |name: &str| Settings {
            resource_timeout: Duration::from_secs(3),
            ..movers.settings(MovedKind::PodVolumeBackup, name, &volume)
        };
        let (moved, said) = movers.run(settings("missing")).await;
        assert!(!moved && said.contains("never seen") && !said.ends_with("canceled"), "{said}");

        let mut object = pod_volume_backup(&movers, "b-1");
        object.spec.cancel = true;
        movers.create(object).await;
        let (moved, said) = movers.run(settings("b-1")).await;
        assert!(!moved && said.ends_with("data path is canceled"), "{said}");

        movers.create(pod_volume_backup(&movers, "b-2")).await;
        movers.patch::<PodVolumeBackup>("b-2", json!({"status": {"phase": "Prepared"}})).await;
        let deleting = async {
            // Whoever is prepared may wait longer than others take to prepare.
            tokio::time::sleep(Duration::from_secs(5)).await;
            api::<PodVolumeBackup>(&movers.cluster).delete("b-2", &Default::default()).await.unwrap();
        };
        let ((moved, said), ()) = tokio::join!(movers.run(settings("b-2")), deleting);
        assert!(!moved && said.contains("was deleted") && said.ends_with("data path is canceled"), "{said}");
    });
}

/// How a message begins that is about the volume of these tests.
const VOLUME: &str = r#"volume "data" of pod "shop/web-0" was not "#;

#[track_caller]
fn assert_refused((moved, said): (bool, String), words: &[&str]) {
    assert!(!moved, "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
}

#[test]
fn a_volume_that_cannot_be_read_or_filled_is_told_with_its_pod_and_the_remedy() {
    cluster_test(|cluster| async move {
        let movers = Movers::new(&cluster).await;
        let volume = movers.empty("volume");

        // Files there that nobody may read, root neither.
        movers.begin(pod_volume_backup(&movers, "unreadable")).await;
        let settings = movers.settings(MovedKind::PodVolumeBackup, "unreadable", Path::new("/proc/sys/vm"));
        let words = [VOLUME, "could not open", "may not read it", "privilegedFsBackup"];
        assert_refused(movers.run(settings).await, &words);
        let events = movers.events("unreadable").await;
        assert!(reasons(&events).ends_with(&["Data-Path-Failed", "Data-Path-Stopped"]), "{events:?}");

        movers.begin(pod_volume_restore(&movers, "no-snapshot", "0123456789abcdef")).await;
        let settings = movers.settings(MovedKind::PodVolumeRestore, "no-snapshot", &volume);
        assert_refused(movers.run(settings).await, &[VOLUME, "0123456789abcdef", "velero repo ls"]);
        assert!(!volume.join(".velero").exists(), "the pod must not start");

        fs::write(volume.join("file"), "content").unwrap();
        movers.begin(pod_volume_backup(&movers, "good")).await;
        let (moved, said) = movers.run(movers.settings(MovedKind::PodVolumeBackup, "good", &volume)).await;
        assert!(moved, "{said}");
        let saved: BackupResult = serde_json::from_str(&said).unwrap();
        let gone = movers.path("gone");
        movers.begin(pod_volume_restore(&movers, "no-volume", &saved.snapshot_id)).await;
        let settings = movers.settings(MovedKind::PodVolumeRestore, "no-volume", &gone);
        assert_refused(movers.run(settings).await, &[VOLUME, "does its pod still run?"]);
        assert!(!gone.exists(), "a folder of the pod's own is no volume");

        let mut restic = pod_volume_restore(&movers, "restic", "abc");
        restic.spec.uploader_type = "restic".to_owned();
        movers.begin(restic).await;
        let settings = movers.settings(MovedKind::PodVolumeRestore, "restic", &volume);
        assert_refused(movers.run(settings).await, &["PodVolumeRestore \"restic\"", "Velero 1.18 or older"]);
    });
}

#[test]
fn a_volume_that_goes_away_while_it_is_read_is_not_saved() {
    cluster_test(|cluster| async move {
        let movers = Movers::new(&cluster).await;
        let volume = movers.empty("volume");
        fs::File::create(volume.join("long")).unwrap().set_len(4 << 30).unwrap();
        movers.begin(pod_volume_backup(&movers, "b-1")).await;
        let settings = movers.settings(MovedKind::PodVolumeBackup, "b-1", &volume);
        let leaving = async {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while !reasons(&movers.events("b-1").await).contains(&"Data-Path-Progress") {
                assert!(tokio::time::Instant::now() < deadline, "no progress is told");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            fs::rename(&volume, movers.path("elsewhere")).unwrap();
        };
        let (ended, ()) = tokio::join!(movers.run(settings), leaving);
        assert_refused(ended, &[VOLUME, "went away while it was read", "does its pod still run?"]);
        assert_eq!(movers.snapshots().await, 0, "what was read of it is no backup");
    });
}

#[test]
fn a_location_that_cannot_take_volumes_is_told_with_the_volume() {
    cluster_test(|cluster| async move {
        let movers = Movers::new(&cluster).await;
        let volume = movers.empty("volume");
        let location = async |name: &str, change: fn(&mut BackupStorageLocationSpec)| {
            let mut spec = s3(&cluster);
            spec.default = false;
            change(&mut spec);
            movers.create(BackupStorageLocation::new(&cluster.namespace, name, spec)).await;
        };
        let refused = async |location: &str, words: &[&str]| {
            let mut object = pod_volume_backup(&movers, location);
            object.spec.backup_storage_location = location.to_owned();
            movers.begin(object).await;
            let settings = movers.settings(MovedKind::PodVolumeBackup, location, &volume);
            let ended = movers.run(settings).await;
            assert_refused(ended, &[&[VOLUME], words].concat());
        };
        refused("nowhere", &["BackupStorageLocation \"nowhere\"", "does not exist"]).await;

        location("old", |spec| spec.access_mode = Some(BackupStorageLocationAccessMode::ReadOnly)).await;
        refused("old", &["BackupStorageLocation \"old\"", "ReadOnly"]).await;

        location("broken", |_| {}).await;
        movers.make_repository("broken", BackupRepositoryPhase::NotReady, "the bucket is gone").await;
        refused("broken", &["BackupRepository", "the bucket is gone"]).await;

        location("foreign", |spec| {
            spec.provider = "vendor.example/tape".to_owned();
            spec.config.clear();
        })
        .await;
        movers.make_repository("foreign", BackupRepositoryPhase::Ready, "").await;
        refused("foreign", &["vendor.example/tape", "spec.provider"]).await;

        let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
            kube::Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let patch = kube::api::Patch::Merge(json!({"stringData": {"repository-password": "battery staple"}}));
        secrets.patch("velero-repo-credentials", &Default::default(), &patch).await.unwrap();
        refused("default", &["password", "velero-repo-credentials"]).await;
        movers.begin(pod_volume_restore(&movers, "password-too", "abc")).await;
        let settings = movers.settings(MovedKind::PodVolumeRestore, "password-too", &volume);
        assert_refused(movers.run(settings).await, &[VOLUME, "restored", "velero-repo-credentials"]);
    });
}

//! Snapshots that are complete when they are taken: taken, restored from, removed.

use futures::future::join_all;
use kube::api::DeleteParams;
use serde_json::json;
use velero_api::records::{BackupVolumeInfo, RestoreVolumeInfo, ResultsFile, Snapshot, SnapshotPhase, VolumeMethod};
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestPhase, DeleteBackupRequestSpec,
    RestorePhase, RestoreSpec, VolumeSnapshotLocation,
};
use velero_testkit::cluster_test;
use velero_testkit::harness::unique_name;

use crate::support::{Server, assert_phase, assert_restore_phase, assert_says, config_map};
use crate::volumes::{Claims, FIRST_VERSION, Folders, bound, remove};

fn restore_of(backup: &str) -> RestoreSpec {
    RestoreSpec { backup_name: backup.to_owned(), ..RestoreSpec::default() }
}

async fn ask_for_deletion(server: &Server, backup: &str) -> String {
    let (spec, name) = (
        DeleteBackupRequestSpec { backup_name: backup.to_owned(), ..Default::default() },
        unique_name(&format!("delete-{backup}")),
    );
    server.create(DeleteBackupRequest::new(&server.cluster.namespace, &name, spec)).await;
    name
}

#[test]
fn a_volume_comes_back_from_its_snapshot_beside_the_old_one_and_in_its_place() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, FIRST_VERSION).await;
        let claims = Claims::new(&cluster, &folders).await;
        claims.add("one", json!({})).await;
        claims.add("two", json!({})).await;
        let mut backup = Backup::new(&cluster.namespace, "b", claims.spec());
        backup.metadata.labels = Some([("team".to_owned(), "blue".to_owned())].into());
        server.create(backup).await;
        let backup = server.ended("b").await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.spec.volume_snapshot_locations, ["folders"]);
        let status = &backup.status;
        assert_eq!((status.volume_snapshots_attempted, status.volume_snapshots_completed), (2, 2));
        assert_eq!(status.backup_item_operations_attempted, 0);
        check_records(&folders, &claims);

        claims.fill("one", "written after the backup");
        let copy = unique_name("copy");
        let mapping = [(claims.namespace.clone(), copy.clone())].into();
        let restore = server.restore("beside", RestoreSpec { namespace_mapping: mapping, ..restore_of("b") }).await;
        assert_restore_phase(&restore, &RestorePhase::Completed);
        let (name, volume, content) = bound(&cluster, &copy, "one").await;
        assert!(name.starts_with("velero-clone-"), "{name}");
        assert_eq!(volume.metadata.annotations.unwrap()["velero.io/original-pv-name"], claims.volume("one"));
        assert_eq!(content, "content of one");
        assert_eq!(bound(&cluster, &claims.namespace, "one").await.2, "written after the backup");
        let restored: Vec<RestoreVolumeInfo> = folders.read("restores/beside/beside-volumeinfo.json.gz");
        let of_one = restored.iter().find(|info| info.pvc_name == "one").unwrap();
        assert_eq!((of_one.pv_name.as_str(), of_one.pvc_namespace.as_str()), (name.as_str(), copy.as_str()));
        assert_eq!(of_one.restore_method, Some(VolumeMethod::NativeSnapshot));

        claims.remove().await;
        assert_restore_phase(&server.restore("in-place", restore_of("b")).await, &RestorePhase::Completed);
        let (name, _, content) = bound(&cluster, &claims.namespace, "two").await;
        assert_eq!((name, content.as_str()), (claims.volume("two"), "content of two"));

        assert_eq!(folders.snapshots().len(), 2);
        ask_for_deletion(&server, "b").await;
        server.until_gone::<Backup>("b").await;
        assert!(folders.snapshots().is_empty() && !folders.has_backup("b"));
        remove(&cluster, &copy).await;
        claims.remove_without_waiting().await;
        server.stop().await;
    });
}

fn check_records(folders: &Folders, claims: &Claims<'_>) {
    let snapshots: Vec<Snapshot> = folders.read("backups/b/b-volumesnapshots.json.gz");
    let of_one = snapshots.iter().find(|snapshot| snapshot.spec.persistent_volume_name == claims.volume("one"));
    let of_one = of_one.unwrap();
    assert_eq!(of_one.status.phase, Some(SnapshotPhase::Completed));
    let spec = &of_one.spec;
    assert_eq!(
        (spec.location.as_str(), spec.volume_type.as_str(), spec.volume_az.as_str()),
        ("folders", "file", "zone-1")
    );
    let infos: Vec<BackupVolumeInfo> = folders.read("backups/b/b-volumeinfo.json.gz");
    let info = infos.iter().find(|info| info.pv_name == claims.volume("one")).unwrap();
    assert_eq!((info.pvc_namespace.as_str(), info.pvc_name.as_str()), (claims.namespace.as_str(), "one"));
    let native = info.native_snapshot_info.as_ref().unwrap();
    assert_eq!(native.snapshot_handle, of_one.status.provider_snapshot_id);
    assert_eq!((native.phase.as_str(), native.iops.as_str()), ("Completed", "0"));
    let taken = folders.snapshots();
    let tagged = taken.iter().find(|snapshot| snapshot["tags"]["velero.io/pv"] == claims.volume("one")).unwrap();
    assert_eq!((&tagged["tags"]["velero.io/backup"], &tagged["tags"]["team"]), (&json!("b"), &json!("blue")));
    assert_eq!(tagged["zone"], "zone-1");
}

#[test]
fn a_snapshot_that_fails_is_an_error_of_its_volume_and_of_no_other() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, FIRST_VERSION).await;
        let claims = Claims::new(&cluster, &folders).await;
        claims.add("good", json!({})).await;
        claims.add("bad", json!({"example.velero.io/snapshot": "fail"})).await;
        let backup = server.backup("b", claims.spec()).await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        let status = &backup.status;
        assert_eq!((status.volume_snapshots_attempted, status.volume_snapshots_completed, status.errors), (2, 1, 1));
        let results: ResultsFile = folders.read("backups/b/b-results.gz");
        assert_says(&results.errors.cluster, &claims.volume("bad"));
        assert_says(&results.errors.cluster, "the item asked for a failure");
        let snapshots: Vec<Snapshot> = folders.read("backups/b/b-volumesnapshots.json.gz");
        let failed = snapshots.iter().find(|snapshot| snapshot.status.phase == Some(SnapshotPhase::Failed)).unwrap();
        assert_eq!(failed.spec.persistent_volume_name, claims.volume("bad"));
        let counted =
            ["attempt_total{schedule=\"\"} 2", "success_total{schedule=\"\"} 1", "failure_total{schedule=\"\"} 1"];
        let counted = counted.map(|line| format!("velero_volume_snapshot_{line}"));
        server.until_metrics(&counted).await;
        claims.remove_without_waiting().await;
        server.stop().await;
    });
}

#[test]
fn many_snapshots_are_taken_at_the_same_time() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, FIRST_VERSION).await;
        let claims = Claims::new(&cluster, &folders).await;
        let names: Vec<String> = (0..10).map(|number| format!("data-{number}")).collect();
        join_all(names.iter().map(|name| claims.add(name, json!({"example.velero.io/snapshot": "slow=6s"})))).await;
        let backup = server.backup("b", claims.spec()).await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.status.volume_snapshots_completed, 10);
        let (begun, ended) = (backup.status.start_timestamp.unwrap().0, backup.status.completion_timestamp.unwrap().0);
        let took = ended.duration_since(begun).as_secs();
        assert!(took < 30, "{took} seconds; one after the other they take a minute");
        claims.remove_without_waiting().await;
        server.stop().await;
    });
}

#[test]
fn a_volume_that_gets_no_snapshot_is_listed_with_the_reason() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, FIRST_VERSION).await;
        let claims = Claims::new(&cluster, &folders).await;
        claims.add("data", json!({})).await;
        let policy = "version: v1\nvolumePolicies:\n- conditions: {volumeTypes: [hostPath]}\n  action: {type: TYPE}\n";
        for kind in ["skip", "fs-backup"] {
            config_map(&cluster, kind, "policy", &policy.replace("TYPE", kind)).await;
        }
        let by_policy = |name: &str| {
            let reference = json!({"kind": "configmap", "name": name});
            BackupSpec { resource_policy: serde_json::from_value(reference).unwrap(), ..claims.spec() }
        };
        for (name, spec, reason, errors) in [
            (
                "off",
                BackupSpec { snapshot_volumes: Some(false), ..claims.spec() },
                "volumeSnapshot: snapshotVolumes",
                0,
            ),
            ("skipped", by_policy("skip"), "volumeSnapshot: the volume policies of the backup say skip", 0),
            ("copied", by_policy("fs-backup"), "podvolume: no running pod of the backup mounts it", 1),
        ] {
            let backup = server.backup(name, spec).await;
            let end = if errors > 0 { BackupPhase::PartiallyFailed } else { BackupPhase::Completed };
            assert_phase(&backup, &end);
            let status = &backup.status;
            assert_eq!((status.volume_snapshots_attempted, status.warnings, status.errors), (0, 0, errors), "{name}");
            let infos: Vec<BackupVolumeInfo> = folders.read(&format!("backups/{name}/{name}-volumeinfo.json.gz"));
            assert!(infos.len() == 1 && infos[0].skipped && infos[0].skipped_reason.starts_with(reason), "{infos:?}");
        }
        let results: ResultsFile = folders.read("backups/copied/copied-results.gz");
        assert_says(&results.errors.cluster, &format!("volume {} (claim", claims.volume("data")));
        server.api::<VolumeSnapshotLocation>().delete("folders", &DeleteParams::default()).await.unwrap();
        assert_phase(&server.backup("nowhere", claims.spec()).await, &BackupPhase::Completed);
        let infos: Vec<BackupVolumeInfo> = folders.read("backups/nowhere/nowhere-volumeinfo.json.gz");
        assert_eq!(infos[0].skipped_reason, "volumeSnapshot: no applicable volumesnapshotter found;");
        assert!(folders.snapshots().is_empty());
        claims.remove_without_waiting().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_is_not_deleted_while_its_snapshots_cannot_be() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, FIRST_VERSION).await;
        let claims = Claims::new(&cluster, &folders).await;
        claims.add("data", json!({})).await;
        assert_phase(&server.backup("b", claims.spec()).await, &BackupPhase::Completed);
        server.api::<VolumeSnapshotLocation>().delete("folders", &DeleteParams::default()).await.unwrap();
        let request = ask_for_deletion(&server, "b").await;
        let processed = |request: &DeleteBackupRequest| *request.status.phase() == DeleteBackupRequestPhase::Processed;
        let refused = server.until(&request, processed).await;
        assert_says(&refused.status.errors, "VolumeSnapshotLocation \"folders\": not found");
        assert!(folders.has_backup("b") && folders.snapshots().len() == 1);

        let restore = server.restore("r", RestoreSpec { restore_pvs: Some(false), ..restore_of("b") }).await;
        assert_ne!(*restore.status.phase(), RestorePhase::Failed, "without its data a volume needs no location");
        server.create(folders.location(&cluster, "folders", FIRST_VERSION)).await;
        ask_for_deletion(&server, "b").await;
        server.until_gone::<Backup>("b").await;
        assert!(folders.snapshots().is_empty() && !folders.has_backup("b"));
        claims.remove_without_waiting().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_whose_snapshot_location_is_not_clear_is_refused() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, FIRST_VERSION).await;
        let mut locked = folders.location(&cluster, "locked", FIRST_VERSION);
        let credential = json!({"name": "absent", "key": "cloud"});
        locked.spec.credential = serde_json::from_value(credential).unwrap();
        server.create(locked).await;
        let of = |locations: &[&str]| BackupSpec {
            included_namespaces: vec![cluster.namespace.clone()],
            volume_snapshot_locations: locations.iter().map(|name| (*name).to_owned()).collect(),
            ..BackupSpec::default()
        };
        for (name, spec, problem) in [
            (
                "open",
                of(&[]),
                "provider example.velero.io/volumes-v1 has more than one possible volume snapshot location",
            ),
            ("both", of(&["folders", "locked"]), "more than one VolumeSnapshotLocation name specified for provider"),
            ("gone", of(&["gone"]), "a VolumeSnapshotLocation CRD for the location gone"),
            ("unlocked", of(&["locked"]), "error adding credentials to volume snapshot location named locked"),
        ] {
            let backup = server.backup(name, spec).await;
            assert_phase(&backup, &BackupPhase::FailedValidation);
            assert_says(&backup.status.validation_errors, problem);
        }
        assert_phase(&server.backup("clear", of(&["folders"])).await, &BackupPhase::Completed);
        server.stop().await;
    });
}

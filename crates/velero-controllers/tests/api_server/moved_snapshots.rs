//! Snapshots whose data is moved, with a real CSI driver; the test is the data mover: it writes what one would write into
//! DataUploads and DataDownloads.

use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use velero_api::metadata::{label, name, uid};
use velero_api::records::{BackupOperation, ResourceList};
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestSpec, Restore, RestorePhase, RestoreSpec,
};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_api::{dry_run, labels};
use velero_controllers::DryRunReport;
use velero_testkit::harness::unique_name;
use velero_testkit::storage_box_test;

use crate::agent_support::AgentNode;
use crate::moved_scene::{LOOKS, PAUSE, Scene, check_restore, done};
use crate::support::{assert_phase, assert_restore_phase, assert_says};

#[test]
fn moved_data_is_an_operation_of_its_claim_goes_on_with_the_next_server_and_comes_back() {
    storage_box_test(|cluster| async move {
        let scene = Scene::new(&cluster, &["data"]).await;
        scene.begin("b", scene.spec()).await;
        let upload = scene.uploads("b", 1).await.remove("data").unwrap();
        let [snapshot] = &scene.snapshots().await[..] else { panic!("one snapshot") };
        let csi = upload.spec.csi_snapshot.clone().unwrap();
        assert_eq!((csi.volume_snapshot.as_str(), csi.storage_class.as_str()), (snapshot.as_str(), "box"));
        assert_eq!((upload.spec.source_namespace.as_str(), upload.spec.data_mover.as_str()), (&*scene.namespace, ""));
        let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
        scene.server.until("b", waits).await;
        scene.write(&upload, json!({"phase": "InProgress", "progress": {"bytesDone": 4, "totalBytes": 9}})).await;

        let scene = scene.restarted().await;
        scene.write(&upload, done("k1")).await;
        let backup = scene.ended("b").await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.status.csi_volume_snapshots_attempted, 0, "none is kept");
        scene.until_no_snapshots().await;
        check_files(&scene, &upload);
        check_dry_run(&scene).await;
        let copy = check_restore(&scene).await;
        scene.end(&[&copy]).await;
    });
}

/// What is needed to restore and to delete is in the files of the backup.
fn check_files(scene: &Scene, upload: &DataUpload) {
    let operations: Vec<BackupOperation> = scene.read("backups/b/b-itemoperations.json.gz");
    let [operation] = &operations[..] else { panic!("{operations:?}") };
    assert_eq!(operation.spec.backup_item_action, "velero.io/csi-pvc-backupper");
    assert_eq!(operation.spec.operation_id, label(upload, labels::ASYNC_OPERATION_ID));
    assert_eq!((operation.status.n_completed, operation.status.operation_units.as_str()), (9, "Bytes"));
    let volumes: Value = scene.read("backups/b/b-volumeinfo.json.gz");
    let volume = &volumes[0];
    assert_eq!((&volume["snapshotDataMoved"], &volume["result"]), (&json!(true), &json!("succeeded")), "{volume}");
    let movement = json!({"dataMover": "velero", "uploaderType": "kopia", "snapshotHandle": "k1", "size": 9,
        "incrementalSize": 3, "Phase": "Completed", "operationID": operation.spec.operation_id,
        "retainedSnapshot": upload.spec.csi_snapshot.as_ref().unwrap().volume_snapshot});
    assert_eq!(volume["snapshotDataMovementInfo"], movement);
    let list: ResourceList = scene.read("backups/b/b-resource-list.json.gz");
    let listed = format!("{}/{}", scene.cluster().namespace, name(upload));
    assert_eq!(list["velero.io/v2alpha1/DataUpload"], [listed]);
    assert!(!list.contains_key("snapshot.storage.k8s.io/v1/VolumeSnapshot"), "{list:?}");
    let metadata = std::fs::read(scene.directory.path().join("backups/b/velero-backup.json")).unwrap();
    let metadata: Backup = serde_json::from_slice(&metadata).unwrap();
    let listed = list.values().map(Vec::len).sum::<usize>() as i64;
    assert_eq!(metadata.status.progress.unwrap().items_backed_up, listed, "the DataUpload counts too");
}

/// Nothing is made, and it is said where the data comes from.
async fn check_dry_run(scene: &Scene) {
    let copy = unique_name("looked");
    let spec = RestoreSpec {
        backup_name: "b".to_owned(),
        namespace_mapping: [(scene.namespace.clone(), copy)].into(),
        ..RestoreSpec::default()
    };
    let request = dry_run::ask(&Restore::new(&scene.cluster().namespace, "looked", spec), &unique_name("dry-run"));
    let asked = name(&request).to_owned();
    scene.server.create(request).await;
    let answered = scene.server.restore_ended(&asked).await;
    assert_restore_phase(&answered, &RestorePhase::Completed);
    let report: DryRunReport = scene.read(&format!("restores/{asked}/restore-{asked}-results.gz"));
    let claim = report.items.iter().find(|item| item.resource == "persistentvolumeclaims").unwrap();
    assert!(claim.reason.contains("9 bytes, comes from snapshot k1"), "{claim:?}");
    assert!(scene.server.api::<DataDownload>().list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[test]
fn uploads_that_do_not_end_well_are_errors_of_their_claims_and_leave_nothing() {
    storage_box_test(|cluster| async move {
        let claims = ["cancelled", "failed", "good", "robbed"];
        let scene = Scene::new(&cluster, &claims).await;
        scene.begin("b", scene.spec()).await;
        let uploads = scene.uploads("b", claims.len()).await;
        assert_eq!(scene.snapshots().await.len(), claims.len());
        scene.write(&uploads["failed"], json!({"phase": "Failed", "message": "no space left"})).await;
        scene.write(&uploads["cancelled"], json!({"phase": "Canceled"})).await;
        scene.server.api::<DataUpload>().delete(name(&uploads["robbed"]), &Default::default()).await.unwrap();
        scene.write(&uploads["good"], done("k1")).await;
        assert_phase(&scene.ended("b").await, &BackupPhase::PartiallyFailed);
        let errors = scene.errors("backups", "b");
        for piece in ["no space left", "DataUpload is canceled", "was deleted before its data was moved"] {
            assert_says(&errors, piece);
        }
        assert_eq!(errors.len(), 3, "{errors:?}");
        scene.until_no_snapshots().await;

        let copy = unique_name("copy");
        let mapping = [(scene.namespace.clone(), copy.clone())].into();
        let spec = RestoreSpec { backup_name: "b".to_owned(), namespace_mapping: mapping, ..RestoreSpec::default() };
        scene.server.create(Restore::new(&cluster.namespace, "r", spec)).await;
        let downloads = scene.downloads("r", 1).await;
        scene.write(&downloads["good"], json!({"phase": "Failed", "message": "the repository is gone"})).await;
        let restore = scene.server.restore_ended("r").await;
        assert_restore_phase(&restore, &RestorePhase::PartiallyFailed);
        let errors = scene.errors("restores", "r");
        for piece in ["was Failed when the backup ended (no space left)", "was Canceled", "the repository is gone"] {
            assert_says(&errors, piece);
        }

        let empty = unique_name("empty");
        let mapping = [(scene.namespace.clone(), empty.clone())].into();
        let without_data = RestoreSpec {
            backup_name: "b".to_owned(),
            namespace_mapping: mapping,
            restore_pvs: Some(false),
            ..RestoreSpec::default()
        };
        assert_restore_phase(&scene.server.restore("r2", without_data).await, &RestorePhase::Completed);
        for claim in claims {
            scene.until_bound(&empty, claim).await;
        }
        scene.end(&[&copy, &empty]).await;
    });
}

#[test]
fn a_vendors_data_mover_is_left_to_the_vendor_and_a_claim_that_is_there_to_its_user() {
    storage_box_test(|cluster| async move {
        let scene = Scene::new(&cluster, &["data"]).await;
        scene.begin("b", BackupSpec { data_mover: "vendor".to_owned(), ..scene.spec() }).await;
        let upload = scene.uploads("b", 1).await.remove("data").unwrap();
        assert_eq!(upload.spec.data_mover, "vendor");
        let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
        scene.server.until("b", waits).await;
        scene.write(&upload, json!({"phase": "Completed", "dataMoverResult": {"volume": "v-1"}})).await;
        assert_phase(&scene.ended("b").await, &BackupPhase::Completed);
        assert_eq!(scene.snapshots().await.len(), 1, "the vendor may need it");
        let volumes: Value = scene.read("backups/b/b-volumeinfo.json.gz");
        assert_eq!(volumes[0]["snapshotDataMovementInfo"]["dataMover"], "vendor");

        let again = RestoreSpec { backup_name: "b".to_owned(), ..RestoreSpec::default() };
        let restore = scene.server.restore("r", again).await;
        assert!(restore.status.phase().is_terminal() && restore.status.errors == 0, "{:?}", restore.status);
        assert!(scene.server.api::<DataDownload>().list(&ListParams::default()).await.unwrap().items.is_empty());

        let copy = unique_name("copy");
        let mapping = [(scene.namespace.clone(), copy.clone())].into();
        let spec = RestoreSpec { backup_name: "b".to_owned(), namespace_mapping: mapping, ..RestoreSpec::default() };
        scene.server.create(Restore::new(&cluster.namespace, "r2", spec)).await;
        let download = scene.downloads("r2", 1).await.remove("data").unwrap();
        assert_eq!(download.spec.data_mover, "vendor");
        // Deleting the restore ends what it has begun.
        scene.server.api::<Restore>().delete("r2", &Default::default()).await.unwrap();
        let cancelled = |download: &DataDownload| download.spec.cancel;
        for _ in 0..LOOKS {
            let found = scene.server.api::<DataDownload>().get_opt(name(&download)).await.unwrap();
            if found.as_ref().is_none_or(cancelled) {
                return scene.end(&[&copy]).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("the download of a deleted restore goes on");
    });
}

#[test]
fn an_upload_that_nobody_takes_is_cancelled_when_its_time_is_over_and_leaves_no_snapshot() {
    storage_box_test(|cluster| async move {
        let scene = Scene::new(&cluster, &["data"]).await;
        // No node agent is there, and no data mover of that name.
        for (backup, data_mover) in [("b", ""), ("c", "nobody")] {
            let item_operation_timeout = velero_api::GoDuration::from_secs(3);
            let data_mover = data_mover.to_owned();
            scene.begin(backup, BackupSpec { item_operation_timeout, data_mover, ..scene.spec() }).await;
            let upload = scene.uploads(backup, 1).await.remove("data").unwrap();
            // Nobody takes it, so its time ends.
            assert_phase(&scene.ended(backup).await, &BackupPhase::PartiallyFailed);
            assert_says(&scene.errors("backups", backup), "timed out");
            let upload = scene.server.api::<DataUpload>().get(name(&upload)).await.unwrap();
            assert!(upload.spec.cancel, "{upload:?}");
            scene.until_no_snapshots().await;
        }
        scene.end(&[]).await;
    });
}

/// How many contents there are of the snapshot that was handed over to an upload.
async fn contents(scene: &Scene, upload: &DataUpload) -> usize {
    let kind = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshotContent");
    let resource = ApiResource::from_gvk_with_plural(&kind, "volumesnapshotcontents");
    let api: Api<DynamicObject> = Api::all_with(scene.cluster().client.clone(), &resource);
    let own = ListParams::default().labels(&format!("velero.io/data-upload-uid={}", uid(upload)));
    api.list(&own).await.unwrap().items.len()
}

/// So it is with a backup that is deleted while the node of the agent is down: the server lets go of the upload then.
#[test]
fn a_snapshot_that_was_handed_over_goes_with_its_upload_though_no_agent_is_left() {
    storage_box_test(|cluster| async move {
        let scene = Scene::new(&cluster, &["data"]).await;
        scene.begin("b", scene.spec()).await;
        let upload = scene.uploads("b", 1).await.remove("data").unwrap();
        let mut node = AgentNode::with_agent(&cluster).await;
        node.mover(name(&upload)).await;
        node.stop().await;
        assert_eq!(contents(&scene, &upload).await, 1);
        scene.server.patch::<DataUpload>(name(&upload), json!({"metadata": {"finalizers": null}})).await;
        scene.server.api::<DataUpload>().delete(name(&upload), &Default::default()).await.unwrap();
        for _ in 0..LOOKS {
            if contents(&scene, &upload).await == 0 {
                assert_phase(&scene.ended("b").await, &BackupPhase::PartiallyFailed);
                node.remove().await;
                return scene.end(&[]).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("the snapshot of an upload that is gone is left");
    });
}

#[test]
fn a_backup_that_is_deleted_while_its_data_is_moved_leaves_nothing() {
    storage_box_test(|cluster| async move {
        let scene = Scene::new(&cluster, &["data"]).await;
        scene.begin("b", scene.spec()).await;
        let upload = scene.uploads("b", 1).await.remove("data").unwrap();
        let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
        scene.server.until("b", waits).await;
        scene.write(&upload, json!({"phase": "InProgress"})).await;
        let spec = DeleteBackupRequestSpec { backup_name: "b".to_owned(), ..Default::default() };
        scene.server.create(DeleteBackupRequest::new(&cluster.namespace, "delete-b", spec)).await;
        scene.server.until(name(&upload), |upload: &DataUpload| upload.spec.cancel).await;
        scene.write(&upload, json!({"phase": "Canceled"})).await;
        scene.server.until_gone::<Backup>("b").await;
        scene.server.until_gone::<DataUpload>(name(&upload)).await;
        scene.until_no_snapshots().await;
        assert!(!scene.directory.path().join("backups/b/b.tar.gz").exists());
        scene.end(&[]).await;
    });
}

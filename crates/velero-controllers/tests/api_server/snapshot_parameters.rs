//! Volume policies that say with which class snapshots are taken and who moves their data, with a real CSI driver.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use velero_api::v1::{BackupPhase, BackupSpec};
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, storage_box_test};

use crate::moved_scene::{Scene, done};
use crate::support::{assert_phase, assert_says, config_map};

fn classes(cluster: &TestCluster) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass");
    Api::all_with(cluster.client.clone(), &ApiResource::from_gvk_with_plural(&kind, "volumesnapshotclasses"))
}

/// A backup by a policy for file systems that one node writes to, with these parameters.
async fn by_policy(scene: &Scene, name: &str, parameters: &str) -> BackupSpec {
    let conditions = "{pvcVolumeMode: Filesystem, pvcAccessModes: [ReadWriteOnce]}";
    let action = format!("{{type: snapshot, parameters: {parameters}}}");
    let document = format!("version: v1\nvolumePolicies:\n- conditions: {conditions}\n  action: {action}\n");
    config_map(scene.cluster(), name, "policy", &document).await;
    let reference = serde_json::from_value(json!({"kind": "configmap", "name": name})).unwrap();
    BackupSpec { resource_policy: reference, ..scene.spec() }
}

#[test]
fn a_volume_policy_names_the_class_of_a_snapshot_and_who_moves_its_data() {
    storage_box_test(|cluster| async move {
        let scene = Scene::new(&cluster, &["data"]).await;
        let class = unique_name("class");
        let wanted = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
            "metadata": {"name": class}, "driver": "box.csi.velero.io", "deletionPolicy": "Delete"});
        let wanted = serde_json::from_value(wanted).unwrap();
        classes(&cluster).create(&PostParams::default(), &wanted).await.unwrap();

        let spec = by_policy(&scene, "moved", &format!("{{snapshotClass: {class}, dataMover: velero-fs}}")).await;
        scene.begin("b", BackupSpec { data_mover: "vendor".to_owned(), ..spec }).await;
        let upload = scene.uploads("b", 1).await.remove("data").unwrap();
        let snapshot = upload.spec.csi_snapshot.clone().unwrap();
        assert_eq!((upload.spec.data_mover.as_str(), snapshot.snapshot_class.as_str()), ("velero", class.as_str()));
        scene.write(&upload, done("k1")).await;
        assert_phase(&scene.ended("b").await, &BackupPhase::Completed);
        let volumes: Value = scene.read("backups/b/b-volumeinfo.json.gz");
        assert_eq!(volumes[0]["snapshotDataMovementInfo"]["dataMover"], "velero", "{volumes}");

        let spec = by_policy(&scene, "absent", "{snapshotClass: absent}").await;
        scene.begin("absent", spec).await;
        assert_phase(&scene.ended("absent").await, &BackupPhase::PartiallyFailed);
        let errors = scene.errors("backups", "absent");
        for piece in ["VolumeSnapshotClass absent", "box.csi.velero.io", "change snapshotClass of the policy"] {
            assert_says(&errors, piece);
        }
        let spec = by_policy(&scene, "block", "{dataMover: velero-block}").await;
        let refused = scene.server.backup("block", spec).await;
        assert_phase(&refused, &BackupPhase::FailedValidation);
        assert_says(&refused.status.validation_errors, "volumePolicies[0].action.parameters.dataMover");
        scene.until_no_snapshots().await;
        classes(&cluster).delete(&class, &DeleteParams::default()).await.unwrap();
        scene.end(&[]).await;
    });
}

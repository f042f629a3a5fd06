//! Volumes of a real CSI driver: saved, waited for, restored under another name, deleted; and a driver that misbehaves.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::{
    BoxKind, Edition, ServerOptions, Settings, TestBox, TestCluster, VeleroServer, harness, load, objects,
};
use velero_tests::csi::{self, PATIENCE};
use velero_tests::{backups, restores};

const BOX: &str = "csi";
const SHOP: &str = "shop";

struct Scene {
    cluster: TestCluster,
    server: VeleroServer,
    /// Every volume that was there, to tell its snapshots from those of other boxes.
    volumes: BTreeSet<String>,
}

impl Scene {
    fn new(cluster: TestCluster) -> Self {
        let flags = ["--features=EnableCSI", "--item-operation-sync-frequency=1s"].map(str::to_owned).to_vec();
        let options = ServerOptions { prefix: harness::unique_name("csi"), flags, ..ServerOptions::default() };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
        Self { cluster, server, volumes: BTreeSet::new() }
    }

    fn machine(&self) -> &Machine {
        self.server.machine()
    }

    fn set(&self, settings: &Settings) {
        self.cluster.test_box.set_storage(settings).unwrap();
    }

    /// Backs a namespace up and gives the status.
    fn back_up(&self, name: &str, namespace: &str, more: &Value) -> Value {
        self.begin(name, namespace, more);
        backups::ended(&self.server, name, PATIENCE).unwrap()["status"].clone()
    }

    fn begin(&self, name: &str, namespace: &str, more: &Value) {
        let mut spec = json!({"includedNamespaces": [namespace]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        backups::create(&self.server, name, &spec).unwrap();
    }

    fn held(&mut self) -> BTreeSet<String> {
        self.volumes.extend(csi::volumes(self.machine()).unwrap());
        csi::held(&self.volumes).unwrap()
    }

    async fn create(&self, objects: Vec<Value>) {
        load::create_all(&self.cluster.client, objects.into_iter()).await.unwrap();
    }
}

#[test]
fn volumes_of_a_csi_driver_are_saved_restored_and_deleted() {
    TestBox::down(BOX).unwrap();
    harness::run(BOX, BoxKind::Storage, async |cluster| {
        let mut scene = Scene::new(cluster);
        a_stateful_set_comes_back_under_another_name(&mut scene).await;
        a_snapshot_that_takes_its_time_is_waited_for(&mut scene);
        a_driver_that_fails_is_named_with_the_volume(&mut scene);
        a_snapshot_that_never_becomes_ready_is_removed(&mut scene);
        a_snapshot_deleted_by_somebody_else_is_told_of(&mut scene);
        a_missing_class_and_two_alike_are_told_of(&mut scene);
        a_claim_without_a_volume_is_a_warning(&mut scene).await;
        a_backup_deleted_while_it_waits_leaves_nothing(&mut scene);
        a_killed_server_leaves_nothing(&mut scene);
        a_group_is_taken_at_once(&mut scene).await;
        deleting_the_backups_leaves_nothing(&mut scene);
        scene.server.stop().unwrap();
    });
    TestBox::down(BOX).unwrap();
}

async fn a_stateful_set_comes_back_under_another_name(scene: &mut Scene) {
    scene.create(csi::stateful_set(SHOP, 3)).await;
    csi::wait_for_set(scene.machine(), SHOP, 3).unwrap();
    let sums = csi::sums(scene.machine(), SHOP, 3).unwrap();
    let status = scene.back_up("first", SHOP, &json!({}));
    assert_eq!(status["phase"], "Completed", "{status}\n{}", csi::results(&scene.server, "first").unwrap());
    assert_eq!(
        (&status["csiVolumeSnapshotsAttempted"], &status["csiVolumeSnapshotsCompleted"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(scene.held().len(), 3);
    csi::wait_for_no_snapshot_objects(scene.machine()).unwrap();
    let described = csi::results(&scene.server, "first").unwrap();
    for words in ["shop/data-db-2:", "CSI Driver: box.csi.velero.io", "Result: succeeded"] {
        assert!(described.contains(words), "{words} is missing in\n{described}");
    }

    scene.machine().kubectl(&["delete", "namespace", SHOP, "--timeout=120s"]).unwrap();
    let spec = json!({"backupName": "first", "namespaceMapping": {SHOP: "shop-2"}});
    restores::create(&scene.server, "first", &spec).unwrap();
    let restore = restores::ended(&scene.server, "first", PATIENCE).unwrap();
    let described = || scene.server.velero(&["restore", "describe", "first", "--details"]).unwrap();
    assert_eq!(restore["status"]["phase"], "Completed", "{}\n{}", restore["status"], described());
    csi::wait_for_set(scene.machine(), "shop-2", 3).unwrap();
    assert_eq!(csi::sums(scene.machine(), "shop-2", 3).unwrap(), sums);
    assert!(described().contains("CSI Snapshot Restores:"), "{}", described());
}

fn a_snapshot_that_takes_its_time_is_waited_for(scene: &mut Scene) {
    scene.set(&Settings { ready_after_seconds: 30, ..Settings::default() });
    scene.begin("slow", "shop-2", &json!({}));
    csi::wait_for_phase(&scene.server, "slow", "WaitingForPluginOperations").unwrap();
    wait_until("the progress to be described", Duration::from_secs(20), || {
        let described = csi::results(&scene.server, "slow")?;
        anyhow::ensure!(described.contains("Waiting until driver box.csi.velero.io"), "{described}");
        Ok(())
    })
    .unwrap();
    let status = backups::ended(&scene.server, "slow", PATIENCE).unwrap()["status"].clone();
    assert_eq!(status["phase"], "Completed", "{status}");
    assert_eq!(status["csiVolumeSnapshotsCompleted"], 3);
    assert_eq!(scene.held().len(), 6);
}

fn a_driver_that_fails_is_named_with_the_volume(scene: &mut Scene) {
    scene.set(&Settings { fail_create_snapshot: Some("out of space".to_owned()), ..Settings::default() });
    let status = scene.back_up("failing", "shop-2", &json!({"csiSnapshotTimeout": "5s"}));
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    assert_eq!(status["errors"], 3, "one for each volume");
    let results = csi::results(&scene.server, "failing").unwrap();
    for words in ["shop-2/data-db-0", "shop-2/data-db-2", "out of space", "csiSnapshotTimeout"] {
        assert!(results.contains(words), "{words} is missing in\n{results}");
    }
    csi::wait_for_no_snapshot_objects(scene.machine()).unwrap();
}

fn a_snapshot_that_never_becomes_ready_is_removed(scene: &mut Scene) {
    let before = scene.held();
    scene.set(&Settings { never_ready: true, ..Settings::default() });
    let status = scene.back_up("never", "shop-2", &json!({"itemOperationTimeout": "5s"}));
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    assert_eq!(status["csiVolumeSnapshotsAttempted"], 3);
    csi::wait_for_no_snapshot_objects(scene.machine()).unwrap();
    assert_eq!(scene.held(), before, "the driver holds nothing of it");
    let results = csi::results(&scene.server, "never").unwrap();
    assert!(results.contains("timed out") && results.contains("Result: failed"), "{results}");
}

fn a_snapshot_deleted_by_somebody_else_is_told_of(scene: &mut Scene) {
    scene.set(&Settings { ready_after_seconds: 60, ..Settings::default() });
    scene.begin("robbed", "shop-2", &json!({}));
    csi::wait_for_phase(&scene.server, "robbed", "WaitingForPluginOperations").unwrap();
    scene
        .machine()
        .kubectl(&["-n", "shop-2", "delete", "volumesnapshots", "-l", "!velero.io/restore-name", "--wait=false"])
        .unwrap();
    let status = backups::ended(&scene.server, "robbed", PATIENCE).unwrap()["status"].clone();
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    let results = csi::results(&scene.server, "robbed").unwrap();
    assert!(results.contains("was deleted"), "{results}");
    scene.set(&Settings::default());
    csi::wait_for_no_snapshot_objects(scene.machine()).unwrap();
}

fn a_missing_class_and_two_alike_are_told_of(scene: &mut Scene) {
    scene.set(&Settings::default());
    let mut class = scene.machine().read("/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses/box").unwrap();
    scene.machine().kubectl(&["delete", "volumesnapshotclass", "box"]).unwrap();
    let status = scene.back_up("no-class", "shop-2", &json!({}));
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    let results = csi::results(&scene.server, "no-class").unwrap();
    assert!(results.contains("no VolumeSnapshotClass has the driver box.csi.velero.io"), "{results}");

    let labels = class["metadata"]["labels"].take();
    for name in ["box", "other"] {
        class["metadata"] = json!({"name": name});
        scene.machine().apply(&class.to_string()).unwrap();
    }
    let status = scene.back_up("two-classes", "shop-2", &json!({}));
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    let results = csi::results(&scene.server, "two-classes").unwrap();
    assert!(results.contains("box, other all have the driver"), "{results}");
    scene.machine().kubectl(&["delete", "volumesnapshotclass", "other"]).unwrap();
    class["metadata"] = json!({"name": "box", "labels": labels});
    scene.machine().apply(&class.to_string()).unwrap();
}

async fn a_claim_without_a_volume_is_a_warning(scene: &mut Scene) {
    let mut claim = objects::claim("lonely", "waiting");
    claim["spec"]["storageClassName"] = json!("missing");
    scene.create(vec![objects::namespace("lonely"), claim]).await;
    let status = scene.back_up("unbound", "lonely", &json!({}));
    assert_eq!((&status["phase"], &status["warnings"]), (&json!("Completed"), &json!(1)), "{status}");
    let results = csi::results(&scene.server, "unbound").unwrap();
    assert!(results.contains("has no volume (it is Pending)"), "{results}");
}

fn a_backup_deleted_while_it_waits_leaves_nothing(scene: &mut Scene) {
    let before = scene.held();
    scene.set(&Settings { ready_after_seconds: 300, ..Settings::default() });
    scene.begin("cancelled", "shop-2", &json!({}));
    csi::wait_for_phase(&scene.server, "cancelled", "WaitingForPluginOperations").unwrap();
    csi::delete(&scene.server, "cancelled").unwrap();
    csi::wait_for_no_snapshot_objects(scene.machine()).unwrap();
    assert_eq!(scene.held(), before);
}

fn a_killed_server_leaves_nothing(scene: &mut Scene) {
    let before = scene.held();
    scene.set(&Settings { create_snapshot_seconds: 5, ..Settings::default() });
    scene.begin("killed", "shop-2", &json!({}));
    wait_until("the snapshots to be begun", PATIENCE, || {
        let begun = csi::snapshot_objects(scene.machine())?;
        anyhow::ensure!(begun.iter().any(|name| name.contains("volumesnapshot.")), "{begun:?}");
        Ok(())
    })
    .unwrap();
    scene.server.kill().unwrap();
    scene.server.start().unwrap();
    csi::wait_for_phase(&scene.server, "killed", "Failed").unwrap();
    scene.set(&Settings::default());
    csi::wait_for_no_snapshot_objects(scene.machine()).unwrap();
    assert_eq!(scene.held(), before);
    scene.server.wait_for_location("default").unwrap();
}

async fn a_group_is_taken_at_once(scene: &mut Scene) {
    let labels = json!({"velero.io/volume-group": "pair"});
    let claims = ["left", "right"].map(|name| {
        let mut claim = objects::claim("pairs", name);
        claim["metadata"]["labels"] = labels.clone();
        claim
    });
    scene.create([objects::namespace("pairs")].into_iter().chain(claims).collect()).await;
    csi::wait_for_claims(scene.machine(), "pairs").unwrap();
    scene.held();
    let status = scene.back_up("group", "pairs", &json!({}));
    assert_eq!(status["phase"], "Completed", "{status}\n{}", csi::results(&scene.server, "group").unwrap());
    assert_eq!(status["csiVolumeSnapshotsCompleted"], 2);
    csi::wait_for_no_snapshot_objects(scene.machine()).unwrap();
    let held = scene.held();
    let groups: BTreeSet<_> = TestBox::storage()
        .unwrap()
        .snapshots
        .all()
        .unwrap()
        .into_iter()
        .filter(|snapshot| held.contains(&snapshot.id))
        .filter_map(|snapshot| snapshot.group)
        .collect();
    assert_eq!(groups.len(), 1, "both snapshots are of one group");
}

fn deleting_the_backups_leaves_nothing(scene: &mut Scene) {
    scene.set(&Settings::default());
    for backup in ["first", "slow", "failing", "never", "robbed", "no-class", "two-classes", "killed", "group"] {
        csi::delete(&scene.server, backup).unwrap();
    }
    csi::wait_for_no_snapshot_objects(scene.machine()).unwrap();
    assert_eq!(scene.held(), BTreeSet::new());
    let kinds = "volumesnapshots,volumesnapshotcontents";
    let restored = scene.machine().kubectl(&["get", kinds, "-A", "-o", "name"]).unwrap();
    assert_eq!(restored.trim(), "", "what restores made of the snapshots is gone too");
}

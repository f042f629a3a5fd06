//! Backups and restores that a person cancels while hooks, snapshots and copies are under way: all of it ends, the pods go
//! on, and nothing is left.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::json;
use velero_testkit::machine::wait_until;
use velero_testkit::{BoxKind, Edition, Settings, TestBox, TestCluster, VeleroServer, harness, load, objects};
use velero_tests::csi::{self, PATIENCE};
use velero_tests::volume_data::{self, claimed};
use velero_tests::{backups, restores};

const BOX: &str = "cancelled";
const SHOP: &str = "shop";

struct Scene {
    cluster: TestCluster,
    server: VeleroServer,
}

impl Scene {
    /// A pod with hooks around it, one volume that is copied and one of which snapshots are taken.
    async fn new(cluster: TestCluster) -> Self {
        let server = volume_data::server(&cluster.test_box, Edition::Ours, &harness::unique_name("cancelled")).unwrap();
        let shell = |command: &str| json!(["sh", "-c", command]).to_string();
        let annotations = json!({
            "backup.velero.io/backup-volumes": "copied",
            "pre.hook.backup.velero.io/command": shell("echo stops >> /tmp/trace"),
            "post.hook.backup.velero.io/command": shell("echo goes on >> /tmp/trace"),
        });
        let volumes = json!([claimed("copied", "copied"), claimed("snapped", "snapped")]);
        let all = [
            objects::namespace(SHOP),
            objects::claim(SHOP, "copied"),
            objects::claim(SHOP, "snapped"),
            volume_data::pod(SHOP, "web", &annotations, &volumes),
        ];
        load::create_all(&cluster.client, all.into_iter()).await.unwrap();
        volume_data::wait_for_pods(cluster.test_box.machine(), SHOP, &["web"]).unwrap();
        Self { cluster, server }
    }

    fn set(&self, settings: &Settings) {
        self.cluster.test_box.set_storage(settings).unwrap();
    }

    fn trace(&self) -> String {
        let read = ["-n", SHOP, "exec", "web", "--", "sh", "-c", "cat /tmp/trace 2> /dev/null || true"];
        self.server.machine().kubectl(&read).unwrap()
    }

    /// Cancels by the command and waits for the end.
    fn cancel(&self, kind: &str, name: &str) -> String {
        self.server.velero(&[kind, "cancel", name, "--wait", "--timeout", "3m"]).unwrap()
    }

    /// Fails unless nothing is left of what a backup had under way.
    fn assert_nothing_is_left(&self, backup: &str, held: &BTreeSet<String>) {
        self.set(&Settings::default());
        csi::wait_for_no_snapshot_objects(self.server.machine()).unwrap();
        volume_data::wait_for_no_left_overs(&self.server).unwrap();
        for plural in ["podvolumebackups", "datauploads"] {
            wait_until("the transfers to end", PATIENCE, || {
                for mover in volume_data::movers(&self.server, plural, "velero.io/backup-name", backup)? {
                    let phase = mover["status"]["phase"].as_str().unwrap_or_default();
                    ensure!(["Completed", "Failed", "Canceled"].contains(&phase), "{plural}: {}", mover["status"]);
                }
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(self.held(), *held, "snapshots of the driver are left");
    }

    fn held(&self) -> BTreeSet<String> {
        csi::held(&csi::volumes(self.server.machine()).unwrap()).unwrap()
    }
}

#[test]
fn what_a_person_cancels_ends_and_leaves_nothing_under_way() {
    TestBox::down(BOX).unwrap();
    harness::run(BOX, BoxKind::Storage, async |cluster| {
        let scene = Scene::new(cluster).await;
        a_backup_between_its_hooks_lets_the_pod_go_on(&scene);
        a_backup_that_moves_data_stops_moving_it(&scene);
        a_restore_keeps_what_it_made(&scene);
        what_has_ended_or_is_unknown_cannot_be_cancelled(&scene);
        scene.server.stop().unwrap();
    });
    TestBox::down(BOX).unwrap();
}

fn a_backup_between_its_hooks_lets_the_pod_go_on(scene: &Scene) {
    let held = scene.held();
    scene.set(&Settings { create_snapshot_seconds: 40, ..Settings::default() });
    backups::create(&scene.server, "hooked", &json!({"includedNamespaces": [SHOP]})).unwrap();
    wait_until("the pod to be stopped and a snapshot to be begun", PATIENCE, || {
        let begun = csi::snapshot_objects(scene.server.machine())?;
        ensure!(!begun.is_empty() && scene.trace().trim() == "stops", "{begun:?} {}", scene.trace());
        Ok(())
    })
    .unwrap();
    let said = scene.cancel("backup", "hooked");
    assert!(said.contains("\"hooked\" ended as Failed: cancelled by request at 20"), "{said}");
    assert_eq!(scene.trace().trim(), "stops\ngoes on");
    scene.assert_nothing_is_left("hooked", &held);
    let log = scene.server.velero(&["backup", "logs", "hooked"]).unwrap();
    assert!(log.contains("cancelled by request at 20"), "{log}");
}

fn a_backup_that_moves_data_stops_moving_it(scene: &Scene) {
    let held = scene.held();
    scene.set(&Settings { ready_after_seconds: 300, ..Settings::default() });
    let spec = json!({"includedNamespaces": [SHOP], "snapshotMoveData": true});
    backups::create(&scene.server, "moving", &spec).unwrap();
    wait_until("the data to be moved", PATIENCE, || {
        let begun = volume_data::movers(&scene.server, "datauploads", "velero.io/backup-name", "moving")?;
        ensure!(!begun.is_empty(), "there is no DataUpload");
        Ok(())
    })
    .unwrap();
    let said = scene.cancel("backup", "moving");
    assert!(said.contains("\"moving\" ended as Failed: cancelled by request at 20"), "{said}");
    assert!(scene.trace().trim().ends_with("goes on"), "{}", scene.trace());
    scene.assert_nothing_is_left("moving", &held);
}

fn a_restore_keeps_what_it_made(scene: &Scene) {
    backups::create(&scene.server, "good", &json!({"includedNamespaces": [SHOP]})).unwrap();
    let good = backups::ended(&scene.server, "good", PATIENCE).unwrap();
    assert_eq!(good["status"]["phase"], "Completed", "{}", good["status"]);
    // The new volume of the copy is never there, so the copy waits for ever.
    scene.set(&Settings { fail_create_volume: Some("no room".to_owned()), ..Settings::default() });
    let spec = json!({"backupName": "good", "namespaceMapping": {SHOP: "shop-2"}});
    restores::create(&scene.server, "cut", &spec).unwrap();
    wait_until("the pod to be restored", PATIENCE, || {
        scene.server.machine().read("/api/v1/namespaces/shop-2/pods/web").map(drop)
    })
    .unwrap();
    let said = scene.cancel("restore", "cut");
    assert!(said.contains("cancelled by request at 20") && !said.contains("Completed"), "{said}");
    assert!(scene.server.machine().read("/api/v1/namespaces/shop-2/pods/web").is_ok(), "what was restored stays");
    let described = scene.server.velero(&["restore", "describe", "cut", "--details"]).unwrap();
    assert!(described.contains("cancelled"), "{described}");
    scene.set(&Settings::default());
}

fn what_has_ended_or_is_unknown_cannot_be_cancelled(scene: &Scene) {
    let before = scene.server.object("backups", "good").unwrap();
    let refused = |arguments: &[&str]| format!("{:#}", scene.server.velero(arguments).unwrap_err());
    let said = refused(&["backup", "cancel", "good"]);
    assert!(said.contains("backup \"good\" cannot be cancelled: it has ended already (phase Completed)"), "{said}");
    assert_eq!(scene.server.object("backups", "good").unwrap(), before, "nothing was changed");
    let said = refused(&["restore", "cancel", "nobody"]);
    assert!(said.contains("restores.velero.io \"nobody\" not found"), "{said}");
    let said = refused(&["backup", "cancel"]);
    assert!(said.contains("exactly one of"), "{said}");
    let said = scene.server.velero(&["backup", "cancel", "--all", "--confirm"]).unwrap();
    assert!(said.contains("No backups to cancel found"), "{said}");
}

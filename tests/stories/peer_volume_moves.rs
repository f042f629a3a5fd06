//! Moved snapshots: either server restores what the other has moved into a repository, in a cluster that does not have the
//! snapshots, and goes on where the other left off.

use serde_json::{Value, json};
use velero_testkit::{BoxKind, Edition, TestBox, VeleroServer, harness, load, objects};
use velero_tests::backups;
use velero_tests::volume_data::{self, PATIENCE, claimed, movers, picture, restored_beside};

const SOURCE: &str = "moves-source";
const TARGET: &str = "moves-target";
const SHOP: &str = "shop";
const EDITIONS: [Edition; 2] = [Edition::Ours, Edition::Peer];

fn workload() -> Vec<Value> {
    let pod = volume_data::pod(SHOP, "web", &json!({}), &json!([claimed("claim", "data")]));
    vec![objects::namespace(SHOP), objects::claim(SHOP, "data"), pod]
}

/// Backs the namespace up and moves its snapshots; gives the bytes that were new.
fn back_up(server: &VeleroServer, name: &str) -> i64 {
    backups::create(server, name, &json!({"includedNamespaces": [SHOP], "snapshotMoveData": true})).unwrap();
    let backup = backups::ended(server, name, PATIENCE).unwrap();
    let edition = server.edition();
    assert_eq!(backup["status"]["phase"], "Completed", "{edition:?}: {}\n{}", backup["status"], server.agent_log());
    let uploads = movers(server, "datauploads", "velero.io/backup-name", name).unwrap();
    let [upload] = &uploads[..] else { panic!("{} DataUploads for one volume", uploads.len()) };
    assert_eq!(upload["status"]["phase"], "Completed", "{upload}");
    volume_data::wait_for_no_left_overs(server).unwrap();
    upload["status"]["incrementalBytes"].as_i64().unwrap_or_default()
}

fn restore(server: &VeleroServer, backup: &str) -> String {
    let namespace = restored_beside(server, backup, SHOP).unwrap();
    picture(server.machine(), &namespace, "web", "claim").unwrap()
}

#[test]
fn either_server_restores_the_moved_snapshots_of_the_other_in_another_cluster() {
    for name in [SOURCE, TARGET] {
        TestBox::down(name).unwrap();
    }
    let prefix = harness::unique_name("moves");
    let source = TestBox::up(SOURCE, BoxKind::Storage).unwrap();
    let before = harness::inside(source, {
        let prefix = prefix.clone();
        async move |cluster| {
            let machine = cluster.test_box.machine();
            load::create_all(&cluster.client, workload().into_iter()).await?;
            volume_data::wait_for_pods(machine, SHOP, &["web"])?;
            let before = picture(machine, SHOP, "web", "claim")?;
            let [ours, peer] =
                EDITIONS.map(|edition| volume_data::server(&cluster.test_box, edition, &prefix).unwrap());
            assert!(back_up(&ours, "ours-first") > 5_000_000);
            for (server, name) in [(&peer, "peer-second"), (&ours, "ours-third")] {
                // The original counts the lengths of links against itself.
                assert!(back_up(server, name) <= 0, "{name} saved again what was there");
            }
            ours.stop()?;
            peer.stop()?;
            Ok(before)
        }
    })
    .unwrap();
    // The store goes with the last box.
    let target = TestBox::up(TARGET, BoxKind::Storage).unwrap();
    TestBox::down(SOURCE).unwrap();
    harness::inside(target, async move |cluster| {
        let [ours, peer] = EDITIONS.map(|edition| volume_data::server(&cluster.test_box, edition, &prefix).unwrap());
        for (server, backup) in
            [(&peer, "ours-first"), (&peer, "ours-third"), (&ours, "peer-second"), (&ours, "ours-first")]
        {
            assert_eq!(restore(server, backup), before, "{backup} by {:?}", server.edition());
            volume_data::wait_for_no_left_overs(server)?;
        }
        ours.stop()?;
        peer.stop()
    })
    .unwrap();
    TestBox::down(TARGET).unwrap();
}

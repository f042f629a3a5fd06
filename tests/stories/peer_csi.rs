//! Either server restores the CSI snapshots of the other, on another cluster that shares the driver's storage.

use serde_json::json;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, load};
use velero_tests::csi::{self, PATIENCE};
use velero_tests::{backups, restores};

const SOURCE: &str = "csi-source";
const TARGET: &str = "csi-target";
const SHOP: &str = "shop";

fn server(test_box: &TestBox, edition: Edition, prefix: &str) -> VeleroServer {
    let flags = ["--features=EnableCSI", "--backup-sync-period=2s", "--item-operation-sync-frequency=2s"];
    let namespace = format!("velero-{}", format!("{edition:?}").to_lowercase());
    let flags = flags.map(str::to_owned).to_vec();
    let options = ServerOptions { prefix: prefix.into(), namespace, flags, ..ServerOptions::default() };
    VeleroServer::up(test_box, edition, options).unwrap()
}

#[test]
fn either_server_restores_the_csi_snapshots_of_the_other() {
    for name in [SOURCE, TARGET] {
        TestBox::down(name).unwrap();
    }
    let run = harness::unique_name("csi");
    let prefixes = [Edition::Ours, Edition::Peer].map(|edition| (edition, format!("{run}/{edition:?}")));
    let source = TestBox::up(SOURCE, BoxKind::Storage).unwrap();
    let sums = harness::inside(source, {
        let prefixes = prefixes.clone();
        async move |cluster| {
            load::create_all(&cluster.client, csi::stateful_set(SHOP, 2).into_iter()).await?;
            let machine = cluster.test_box.machine();
            csi::wait_for_set(machine, SHOP, 2)?;
            for (edition, prefix) in prefixes {
                let server = server(&cluster.test_box, edition, &prefix);
                backups::create(&server, "b", &json!({"includedNamespaces": [SHOP]}))?;
                let backup = backups::ended(&server, "b", PATIENCE)?;
                assert_eq!(backup["status"]["phase"], "Completed", "by {edition:?}: {}", backup["status"]);
                assert_eq!(backup["status"]["csiVolumeSnapshotsAttempted"], 2, "by {edition:?}");
                csi::wait_for_no_snapshot_objects(machine)?;
                server.stop()?;
            }
            csi::sums(machine, SHOP, 2)
        }
    })
    .unwrap();
    let target = TestBox::up(TARGET, BoxKind::Storage).unwrap();
    harness::inside(target, async move |cluster| {
        let [(ours, our_prefix), (peer, peer_prefix)] = prefixes;
        for (reader, prefix) in [(peer, our_prefix), (ours, peer_prefix)] {
            let server = server(&cluster.test_box, reader, &prefix);
            restores::wait_for_backup(&server, "b")?;
            let namespace = format!("shop-{}", format!("{reader:?}").to_lowercase());
            restores::create(&server, "r", &json!({"backupName": "b", "namespaceMapping": {SHOP: namespace}}))?;
            let restore = restores::ended(&server, "r", PATIENCE)?;
            assert_eq!(restore["status"]["phase"], "Completed", "by {reader:?}: {}", restore["status"]);
            csi::wait_for_set(cluster.test_box.machine(), &namespace, 2)?;
            assert_eq!(csi::sums(cluster.test_box.machine(), &namespace, 2)?, sums, "by {reader:?}");
            // The one who reads may delete as well, whoever took the snapshots.
            csi::delete(&server, "b")?;
            csi::wait_for_no_snapshot_objects(cluster.test_box.machine())?;
            server.stop()?;
        }
        Ok(())
    })
    .unwrap();
    for name in [SOURCE, TARGET] {
        TestBox::down(name).unwrap();
    }
}

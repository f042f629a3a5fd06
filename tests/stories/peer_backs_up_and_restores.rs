//! The peer works in the box: it backs a namespace up to the store, and restores it after it was destroyed.

use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, objects};

#[test]
fn the_peer_restores_a_namespace_it_backed_up() {
    harness::run("peer", BoxKind::ControlPlane, async |cluster| {
        let machine = cluster.test_box.machine();
        let options = ServerOptions { prefix: harness::unique_name("peer"), ..ServerOptions::default() };
        let peer = VeleroServer::up(&cluster.test_box, Edition::Peer, options).unwrap();
        let shop = harness::unique_name("shop");
        for object in [objects::namespace(&shop), objects::config_map(&shop, "stock", "apples", "12")] {
            machine.apply(&object.to_string()).unwrap();
        }
        let backup = peer.velero(&["backup", "create", &shop, "--include-namespaces", &shop, "--wait"]).unwrap();
        assert!(backup.contains("Backup completed with status: Completed"), "{backup}");
        machine.kubectl(&["delete", "namespace", &shop]).unwrap();
        let restore = peer.velero(&["restore", "create", &shop, "--from-backup", &shop, "--wait"]).unwrap();
        assert!(restore.contains("Restore completed with status: Completed"), "{restore}");
        let apples =
            machine.kubectl(&["-n", &shop, "get", "configmap", "stock", "-o=jsonpath={.data.apples}"]).unwrap();
        assert_eq!(apples, "12");
    });
    TestBox::down("peer").unwrap();
}

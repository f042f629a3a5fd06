//! Either server takes over the other's bucket: it finds the backups, and reads every file in them.

use std::fs;
use std::time::Duration;

use serde_json::json;
use velero_testkit::machine::wait_until;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, load};
use velero_tests::{backups, fixture};

/// The original looks once a minute which locations are to be read; one that was not available by then waits for the next.
const SYNCED_WITHIN: Duration = Duration::from_secs(180);

fn start(cluster: &TestCluster, edition: Edition, namespace: &str, prefix: &str) -> VeleroServer {
    let flags = vec!["--backup-sync-period=5s".into()];
    let options =
        ServerOptions { namespace: namespace.into(), prefix: prefix.into(), flags, ..ServerOptions::default() };
    VeleroServer::up(&cluster.test_box, edition, options).unwrap()
}

/// Backs up with one server, then lets the other read it all from the same bucket.
fn hand_over(cluster: &TestCluster, writer: Edition, reader: Edition) {
    let prefix = harness::unique_name(&format!("{writer:?}-to-{reader:?}").to_lowercase());
    let first = start(cluster, writer, &format!("writer-{prefix}"), &prefix);
    for (name, spec) in [
        ("small", json!({"includedNamespaces": ["alpha"]})),
        ("several", json!({"includedNamespaces": ["alpha", "beta", "gamma-*"]})),
    ] {
        backups::create(&first, name, &spec).unwrap();
        assert_eq!(backups::ended(&first, name, Duration::from_secs(120)).unwrap()["status"]["phase"], "Completed");
    }
    first.stop().unwrap();
    let second = start(cluster, reader, &format!("reader-{prefix}"), &prefix);
    for name in ["small", "several"] {
        wait_until("the backup to be synced", SYNCED_WITHIN, || second.velero(&["backup", "get", name]).map(drop))
            .unwrap();
        let described = second.velero(&["backup", "describe", name, "--details"]).unwrap();
        assert!(described.contains("Phase:  Completed"), "{described}");
        assert!(described.contains("Resource List:") && described.contains("alpha/front"), "{described}");
        assert!(!described.contains("<error"), "{described}");
        assert!(second.velero(&["backup", "logs", name]).unwrap().contains("level=info"));
        let file = second.machine().state().join(format!("{prefix}-{name}.tar.gz")).display().to_string();
        second.velero(&["backup", "download", name, "--output", &file]).unwrap();
        assert!(second.machine().run("tar", ["tzf", &file]).unwrap().contains("metadata/version"));
    }
    let log = fs::read_to_string(second.log()).unwrap();
    let complaints: Vec<&str> =
        log.lines().filter(|line| line.contains("level=warning") || line.contains("level=error")).collect();
    let about_backups: Vec<&&str> =
        complaints.iter().filter(|line| line.contains("small") || line.contains("several")).collect();
    assert!(about_backups.is_empty(), "{about_backups:#?}");
    second.stop().unwrap();
}

#[test]
fn either_server_reads_what_the_other_wrote() {
    harness::run("buckets", BoxKind::ControlPlane, async |cluster| {
        load::create_all(&cluster.client, fixture::objects().into_iter()).await.unwrap();
        hand_over(&cluster, Edition::Ours, Edition::Peer);
        hand_over(&cluster, Edition::Peer, Edition::Ours);
    });
    TestBox::down("buckets").unwrap();
}

//! This command line drives the original's server: a backup is made, awaited, described, read and fetched.

use std::process::Output;

use velero_testkit::{Edition, ServerOptions, VeleroServer, cluster_test};

use crate::support::velero;

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_backup_of_the_original_server_is_awaited_described_read_and_fetched() {
    cluster_test(async |cluster| {
        let options = ServerOptions {
            namespace: cluster.namespace.clone(),
            prefix: cluster.namespace.clone(),
            ..ServerOptions::default()
        };
        let server = VeleroServer::up(&cluster.test_box, Edition::Peer, options).expect("the server must start");
        let created =
            velero(&cluster, &["backup", "create", "b1", "--include-namespaces", &cluster.namespace, "--wait"]);
        assert!(stdout(&created).contains("\nBackup completed with status: Completed."), "{created:?}");
        let log = velero(&cluster, &["backup", "logs", "b1"]);
        assert!(stdout(&log).contains("level=info"), "{log:?}");
        let details = ["backup", "describe", "b1", "--details", "--colorized=false"];
        let theirs = server.velero_of(Edition::Peer, &details).expect("the peer must describe");
        assert_eq!(stdout(&velero(&cluster, &details)), theirs);
        let folder = tempfile::tempdir().expect("a folder");
        let archive = folder.path().join("b1.tar.gz");
        let downloaded = velero(&cluster, &["backup", "download", "b1", "-o", &archive.display().to_string()]);
        assert!(downloaded.status.success(), "{downloaded:?}");
        assert_eq!(std::fs::read(&archive).expect("the archive")[..2], [0x1f, 0x8b]);
        // It keeps no status; only its Deployment tells something.
        let version = velero(&cluster, &["version"]);
        assert!(version.status.success() && stdout(&version).contains("has no ServerStatusRequest"), "{version:?}");
        assert!(stdout(&version).contains("cannot be known") && stdout(&version).contains(":v1.18.3"), "{version:?}");
        assert!(!velero(&cluster, &["server", "status"]).status.success());
        let plugins = ["plugin", "get"];
        let theirs = server.velero_of(Edition::Peer, &plugins).expect("the peer must list");
        assert_eq!(stdout(&velero(&cluster, &plugins)), theirs);
        // It refuses the question, so the command finds out by itself; nothing is restored, and nothing is left.
        let copy = format!("{}:{}-copy", cluster.namespace, cluster.namespace);
        let dry_run = velero(
            &cluster,
            &["restore", "create", "r1", "--from-backup", "b1", "--namespace-mappings", &copy, "--dry-run"],
        );
        assert!(dry_run.status.success() && stdout(&dry_run).contains("create   Namespace"), "{dry_run:?}");
        let told = String::from_utf8_lossy(&dry_run.stderr).into_owned();
        assert!(told.contains("does not know dry runs") && told.contains("built-in actions alone"), "{told}");
        let restores = server.velero_of(Edition::Peer, &["restore", "get"]).expect("the peer must list");
        assert!(!restores.contains("dry-run"), "{restores}");
        let namespaces = cluster.test_box.machine().kubectl(&["get", "namespaces", "-o", "name"]).expect("namespaces");
        assert!(!namespaces.contains("-copy"), "{namespaces}");
        server.stop().expect("the server must stop");
    });
}

//! `velero version` and `velero server status` where something is missing: each says what, and what helps.

use std::path::Path;
use std::process::{Command, Output};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use velero_api::v1::{Backup, SERVER_STATUS_NAME, ServerStatusRequest};
use velero_testkit::{TestCluster, cluster_test};

use crate::api_tables::install_definitions;
use crate::support::with_rights;

fn run(kubeconfig: &Path, namespace: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_velero"))
        .args(["--namespace", namespace, "--kubeconfig"])
        .arg(kubeconfig)
        .args(arguments)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap()
}

fn ours(cluster: &TestCluster, arguments: &[&str]) -> Output {
    run(&cluster.test_box.kubeconfig(), &cluster.namespace, arguments)
}

/// `server status` must fail, and `version` must not; both must say these words.
#[track_caller]
fn assert_both_say(kubeconfig: &Path, namespace: &str, words: &[&str]) {
    let status = run(kubeconfig, namespace, &["server", "status"]);
    assert!(!status.status.success() && status.stdout.is_empty(), "{status:?}");
    let version = run(kubeconfig, namespace, &["version"]);
    assert!(version.status.success(), "{version:?}");
    let (status, version) = (String::from_utf8(status.stderr).unwrap(), String::from_utf8(version.stdout).unwrap());
    assert!(version.starts_with("Client:\n\tVersion: v"), "{version}");
    assert!(version.contains("<error getting server version: "), "{version}");
    for word in words {
        assert!(status.contains(word) && version.contains(word), "no {word:?} in {status:?} or {version:?}");
    }
}

fn requests(cluster: &TestCluster) -> Api<ServerStatusRequest> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        let kubeconfig = cluster.test_box.kubeconfig();
        assert_both_say(
            &kubeconfig,
            "no-such-namespace",
            &["namespace no-such-namespace does not exist", "--namespace"],
        );
        assert_both_say(&kubeconfig, &cluster.namespace, &["has no ServerStatusRequest velero-server-status"]);

        let request = ServerStatusRequest::new(&cluster.namespace, SERVER_STATUS_NAME, Default::default());
        requests(&cluster).create(&PostParams::default(), &request).await.unwrap();
        assert_both_say(&kubeconfig, &cluster.namespace, &["has not written its status yet"]);

        let folder = tempfile::tempdir().unwrap();
        let nobody = with_rights(&cluster, folder.path(), "nobody", &[]);
        assert_both_say(&nobody, &cluster.namespace, &["forbidden", "the right to get serverstatusrequests.velero.io"]);
        assert_eq!(requests(&cluster).list(&Default::default()).await.unwrap().items.len(), 1, "something was created");
    });
}

/// Leaves what a server says of itself.
async fn tell_status(cluster: &TestCluster, word: &str) {
    install_definitions(cluster);
    let request = ServerStatusRequest::new(&cluster.namespace, SERVER_STATUS_NAME, Default::default());
    requests(cluster).create(&PostParams::default(), &request).await.unwrap();
    let status = json!({"status": {"phase": "Processed", "serverVersion": "v9.9.9", "serverStatus": word}});
    requests(cluster).patch(SERVER_STATUS_NAME, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[test]
fn a_status_is_shown_as_text_json_and_yaml() {
    cluster_test(|cluster| async move {
        tell_status(&cluster, "Waiting").await;
        // Who may not look at the Lease is shown what the server wrote.
        let folder = tempfile::tempdir().unwrap();
        let reader = with_rights(&cluster, folder.path(), "reader", &[("get", "serverstatusrequests.velero.io")]);
        let text = |arguments: &[&str]| {
            let output = run(&reader, &cluster.namespace, arguments);
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let plain = text(&["server", "status"]);
        assert!(plain.contains("Server:\n\tVersion: v9.9.9\n\tStatus: Waiting\n"), "{plain}");
        assert_eq!(text(&["version"]), plain);
        assert_eq!(text(&["version", "--timeout", "1s"]), plain);
        let json: Value = serde_json::from_str(&text(&["server", "status", "-o", "json"])).unwrap();
        assert_eq!(json["server"], json!({"version": "v9.9.9", "status": "Waiting"}));
        let yaml = text(&["version", "-o", "yaml"]);
        assert!(yaml.contains("server:\n  status: Waiting\n  version: v9.9.9\n"), "{yaml}");
        assert!(!text(&["version", "--client-only"]).contains("Server"));
        write_lease(&cluster, "velero-1", 1).await;
        let details = ours(&cluster, &["server", "status", "--details"]);
        assert!(details.status.success(), "{details:?}");
        let details = String::from_utf8(details.stdout).unwrap();
        assert!(details.contains("Deployment:   <none>: the server runs elsewhere"), "{details}");
        assert!(!ours(&cluster, &["server", "status", "-o", "xml"]).status.success());
    });
}

/// Writes the Lease of a server that was renewed some seconds ago, by its own clock.
async fn write_lease(cluster: &TestCluster, holder: &str, seconds_ago: i64) {
    let renewed = Timestamp::now() - SignedDuration::from_secs(seconds_ago);
    let renewed = renewed.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "velero-server"},
        "spec": {"renewTime": renewed, "leaseDurationSeconds": 6},
    });
    if !holder.is_empty() {
        lease["spec"]["holderIdentity"] = json!(holder);
    }
    let api: Api<Lease> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    api.patch("velero-server", &PatchParams::apply("test").force(), &Patch::Apply(lease)).await.unwrap();
}

#[test]
fn a_server_is_alive_while_its_lease_is_renewed_and_never_ready_when_it_is_gone() {
    cluster_test(|cluster| async move {
        tell_status(&cluster, "Ready").await;
        // Who holds the Lease, how long ago it was renewed, and whether the server is there.
        for (holder, seconds_ago, is_there) in
            [("velero-1", 1, true), ("velero-1", 60, false), ("velero-1", -3600, false), ("", 1, false)]
        {
            for command in [&["server", "status"][..], &["version"]] {
                write_lease(&cluster, holder, seconds_ago).await;
                let output = ours(&cluster, command);
                let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                assert_eq!(output.status.code(), Some(i32::from(!is_there)), "{holder:?} {seconds_ago}: {output:?}");
                let shown = if is_there { "\tStatus: Ready\n" } else { "\tStatus: Gone\n" };
                assert!(text.contains(shown) && text.contains("\tLast heard of: "), "{holder:?} {seconds_ago}: {text}");
                assert_eq!(said.contains("no server works in namespace"), !is_there, "{said}");
            }
        }
        let gone = ours(&cluster, &["server", "status", "-o", "json"]);
        let json: Value = serde_json::from_slice(&gone.stdout).unwrap();
        assert_eq!((&json["server"]["status"], &json["server"]["alive"]), (&json!("Gone"), &json!(false)), "{json:#}");
        assert!(!gone.status.success());

        requests(&cluster).delete(SERVER_STATUS_NAME, &Default::default()).await.unwrap();
        let without_status = ours(&cluster, &["version"]);
        let said = String::from_utf8_lossy(&without_status.stderr);
        assert_eq!(without_status.status.code(), Some(1), "{without_status:?}");
        assert!(said.contains("no server works in namespace"), "{said}");
    });
}

#[test]
fn a_status_that_no_lease_stands_beside_is_that_of_a_server_that_is_gone() {
    cluster_test(|cluster| async move {
        tell_status(&cluster, "Ready").await;
        for command in [&["server", "status", "--timeout", "1s"][..], &["version", "--timeout", "1s"]] {
            let output = ours(&cluster, command);
            let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(text.contains("Server:\n\tVersion: v9.9.9\n\tStatus: Gone\n"), "{text}");
            assert!(said.contains("no server has been heard of in namespace"), "{said}");
        }
        // A server that leads makes a Lease again that somebody has deleted.
        let asked = cluster.clone();
        let mut asking = tokio::task::spawn_blocking(move || ours(&asked, &["version", "--timeout", "30s"]));
        let output = loop {
            tokio::select! {
                output = &mut asking => break output.unwrap(),
                () = tokio::time::sleep(std::time::Duration::from_secs(1)) => {}
            }
            write_lease(&cluster, "velero-1", 0).await;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("\tStatus: Ready\n"), "{output:?}");
    });
}

#[test]
fn files_are_not_waited_for_where_the_server_is_gone() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        let backups: Api<Backup> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let backup = Backup::new(&cluster.namespace, "b", Default::default());
        backups.create(&PostParams::default(), &backup).await.unwrap();
        let ended = json!({"status": {"phase": "Completed"}});
        backups.patch("b", &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
        write_lease(&cluster, "velero-1", 60).await;
        let logs = ours(&cluster, &["backup", "logs", "b"]);
        let said = String::from_utf8_lossy(&logs.stderr);
        assert!(!logs.status.success() && said.contains("no server works in namespace"), "{logs:?}");
        let described = ours(&cluster, &["backup", "describe", "b", "--details"]);
        let text = String::from_utf8_lossy(&described.stdout);
        assert!(text.contains("no server works in namespace"), "{described:?}");
    });
}

#[test]
fn a_server_whose_clock_is_wrong_is_alive_as_long_as_it_renews() {
    cluster_test(|cluster| async move {
        tell_status(&cluster, "Ready").await;
        write_lease(&cluster, "velero-1", 3600).await;
        let asked = cluster.clone();
        let mut asking = tokio::task::spawn_blocking(move || ours(&asked, &["version"]));
        let output = loop {
            tokio::select! {
                output = &mut asking => break output.unwrap(),
                () = tokio::time::sleep(std::time::Duration::from_millis(300)) => {}
            }
            write_lease(&cluster, "velero-1", 3600).await;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("\tStatus: Ready\n"), "{output:?}");
    });
}

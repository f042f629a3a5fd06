//! `velero debug` collects what those who help need, and no secret.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, objects};

const BOX: &str = "st-debug";
const SECRET: &str = "nobody-must-see-this";

/// The files of a bundle.
fn files(bundle: &[u8]) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bundle));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (entry.path().unwrap().display().to_string(), text)
    });
    entries.collect()
}

/// A pod in the place of the server's, since the server runs beside the cluster here.
fn talking_pod() -> Value {
    let mut pod = objects::pod("velero", "talking", "echo a line in the log; sleep 1000");
    pod["spec"]["containers"][0]["env"] = json!([{"name": "AWS_SECRET_ACCESS_KEY", "value": SECRET}]);
    pod
}

fn wait_for_log(server: &VeleroServer) {
    let talks = wait_until("the pod to talk", Duration::from_secs(120), || {
        let log = server.machine().kubectl(&["-n", "velero", "logs", "talking"])?;
        anyhow::ensure!(log.contains("a line in the log"), "it says {log:?}");
        Ok(())
    });
    talks.unwrap();
}

#[test]
fn a_bundle_holds_objects_logs_and_descriptions_and_no_secret() {
    harness::run(BOX, BoxKind::Whole, async |cluster| {
        let options = ServerOptions { prefix: harness::unique_name("debug-bundle"), ..ServerOptions::default() };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
        server.machine().apply(&talking_pod().to_string()).unwrap();
        let secret = ["-n", "velero", "create", "secret", "generic", "keys", "--from-literal", &format!("a={SECRET}")];
        server.machine().kubectl(&secret).unwrap();
        server.velero(&["backup", "create", "b1", "--include-namespaces", "velero", "--wait"]).unwrap();
        server.velero(&["restore", "create", "r1", "--from-backup", "b1", "--wait"]).unwrap();
        wait_for_log(&server);
        // Leaves a signed address behind.
        server.velero(&["backup", "logs", "b1"]).unwrap();
        let path = server.machine().state().join("bundle.tar.gz").display().to_string();
        let told = server.velero(&["debug", "--output", &path, "--backup", "b1", "--restore", "r1"]).unwrap();
        assert!(told.contains(&path), "{told}");
        let files = files(&std::fs::read(&path).unwrap());
        for (name, piece) in [
            ("version.txt", "Server:"),
            ("server_status.txt", "Status: Ready"),
            ("backup_describe_b1.txt", "Phase:  Completed"),
            ("backup_b1.log", "level=info"),
            ("restore_describe_r1.txt", "Phase:"),
            ("restore_r1.log", "level=info"),
            ("kubecapture/velero.io_v1/velero/backups.json", "\"b1\""),
            ("kubecapture/velero.io_v2alpha1/velero/datauploads.json", "DataUploadList"),
            ("kubecapture/velero.io_v1/velero/downloadrequests.json", "<hidden>"),
            ("kubecapture/core_v1/velero/pods.json", "talking"),
            ("kubecapture/core_v1/velero/events.json", "EventList"),
            ("kubecapture/apps_v1/velero/deployments.json", "velero"),
            ("kubecapture/core_v1/velero/talking/talking/talking.log", "a line in the log"),
        ] {
            let text = files.get(&format!("velero-bundle/{name}"));
            assert!(text.is_some_and(|text| text.contains(piece)), "{name}: {text:?} of {:?}", files.keys());
        }
        for (name, text) in &files {
            assert!(!text.contains(SECRET) && !text.contains("X-Amz-Signature"), "{name} holds a secret");
        }
        assert_eq!(files.get("velero-bundle/problems.txt"), None);
    });
    TestBox::down(BOX).unwrap();
}

//! A store that fails: a backup outlives what passes, and says why where it cannot.

use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::faulty_proxy::{self, Action, Request, first_uploads, outage};
use velero_testkit::parts::BUCKET;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, load, objects};
use velero_tests::backups;

/// How long the server repeats a request to the store.
const PATIENCE: &str = "--resource-timeout=15s";
/// An outage that is over before.
const OUTAGE: Duration = Duration::from_secs(10);
/// After this, every backup must have ended, whatever its store does.
const DEADLINE: Duration = Duration::from_secs(75);

/// One way to fail. Its name is that of the backup, the location and the namespace.
struct Fault {
    name: &'static str,
    rule: Box<dyn Fn(&Request) -> Action + Send + Sync>,
    /// How the backup ends: completed, or failed with these words in the reason.
    ending: Result<(), &'static str>,
}

fn faults() -> Vec<Fault> {
    vec![
        Fault { name: "dead", rule: Box::new(outage(Duration::MAX, Action::Cut(1_000))), ending: Err("backups/dead/") },
        Fault { name: "unavailable", rule: Box::new(outage(OUTAGE, Action::Unavailable)), ending: Ok(()) },
        Fault { name: "interrupted", rule: Box::new(first_uploads(6, Action::Cut(1 << 20))), ending: Ok(()) },
        Fault { name: "scratched", rule: Box::new(first_uploads(1, Action::Flip(1_234))), ending: Ok(()) },
        Fault {
            name: "damaging",
            rule: Box::new(first_uploads(usize::MAX, Action::Flip(1_234))),
            ending: Err("backups/damaging/"),
        },
    ]
}

/// Text that hardly compresses, the same for the same number.
fn noise(mut state: u64, length: usize) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(letters[(state >> 58) as usize])
    };
    (0..length).map(|_| next()).collect()
}

/// Enough for an archive of several parts.
fn contents(namespace: &str) -> Vec<Value> {
    let maps = (0..14).map(|index| {
        let text = noise(index, 950_000);
        objects::config_map(namespace, &format!("noise-{index}"), "text", &text)
    });
    [objects::namespace(namespace)].into_iter().chain(maps).collect()
}

fn location(server: &VeleroServer, name: &str, prefix: &str, url: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "BackupStorageLocation",
        "metadata": {"name": name, "namespace": server.namespace()},
        "spec": {
            "provider": "aws",
            "objectStorage": {"bucket": BUCKET, "prefix": prefix},
            "config": {"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": url},
        },
    })
}

/// Starts a backup of a namespace of its own into a store behind the fault.
async fn begin(cluster: &TestCluster, server: &VeleroServer, prefix: &str, fault: Fault) -> Result<(), &'static str> {
    let Fault { name, rule, ending } = fault;
    let url = faulty_proxy::start(&TestBox::store_url(), rule).await.unwrap();
    load::create_all(&cluster.client, contents(name).into_iter()).await.unwrap();
    server.machine().apply(&location(server, name, &format!("{prefix}/{name}"), &url).to_string()).unwrap();
    server.wait_for_location(name).unwrap();
    let spec = json!({"storageLocation": name, "includedNamespaces": [name]});
    backups::create(server, name, &spec).unwrap();
    ending
}

/// The backup has completed and its archive holds every object as it was.
fn check_completed(server: &VeleroServer, backup: &Value, prefix: &str, name: &str) {
    assert_eq!(backup["status"]["phase"], "Completed", "{name}: {}", backup["status"]);
    let archive = backups::archive(server.machine(), BUCKET, &format!("{prefix}/{name}"), name).unwrap();
    for object in contents(name).into_iter().skip(1) {
        let file =
            format!("resources/configmaps/namespaces/{name}/{}.json", object["metadata"]["name"].as_str().unwrap());
        let held: Value = serde_json::from_slice(archive.get(&file).unwrap_or_else(|| panic!("no {file}"))).unwrap();
        assert!(held["data"] == object["data"], "{name}: {file} is not what was backed up");
    }
}

/// The backup has failed, says why, and nothing in the bucket passes for a backup.
fn check_failed(server: &VeleroServer, backup: &Value, prefix: &str, name: &str, words: &str) {
    let status = &backup["status"];
    assert_eq!(status["phase"], "Failed", "{name}: {status}");
    let reason = status["failureReason"].as_str().unwrap_or_default();
    assert!(reason.contains(words), "{name}: {reason:?}");
    // What may be left in a store that is still away is removed later, and nobody forgets it.
    let owes = backup["metadata"]["annotations"]["velero.io/clean-up-owed"].is_string();
    assert_eq!(owes, name == "dead", "{name}: {}", backup["metadata"]["annotations"]);
    let files = [format!("{name}.tar.gz"), "velero-backup.json".to_owned()];
    for file in files {
        let key = format!("{prefix}/{name}/backups/{name}/{file}");
        assert_eq!(backups::object(server.machine(), BUCKET, &key).unwrap(), None, "{key} was left behind");
    }
}

#[test]
fn a_backup_outlives_what_passes_and_fails_with_the_reason_where_it_cannot() {
    // What a run that broke off left would count as this run's.
    TestBox::down("faulty-store").unwrap();
    harness::run("faulty-store", BoxKind::ControlPlane, async |cluster| {
        let prefix = harness::unique_name("faulty-store");
        let flags = vec![PATIENCE.to_owned(), "--concurrent-backups=5".to_owned()];
        let options = ServerOptions { prefix: format!("{prefix}/default"), flags, ..ServerOptions::default() };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
        let mut endings = Vec::new();
        for fault in faults() {
            let name = fault.name;
            endings.push((name, begin(&cluster, &server, &prefix, fault).await));
        }
        for (name, ending) in endings {
            let backup = backups::ended(&server, name, DEADLINE).unwrap();
            match ending {
                Ok(()) => check_completed(&server, &backup, &prefix, name),
                Err(words) => check_failed(&server, &backup, &prefix, name, words),
            }
        }
    });
    TestBox::down("faulty-store").unwrap();
}

//! The status of the server follows its locations, is read without being asked for, and is written only when it changes.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use velero_api::v1::{BackupStorageLocation, SERVER_STATUS_NAME, ServerStatusRequest};
use velero_testkit::faulty_proxy::{self, Action};
use velero_testkit::parts::{ACCESS_KEY, BUCKET};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness};
use velero_tests::audit::AuditLog;
use velero_tests::backups;

const BOX: &str = "st-status";
/// How long is waited for what the server finds out, and for what follows.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long commands are repeated; set `VELERO_TEST_POLLING_SECONDS` for longer.
const POLLING: Duration = Duration::from_secs(15);
/// How long an answered request stays, and some more.
const LIFETIME: Duration = Duration::from_secs(90);

/// A cluster with our server, its command line, and a store that can be switched off.
struct Scene {
    cluster: TestCluster,
    program: std::path::PathBuf,
    store_is_on: Arc<AtomicBool>,
    store: String,
    prefix: String,
}

impl Scene {
    async fn new(cluster: TestCluster) -> Self {
        let store_is_on = Arc::new(AtomicBool::new(true));
        let switch = store_is_on.clone();
        let rule = move |_: &_| if switch.load(Ordering::SeqCst) { Action::Forward } else { Action::Cut(0) };
        let store = faulty_proxy::start(&TestBox::store_url(), rule).await.unwrap();
        let program = Edition::Ours.binary().unwrap();
        Self { cluster, program, store_is_on, store, prefix: harness::unique_name("server-status") }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.env("HOME", "/nonexistent").arg("--kubeconfig").arg(self.cluster.test_box.kubeconfig());
        command.args(arguments).output().unwrap()
    }

    fn velero(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "velero {}: {output:?}", arguments.join(" "));
        String::from_utf8(output.stdout).unwrap()
    }

    fn locations(&self) -> Api<BackupStorageLocation> {
        Api::namespaced(self.cluster.client.clone(), "velero")
    }

    fn requests(&self) -> Api<ServerStatusRequest> {
        Api::namespaced(self.cluster.client.clone(), "velero")
    }

    fn switch_store(&self, on: bool) {
        self.store_is_on.store(on, Ordering::SeqCst);
    }

    /// A location in the store that can be switched off.
    fn add_location(&self, server: &VeleroServer, name: &str) {
        let location = json!({
            "apiVersion": "velero.io/v1",
            "kind": "BackupStorageLocation",
            "metadata": {"name": name, "namespace": "velero"},
            "spec": {
                "provider": "aws",
                "objectStorage": {"bucket": BUCKET, "prefix": format!("{}/{name}", self.prefix)},
                "config": {"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": self.store},
            },
        });
        server.machine().apply(&location.to_string()).unwrap();
    }

    async fn change_location(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.locations().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until a location is in a phase, and then for the command to show the status that follows.
    async fn expect(&self, step: &str, location: &str, phase: &str, status: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.locations().get(location).await.unwrap();
            let is = found.status.phase.as_ref().map(ToString::to_string).unwrap_or_default();
            if is == phase {
                break;
            }
            assert!(Instant::now() < deadline, "{step}: {location} is {is:?}: {}", found.status.message);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.expect_status(step, status).await;
    }

    async fn expect_status(&self, step: &str, status: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.run(&["server", "status"]);
            if String::from_utf8_lossy(&output.stdout).ends_with(&format!("\tStatus: {status}\n")) {
                break;
            }
            assert!(Instant::now() < deadline, "{step}: not {status}: {output:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until only the request that is kept is there.
    async fn expect_only_the_kept_request(&self) -> ServerStatusRequest {
        let deadline = Instant::now() + LIFETIME;
        loop {
            let mut items = self.requests().list(&Default::default()).await.unwrap().items;
            if items.len() == 1 && items[0].metadata.name.as_deref() == Some(SERVER_STATUS_NAME) {
                return items.remove(0);
            }
            assert!(Instant::now() < deadline, "requests are left: {items:#?}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

/// Every row of the table that turns locations into a status, by what really happens to locations.
async fn follows_its_locations(scene: &Scene, server: &VeleroServer) {
    scene.expect("one location", "default", "Available", "Ready").await;
    scene.add_location(server, "second");
    scene.expect("a location is added", "second", "Available", "Ready").await;
    scene.switch_store(false);
    scene.expect("its store stops", "second", "Unavailable", "Partially Ready").await;
    scene.switch_store(true);
    scene.expect("its store starts", "second", "Available", "Ready").await;
    let keys = format!("cloud=[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key=not-the-secret\n");
    let secret = ["-n", "velero", "create", "secret", "generic", "broken", "--from-literal", &keys];
    server.machine().kubectl(&secret).unwrap();
    scene.change_location("second", json!({"credential": {"name": "broken", "key": "cloud"}})).await;
    scene.expect("its keys are broken", "second", "Unavailable", "Partially Ready").await;
    scene.locations().delete("second", &DeleteParams::default()).await.unwrap();
    scene.expect_status("the broken location is deleted", "Ready").await;
    scene.switch_store(false);
    scene.change_location("default", json!({"config": {"s3Url": scene.store}})).await;
    scene.expect("the only store stops", "default", "Unavailable", "Waiting").await;
    answers_without_a_store(scene);
    scene.switch_store(true);
    scene.expect("the only store starts", "default", "Available", "Ready").await;
    scene.locations().delete("default", &DeleteParams::default()).await.unwrap();
    scene.expect_status("no location is left", "Waiting").await;
    scene.add_location(server, "default");
    scene.expect("there is one again", "default", "Available", "Ready").await;
}

/// While no store answers, commands do.
fn answers_without_a_store(scene: &Scene) {
    for command in [&["version"][..], &["server", "status"], &["server", "status", "--details"]] {
        let text = scene.velero(command);
        assert!(text.contains("\tStatus: Waiting\n"), "{command:?}: {text}");
    }
}

async fn is_made_again_when_deleted(scene: &Scene) {
    scene.requests().delete(SERVER_STATUS_NAME, &DeleteParams::default()).await.unwrap();
    scene.expect_status("the kept request is deleted", "Ready").await;
}

async fn polling_writes_nothing(scene: &Scene) {
    let seconds = std::env::var("VELERO_TEST_POLLING_SECONDS").ok().and_then(|text| text.parse().ok());
    let polling = seconds.map_or(POLLING, Duration::from_secs);
    let before = scene.expect_only_the_kept_request().await;
    let log = AuditLog::from_now(scene.cluster.test_box.machine()).unwrap();
    let (began, mut count) = (Instant::now(), 0);
    while began.elapsed() < polling {
        assert!(scene.velero(&["version"]).ends_with("\tStatus: Ready\n"));
        assert!(scene.velero(&["server", "status", "-o", "json"]).contains("\"status\": \"Ready\""));
        count += 2;
    }
    println!("{count} commands in {:?}", began.elapsed());
    let after = scene.expect_only_the_kept_request().await;
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
    let requests = log.requests().unwrap();
    let written: Vec<_> =
        requests.iter().filter(|request| request.resource.starts_with("serverstatusrequests")).collect();
    assert!(written.is_empty(), "{written:#?}");
    assert!(requests.iter().any(|request| request.resource.starts_with("backupstoragelocations")), "the log is deaf");
}

fn both_command_lines_learn_version_and_plugins(server: &VeleroServer) {
    let asked = |edition, arguments: &[&str]| server.velero_of(edition, arguments).unwrap();
    let [ours, theirs] = [Edition::Ours, Edition::Peer].map(|edition| asked(edition, &["get", "plugins"]));
    assert_eq!(ours, theirs);
    assert!(ours.contains("velero.io/pod"), "{ours}");
    let ours = asked(Edition::Ours, &["version"]);
    let version = ours.lines().find(|line| line.starts_with("\tVersion: ")).unwrap();
    let theirs = asked(Edition::Peer, &["version"]);
    assert!(theirs.contains(&format!("Server:\n{version}\n")), "{theirs}");
}

fn details_tell_what_the_server_has_and_does(scene: &Scene, server: &VeleroServer) {
    backups::create(server, "astray", &json!({"storageLocation": "nowhere"})).unwrap();
    backups::ended(server, "astray", PATIENCE).unwrap();
    let text = scene.velero(&["server", "status", "--details", "-o", "json"]);
    let details: Value = serde_json::from_str::<Value>(&text).unwrap()["details"].clone();
    assert_eq!(details["locations"][0]["phase"], "Available", "{details:#}");
    assert_eq!(details["work"]["lastErrors"][0]["name"], "astray", "{details:#}");
    assert!(details["work"]["lastErrors"][0]["message"].as_str().unwrap().contains("nowhere"), "{details:#}");
    assert_eq!(details["deployment"]["desired"], 0, "{details:#}");
    let text = scene.velero(&["server", "status", "--details"]);
    for piece in ["\tStatus: Ready\n", "  default  Available  validated: ", "velero.io/pod", "backup astray"] {
        assert!(text.contains(piece), "no {piece:?} in\n{text}");
    }
}

#[test]
fn the_status_follows_the_locations_and_is_read_without_a_write() {
    // What a run that broke off left would count as this run's.
    TestBox::down(BOX).unwrap();
    harness::run(BOX, BoxKind::ControlPlane, async |cluster| {
        let scene = Scene::new(cluster).await;
        let nothing = scene.run(&["server", "status"]);
        assert!(String::from_utf8_lossy(&nothing.stderr).contains("Velero is not installed"), "{nothing:?}");
        let options = ServerOptions {
            prefix: format!("{}/default", scene.prefix),
            flags: vec!["--store-validation-frequency=1s".to_owned()],
            ..ServerOptions::default()
        };
        let server = VeleroServer::up(&scene.cluster.test_box, Edition::Ours, options).unwrap();
        both_command_lines_learn_version_and_plugins(&server);
        follows_its_locations(&scene, &server).await;
        is_made_again_when_deleted(&scene).await;
        details_tell_what_the_server_has_and_does(&scene, &server);
        polling_writes_nothing(&scene).await;
    });
    TestBox::down(BOX).unwrap();
}

//! A cluster whose page has something to tell: backups that are good, bad and under way, schedules, namespaces that nobody
//! saves, and what is in the bucket from before. All but the history has really happened.

use std::fs;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use velero_testkit::faulty_proxy::{self, Action, Request};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{ACCESS_KEY, BUCKET, SECRET_KEY};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, objects};

use super::People;
use crate::{backups, restores};

/// Where the page is, inside the box.
pub const ADDRESS: &str = "http://127.0.0.1:8090";
/// The namespace of the server.
pub const NAMESPACE: &str = "velero";
const PATIENCE: Duration = Duration::from_secs(60);
/// How many nights the bucket remembers.
const NIGHTS: i64 = 30;
/// The seconds of a day.
const DAY: i64 = 24 * 3600;

/// A server with a page, and those who look at it.
pub struct Scene {
    /// The server.
    pub server: VeleroServer,
    /// Those who look.
    pub people: People,
    is_held: Arc<AtomicBool>,
}

/// Brings up a box, does work in its network with a scene, and takes it down.
pub fn run<F: Future<Output = Result<()>>>(
    name: &str,
    work: impl FnOnce(Arc<Scene>) -> F + Send + 'static,
) -> Result<()> {
    TestBox::down(name)?;
    let test_box = TestBox::up(name, BoxKind::ControlPlane)?;
    // Threads made after entering a network namespace live in it too, so the whole runtime of the work does.
    let working = thread::spawn(move || -> Result<()> {
        test_box.machine().enter_network()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let scene = Arc::new(Scene::new(&test_box).await?);
            work(Arc::clone(&scene)).await?;
            scene.server.stop()
        })
    });
    working.join().map_err(|panic| anyhow!("{}", panic_text(&*panic)))??;
    TestBox::down(name)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

impl Scene {
    async fn new(test_box: &TestBox) -> Result<Self> {
        let machine = test_box.machine();
        let is_held = Arc::new(AtomicBool::new(false));
        let held = Arc::clone(&is_held);
        // Archives stand still on their way; who asks whether one is there is answered.
        let moves_archive = |request: &Request| request.method != "HEAD" && request.path.contains(".tar.gz");
        let rule = move |request: &Request| match held.load(Ordering::SeqCst) && moves_archive(request) {
            true => Action::AskAgain(Duration::from_millis(100)),
            false => Action::Forward,
        };
        let slow = faulty_proxy::start(&TestBox::store_url(), rule).await?;
        let prefix = harness::unique_name("page");
        TestBox::make_bucket(BUCKET)?;
        let nights = Nights::until_now();
        nights.remember(machine, &prefix)?;
        let flags = vec![format!("--web-address={}", ADDRESS.trim_start_matches("http://"))];
        let options =
            ServerOptions { namespace: NAMESPACE.to_owned(), prefix: prefix.clone(), flags, ..Default::default() };
        application(machine)?;
        let server = VeleroServer::up(test_box, Edition::Ours, options)?;
        machine.apply(&location(&format!("{prefix}-slow"), &slow).to_string())?;
        server.wait_for_location("slow")?;
        let scene = Self { people: People::make(machine, NAMESPACE)?, server, is_held };
        scene.happen(nights)?;
        Ok(scene)
    }

    /// What has happened when people come to look.
    fn happen(&self, nights: Nights) -> Result<()> {
        for (name, cron, namespaces, paused) in [
            ("shop-nightly", "0 3 * * *", "shop", false),
            ("billing-daily", "30 2 * * *", "billing", false),
            ("archive-monthly", "0 5 1 * *", "archive", true),
        ] {
            self.apply(&schedule(name, cron, namespaces, paused))?;
        }
        restores::wait_for_backup(&self.server, &nights.name(0))?;
        let ended = [
            ("shop-1", json!({"includedNamespaces": ["shop"], "ttl": "720h0m0s"}), "Completed"),
            ("billing-1", json!({"includedNamespaces": ["billing"], "ttl": "720h0m0s"}), "PartiallyFailed"),
            ("shop-slow", json!({"includedNamespaces": ["shop"], "storageLocation": "slow"}), "Completed"),
            ("attic-1", json!({"includedNamespaces": ["attic"], "storageLocation": "attic"}), "FailedValidation"),
        ];
        for (name, spec, phase) in ended {
            backups::create(&self.server, name, &spec)?;
            let backup = backups::ended(&self.server, name, PATIENCE)?;
            ensure!(backup["status"]["phase"] == phase, "{name} is {}", backup["status"]);
            // So that no two backups of the shop hold the same.
            self.apply(&objects::config_map("shop", "settings", "greeting", &format!("welcome since {name}")))?;
        }
        let wish = json!({"backupName": "shop-1", "namespaceMapping": {"shop": "shop-copy"}});
        restores::create(&self.server, "shop-back", &wish)?;
        let restore = restores::ended(&self.server, "shop-back", PATIENCE)?;
        ensure!(restore["status"]["phase"] == "Completed", "the restore is {}", restore["status"]);
        Ok(())
    }

    /// Whether archives in the location `slow` can be reached.
    pub fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::SeqCst);
    }

    /// The machine of the server.
    pub fn machine(&self) -> &Machine {
        self.server.machine()
    }

    /// Makes an object.
    pub fn apply(&self, object: &Value) -> Result<()> {
        self.machine().apply(&object.to_string())
    }

    /// Waits until an object of Velero is as wanted.
    pub fn until(&self, plural: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        wait_until(name, PATIENCE, || {
            let object = self.server.object(plural, name)?;
            ensure!(is_so(&object), "{name} is {object}");
            Ok(())
        })
    }
}

/// The shop has a claim with a volume; of billing a hook fails, since no pod runs in a box without a node; nobody saves the blog.
fn application(machine: &Machine) -> Result<()> {
    let mut all: Vec<Value> = ["shop", "billing", "blog", "archive"].into_iter().map(objects::namespace).collect();
    all.extend((1..=6).map(|number| objects::config_map("shop", &format!("shelf-{number}"), "goods", "apples")));
    all.push(objects::config_map("shop", "settings", "greeting", "welcome"));
    all.push(objects::config_map("blog", "posts", "first", "hello"));
    all.push(objects::service("shop", "web", 8080));
    all.extend(volume("shop", "orders"));
    let mut pod = objects::pod("billing", "ledger", "sleep 1000");
    pod["metadata"]["annotations"] = json!({
        "pre.hook.backup.velero.io/command": "[\"/bin/freeze\"]", "pre.hook.backup.velero.io/on-error": "Fail",
    });
    all.push(pod);
    for object in all {
        machine.apply(&object.to_string())?;
    }
    let running = json!({"status": {"phase": "Running"}}).to_string();
    machine.kubectl(&[
        "-n",
        "billing",
        "patch",
        "pod",
        "ledger",
        "--subresource=status",
        "--type=merge",
        "-p",
        &running,
    ])?;
    Ok(())
}

/// A claim and the volume it is bound to.
fn volume(namespace: &str, name: &str) -> [Value; 2] {
    let mut claim = objects::claim(namespace, name);
    claim["spec"]["volumeName"] = json!(format!("volume-of-{name}"));
    claim["spec"]["storageClassName"] = json!("");
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("volume-of-{name}")},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "hostPath": {"path": "/nowhere"}, "claimRef": {"namespace": namespace, "name": name},
        },
    });
    [volume, claim]
}

fn schedule(name: &str, cron: &str, namespace: &str, paused: bool) -> Value {
    json!({
        "apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "schedule": cron, "paused": paused, "skipImmediately": true,
            "template": {"includedNamespaces": [namespace], "ttl": "720h0m0s"},
        },
    })
}

fn location(prefix: &str, store: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": {"name": "slow", "namespace": NAMESPACE},
        "spec": {
            "provider": "aws", "objectStorage": {"bucket": BUCKET, "prefix": prefix},
            "config": {"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": store},
        },
    })
}

/// The nights before, of which the bucket tells. They are counted back from one day, also when that ends meanwhile.
#[derive(Clone, Copy)]
struct Nights {
    today: i64,
}

impl Nights {
    fn until_now() -> Self {
        Self { today: Timestamp::now().as_second() / DAY * DAY }
    }

    /// The name of the backup of a night.
    fn name(self, ago: i64) -> String {
        format!("shop-nightly-{}", self.begin(ago).strftime("%Y%m%d030000"))
    }

    fn begin(self, ago: i64) -> Timestamp {
        Timestamp::from_second(self.today - (ago + 1) * DAY + 3 * 3600).unwrap_or_default()
    }

    /// Puts into the bucket what they have left there: that is how a cluster gets to know older backups.
    fn remember(self, machine: &Machine, prefix: &str) -> Result<()> {
        let file = machine.folder("history")?.join("velero-backup.json");
        for ago in 0..NIGHTS {
            fs::write(&file, self.backup(ago).to_string())?;
            let key = format!("{prefix}/backups/{}/velero-backup.json", self.name(ago));
            let url = format!("{}/{BUCKET}/{key}", TestBox::store_url_for_pods());
            let (keys, file) = (format!("{ACCESS_KEY}:{SECRET_KEY}"), file.display().to_string());
            let sign = ["--silent", "--show-error", "--fail", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &keys];
            let unsigned = ["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"];
            machine.run("curl", sign.iter().chain(&unsigned).chain(&["--upload-file", &file, &url]))?;
        }
        Ok(())
    }

    fn backup(self, ago: i64) -> Value {
        let (name, started) = (self.name(ago), self.begin(ago));
        let seconds = 40 + (ago * 37) % 23 + (NIGHTS - ago);
        let is_bad = ago % 11 == 5;
        let at =
            |seconds: i64| (started + SignedDuration::from_secs(seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        json!({
            "apiVersion": "velero.io/v1", "kind": "Backup",
            "metadata": {
                "name": name, "namespace": NAMESPACE,
                "labels": {"velero.io/schedule-name": "shop-nightly", "velero.io/storage-location": "default"},
            },
            "spec": {"storageLocation": "default", "includedNamespaces": ["shop"], "ttl": "2160h0m0s"},
            "status": {
                "phase": if is_bad { "PartiallyFailed" } else { "Completed" }, "version": 1, "formatVersion": "1.1.0",
                "startTimestamp": at(0), "completionTimestamp": at(seconds), "expiration": at(90 * DAY),
                "progress": {"totalItems": 412, "itemsBackedUp": 412}, "errors": i64::from(is_bad),
            },
        })
    }
}

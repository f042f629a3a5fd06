//! A server that knows thousands of backups, all of them in its bucket, and hundreds of schedules.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, block_in_place};
use velero_store::{Credentials, ObjectStoreHandle, StoreConfig};
use velero_testkit::faulty_proxy::{self, Action, Request};
use velero_testkit::parts::BUCKET;
use velero_testkit::progress::say;
use velero_testkit::server::credentials_file;
use velero_testkit::{ServerOptions, TestBox, VeleroServer, harness, load};
use velero_tests::backups;

use super::scale::Options;
use super::{peak_memory, rounded, take};
use crate::output::out;

/// The time between two looks at the bucket.
const PERIOD: Duration = Duration::from_secs(15);
/// How many looks are counted.
const SYNCS: u64 = 3;
/// How long the memory of the idle server is watched: two looks at the bucket are in it.
const WATCHED: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(900);
/// How many files are written to the bucket at once.
const CONNECTIONS: usize = 16;
/// Where our server says whether it is ready.
const HEALTH: &str = "127.0.0.1:8086";

/// Counts requests to the store, by what they are.
#[derive(Clone, Default)]
struct Counter(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Counter {
    fn note(&self, request: &Request) {
        let kind = match request.method.as_str() {
            "GET" if request.path.contains("list-type=2") => "list",
            "GET" => "get",
            "HEAD" => "head",
            "DELETE" => "delete",
            _ => "write",
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }

    /// What was counted since the last time.
    fn take(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) fn run(test_box: &TestBox, options: &Options) -> Result<Value> {
    let server = VeleroServer::up(
        test_box,
        options.profile.edition(),
        ServerOptions {
            prefix: harness::unique_name("known"),
            flags: vec![format!("--backup-sync-period={}s", PERIOD.as_secs())],
            ..ServerOptions::default()
        },
    )?;
    server.stop()?;
    let options = options.clone();
    harness::inside(test_box.clone(), async move |cluster| {
        Known { client: cluster.client, server, counter: Counter::default() }.measure(&options).await
    })
}

struct Known {
    client: Client,
    server: VeleroServer,
    counter: Counter,
}

impl Known {
    async fn measure(&self, options: &Options) -> Result<Value> {
        let counter = self.counter.clone();
        let rule = move |request: &Request| {
            counter.note(request);
            Action::Forward
        };
        let url = faulty_proxy::start(&TestBox::store_url(), rule).await?;
        let patch = Patch::Merge(json!({"spec": {"config": {"s3Url": url}}}));
        self.api("BackupStorageLocation").patch("default", &PatchParams::default(), &patch).await?;
        fill(&self.client, &self.server, options.backups, options.schedules).await?;

        let ready = start(&self.server).await?;
        let peak = peak_memory(self.server.process()?)?;
        self.until_synced(1).await?;
        let first = self.counter.take();
        self.until_synced(SYNCS).await?;
        let later = self.counter.take();
        let idle = self.watch_memory().await?;
        let of_backup = self.back_up().await?;
        let arrival = self.arrive(options.backups).await?;
        Ok(json!({
            "work": "known", "backups": options.backups, "schedules": options.schedules,
            "seconds_to_ready": rounded(ready), "peak_rss_mib_at_start": peak,
            "idle_rss_mib": idle, "requests_of_first_sync": first,
            "syncs": SYNCS, "requests_of_syncs": later,
            "requests_of_backup": of_backup, "arrival": arrival,
        }))
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        api(&self.client, &self.server, kind)
    }

    /// Waits until the bucket has been looked at so many times more.
    async fn until_synced(&self, times: u64) -> Result<()> {
        let locations = self.api("BackupStorageLocation");
        for _ in 0..times {
            let before = synced(&locations).await?;
            until("the bucket to be looked at", async || Ok(synced(&locations).await? != before)).await?;
        }
        Ok(())
    }

    /// The requests of a small backup; it begins right after a look at the bucket.
    async fn back_up(&self) -> Result<BTreeMap<&'static str, u64>> {
        self.until_synced(1).await?;
        self.counter.take();
        let request = backups::request(&self.server, "counted", &json!({"includedNamespaces": ["default"]}));
        let (backup, _) = take(self.client.clone(), request).await?;
        ensure!(backup["status"]["phase"] == "Completed", "the backup is {}", backup["status"]);
        Ok(self.counter.take())
    }

    /// The memory of the server while nothing is asked of it, in MiB: the median and the most, and the median of what is its
    /// own. The rest are pages of files, above all of the binary, which the kernel takes back when it needs them.
    async fn watch_memory(&self) -> Result<Value> {
        let (process, begin) = (self.server.process()?, Instant::now());
        let (mut whole, mut own) = (Vec::new(), Vec::new());
        while begin.elapsed() < WATCHED {
            whole.push(present_memory(process)?);
            own.push(memory(process, "RssAnon:")?);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        whole.sort_unstable();
        own.sort_unstable();
        Ok(json!({"median": whole[whole.len() / 2], "most": whole.last(), "own": own[own.len() / 2]}))
    }

    /// How long it takes until a cluster that knows none of the backups has all of them, and how many requests.
    async fn arrive(&self, backups: usize) -> Result<Value> {
        say(format!("{backups} backups arrive in a cluster that knows none"));
        block_in_place(|| self.server.stop())?;
        let api = self.api("Backup");
        api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        until("the backups to be gone", async || Ok(count(&api).await? == 0)).await?;
        self.counter.take();
        let begin = Instant::now();
        start(&self.server).await?;
        until("the backups to be there", async || Ok(count(&api).await? >= backups)).await?;
        let seconds = begin.elapsed().as_secs_f64();
        let peak = peak_memory(self.server.process()?)?;
        block_in_place(|| self.server.stop())?;
        Ok(json!({"seconds": rounded(seconds), "requests": self.counter.take(), "peak_rss_mib": peak}))
    }
}

/// Objects of a kind of Velero, in the namespace of a server.
pub(super) fn api(client: &Client, server: &VeleroServer, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", "v1", kind));
    Api::namespaced_with(client.clone(), server.namespace(), &resource)
}

/// Makes backups and schedules, and in the bucket what makes a backup one.
pub(super) async fn fill(client: &Client, server: &VeleroServer, backups: usize, schedules: usize) -> Result<()> {
    say(format!("making {backups} backups and {schedules} schedules"));
    let namespace = server.namespace();
    let made = (0..backups).map(|number| backup(namespace, number, schedules));
    load::create_all(client, (0..schedules).map(|number| schedule(namespace, number)).chain(made)).await?;
    let mut config = StoreConfig::new("aws", BUCKET)
        .with("region", "us-east-1")
        .with("s3ForcePathStyle", "true")
        .with("s3Url", TestBox::store_url());
    config.credentials = Some(Credentials::Content(credentials_file()));
    let store = config.open().await?;
    let mut running: JoinSet<Result<()>> = JoinSet::new();
    for number in 0..backups {
        if running.len() >= CONNECTIONS {
            running.join_next().await.context("no write under way")???;
        }
        running.spawn(put(store.clone(), server.options().prefix.clone(), backup(namespace, number, schedules)));
    }
    while let Some(written) = running.join_next().await {
        written??;
    }
    Ok(())
}

/// Starts a server; the seconds until it leads and is ready.
pub(super) async fn start(server: &VeleroServer) -> Result<f64> {
    let begin = Instant::now();
    block_in_place(|| server.start())?;
    until("the server to be ready", async || Ok(readiness().await.is_some_and(|said| said == "ok"))).await?;
    Ok(begin.elapsed().as_secs_f64())
}

/// When the bucket of the default location was last looked at.
async fn synced(locations: &Api<DynamicObject>) -> Result<Value> {
    Ok(locations.get("default").await?.data["status"]["lastSyncedTime"].clone())
}

async fn put(store: ObjectStoreHandle, prefix: String, backup: Value) -> Result<()> {
    let name = backup["metadata"]["name"].as_str().context("a backup without a name")?;
    let key = format!("{prefix}/backups/{name}/velero-backup.json");
    Ok(store.put(&key, backup.to_string().into()).await?)
}

async fn count(api: &Api<DynamicObject>) -> Result<usize> {
    let page = api.list_metadata(&ListParams::default().limit(1)).await?;
    let remaining = page.metadata.remaining_item_count.unwrap_or_default();
    Ok(page.items.len() + usize::try_from(remaining)?)
}

async fn until<F: Future<Output = Result<bool>>>(what: &str, mut is_so: impl FnMut() -> F) -> Result<()> {
    let begin = Instant::now();
    while !is_so().await? {
        ensure!(begin.elapsed() < DEADLINE, "waited {} s for {what}", DEADLINE.as_secs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// What the server says of its readiness; `None` while it says nothing.
async fn readiness() -> Option<String> {
    let mut stream = TcpStream::connect(HEALTH).await.ok()?;
    stream.write_all(b"GET /readyz HTTP/1.0\r\nHost: velero\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// The memory a process holds now, in MiB, pages of its binary among it.
pub(super) fn present_memory(process: u32) -> Result<u64> {
    memory(process, "VmRSS:")
}

/// What the kernel says under a name of the memory of a process, in MiB.
fn memory(process: u32, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| format!("no {name} in the process status"))?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()?.div_ceil(1024))
}

fn backup(namespace: &str, number: usize, schedules: usize) -> Value {
    let schedule = format!("schedule-{:04}", number % schedules.max(1));
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {
            "name": format!("{schedule}-{number:06}"),
            "namespace": namespace,
            "labels": {"velero.io/schedule-name": schedule, "velero.io/storage-location": "default"},
            "annotations": {
                "velero.io/resource-timeout": "10m0s",
                "velero.io/source-cluster-k8s-gitversion": "v1.33.0",
            },
        },
        "spec": {
            "storageLocation": "default", "ttl": "720h0m0s", "includedNamespaces": [format!("team-{number}")],
            "csiSnapshotTimeout": "10m0s", "itemOperationTimeout": "4h0m0s", "snapshotMoveData": false,
            "defaultVolumesToFsBackup": false, "hooks": {}, "metadata": {},
        },
        "status": {
            "phase": "Completed", "version": 1, "formatVersion": "1.1.0",
            "startTimestamp": "2026-11-01T03:00:00Z", "completionTimestamp": "2026-11-01T03:00:05Z",
            "expiration": "2099-01-01T00:00:00Z", "progress": {"totalItems": 412, "itemsBackedUp": 412},
            "hookStatus": {},
        },
    })
}

fn schedule(namespace: &str, number: usize) -> Value {
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "Schedule",
        "metadata": {"name": format!("schedule-{number:04}"), "namespace": namespace},
        // On New Year's Day, so that none comes due while it is measured.
        "spec": {
            "schedule": "0 0 1 1 *",
            "skipImmediately": true,
            "template": {"includedNamespaces": [format!("team-{number}")], "ttl": "720h0m0s", "storageLocation": "default"},
        },
    })
}

pub(super) fn print(figures: &Value, as_json: bool) {
    if as_json {
        out!("{figures}");
        return;
    }
    out!("{} backups and {} schedules are known", figures["backups"], figures["schedules"]);
    out!("ready after {} s, peak {} MiB", figures["seconds_to_ready"], figures["peak_rss_mib_at_start"]);
    let idle = &figures["idle_rss_mib"];
    out!("idle: {} MiB, at most {} MiB; {} MiB without pages of files", idle["median"], idle["most"], idle["own"]);
    out!("requests to the store until the first sync: {}", figures["requests_of_first_sync"]);
    out!("requests of {} further syncs and checks: {}", figures["syncs"], figures["requests_of_syncs"]);
    out!("requests of a small backup: {}", figures["requests_of_backup"]);
    let arrival = &figures["arrival"];
    out!(
        "all of them new to a cluster: {} s, peak {} MiB, requests {}",
        arrival["seconds"],
        arrival["peak_rss_mib"],
        arrival["requests"]
    );
}

//! The page of a server that knows thousands of backups: how large and how quick its pages are, how soon changes are seen, and
//! what open pages cost in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};
use velero_testkit::progress::say;
use velero_testkit::{ServerOptions, TestBox, VeleroServer, harness, load, objects};

use super::profile::Profile;
use super::web_client::{Changes, Visitor};
use super::{Output, rounded, scale, scale_known};
use crate::output::out;

const ADDRESS: &str = "127.0.0.1:8090";
/// What is asked for; the first page comes first.
const PAGES: [&str; 9] = [
    "/",
    "/backups",
    "/backups?page=150",
    "/backups?search=schedule-0123",
    "/backups/schedule-0000-000000",
    "/restores",
    "/schedules",
    "/locations",
    "/coverage",
];
/// What the first page may be and take, what open pages may add, and how soon changes must be seen.
const LARGEST_KIB: u64 = 100;
const LONGEST_MILLISECONDS: f64 = 100.0;
const MOST_GROWTH_MIB: u64 = 16;
const LATEST_MILLISECONDS: f64 = 1000.0;
/// How many changes open pages see, and the time between two: servers write progress about as often.
const CHANGES: usize = 10;
const PERIOD: Duration = Duration::from_secs(2);
const SAMPLE: Duration = Duration::from_millis(100);
/// How long a server that has started may take to come to rest.
const SETTLING: Duration = Duration::from_secs(20);
/// How long the memory is watched before anybody looks: longer than the minute after which the server counts all backups again.
const WATCHED: Duration = Duration::from_secs(75);
/// The backup that changes.
const CHANGING: &str = "changing";

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many backups the server knows
    #[arg(long, default_value_t = 10_000)]
    backups: usize,
    /// How many schedules it knows
    #[arg(long, default_value_t = 500)]
    schedules: usize,
    /// How many namespaces the cluster has beside its own
    #[arg(long, default_value_t = 500)]
    namespaces: usize,
    /// How often each page is asked for
    #[arg(long, default_value_t = 30)]
    rounds: usize,
    /// How many pages are open at once
    #[arg(long, default_value_t = 50)]
    open: usize,
    /// How our programs are built
    #[arg(long, value_enum, default_value = "release")]
    profile: Profile,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
    /// Leave the box up afterwards
    #[arg(long)]
    keep: bool,
}

pub(super) fn run(options: &Options) -> Result<()> {
    options.profile.edition().install()?;
    let figures = scale::in_box(options.keep, |test_box| measure(test_box, options))?;
    match options.output {
        Output::Json => out!("{figures}"),
        Output::Table => print(&figures),
    }
    Ok(())
}

fn measure(test_box: &TestBox, options: &Options) -> Result<Value> {
    let flags = vec!["--backup-sync-period=1h".to_owned(), format!("--web-address={ADDRESS}")];
    let prefix = harness::unique_name("web");
    let server_options = ServerOptions { prefix, flags, ..ServerOptions::default() };
    let server = VeleroServer::up(test_box, options.profile.edition(), server_options)?;
    server.stop()?;
    let options = options.clone();
    harness::inside(test_box.clone(), async move |cluster| {
        let client = cluster.client;
        load::create_all(&client, (0..options.namespaces).map(|number| objects::namespace(&format!("team-{number}"))))
            .await?;
        scale_known::fill(&client, &server, options.backups, options.schedules).await?;
        scale_known::start(&server).await?;
        tokio::time::sleep(SETTLING).await;
        Page { client, server, options }.measure().await
    })
}

struct Page {
    client: Client,
    server: VeleroServer,
    options: Options,
}

impl Page {
    async fn measure(&self) -> Result<Value> {
        let before = self.memory_for(WATCHED).await?;
        let visitor = Visitor::sign_in(ADDRESS, &self.administrator()?).await?;
        let mut pages = Vec::new();
        for path in PAGES {
            pages.push(self.page(&visitor, path).await?);
        }
        let looked_at = self.memory()?;
        let open = self.open(&visitor).await?;
        let growth = open["most_rss_mib"].as_u64().unwrap_or_default().saturating_sub(before);
        Ok(json!({
            "work": "web", "backups": self.options.backups, "schedules": self.options.schedules,
            "namespaces": self.options.namespaces, "rounds": self.options.rounds, "pages": pages,
            "rss_mib_before": before, "rss_mib_after_rounds": looked_at, "open": open, "growth_mib": growth,
        }))
    }

    /// The token of somebody who may see everything.
    fn administrator(&self) -> Result<String> {
        let (machine, namespace) = (self.server.machine(), self.server.namespace());
        let account = format!("--serviceaccount={namespace}:looker");
        machine.kubectl(&["-n", namespace, "create", "serviceaccount", "looker"])?;
        machine.kubectl(&["create", "clusterrolebinding", "looker", "--clusterrole=cluster-admin", &account])?;
        Ok(machine.kubectl(&["-n", namespace, "create", "token", "looker"])?.trim().to_owned())
    }

    async fn page(&self, visitor: &Visitor, path: &str) -> Result<Value> {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..self.options.rounds.max(1) {
            let answer = visitor.get(path).await?;
            times.push(milliseconds(answer.took));
            bytes = bytes.max(answer.body.len());
        }
        let memory = self.memory()?;
        Ok(json!({"path": path, "bytes": bytes, "milliseconds": spread(times), "rss_mib": memory}))
    }

    /// Has pages open while backups change, as the script of the page does: each asks for itself again when it is told so.
    async fn open(&self, visitor: &Visitor) -> Result<Value> {
        say(format!("{} pages are open", self.options.open));
        let (told, current) = watch::channel((0, Instant::now()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut pages = JoinSet::new();
        for _ in 0..self.options.open {
            let changes = visitor.follow("backups").await?;
            pages.spawn(look(visitor.clone(), changes, current.clone(), Arc::clone(&seen)));
        }
        let (most, sampling) = self.sample()?;
        tokio::time::sleep(PERIOD).await;
        let idle = most.swap(0, Ordering::SeqCst);
        for number in 1..=CHANGES {
            told.send_replace((number, Instant::now()));
            self.change(number).await?;
            tokio::time::sleep(PERIOD).await;
        }
        tokio::time::sleep(PERIOD).await;
        sampling.abort();
        pages.abort_all();
        while let Some(ended) = pages.join_next().await {
            if let Ok(outcome) = ended {
                outcome.context("an open page gave up")?;
            }
        }
        let seen = std::mem::take(&mut *seen.lock().await);
        Ok(json!({
            "pages": self.options.open, "changes": CHANGES, "seen": seen.len(), "milliseconds_to_be_seen": spread(seen),
            "rss_mib_at_rest": idle, "most_rss_mib": most.load(Ordering::SeqCst).max(idle),
        }))
    }

    /// Changes what the first page shows of a backup.
    async fn change(&self, number: usize) -> Result<()> {
        let backup = json!({
            "apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": CHANGING},
            "status": {"phase": "Failed", "errors": number},
        });
        let parameters = PatchParams::apply("bench").force();
        scale_known::api(&self.client, &self.server, "Backup")
            .patch(CHANGING, &parameters, &Patch::Apply(backup))
            .await?;
        Ok(())
    }

    fn memory(&self) -> Result<u64> {
        scale_known::present_memory(self.server.process()?)
    }

    /// The most memory the server held for so long.
    async fn memory_for(&self, long: Duration) -> Result<u64> {
        let (most, sampling) = self.sample()?;
        tokio::time::sleep(long).await;
        sampling.abort();
        Ok(most.load(Ordering::SeqCst))
    }

    /// Watches the memory of the server.
    fn sample(&self) -> Result<(Arc<AtomicU64>, JoinHandle<()>)> {
        let (most, process) = (Arc::new(AtomicU64::new(0)), self.server.process()?);
        let noted = Arc::clone(&most);
        let sampling = tokio::spawn(async move {
            while let Ok(memory) = scale_known::present_memory(process) {
                noted.fetch_max(memory, Ordering::SeqCst);
                tokio::time::sleep(SAMPLE).await;
            }
        });
        Ok((most, sampling))
    }
}

/// An open page: notes how long each change took until it was there.
async fn look(
    visitor: Visitor,
    mut changes: Changes,
    current: watch::Receiver<(usize, Instant)>,
    seen: Arc<Mutex<Vec<f64>>>,
) -> Result<()> {
    let mut known = 0;
    loop {
        changes.next().await?;
        let page = visitor.get("/").await?;
        let (number, since) = *current.borrow();
        let is_shown = page.body.contains(&format!("{number} error"));
        if is_shown && number > known {
            known = number;
            seen.lock().await.push(milliseconds(since.elapsed()));
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The median and the worst.
fn spread(mut figures: Vec<f64>) -> Value {
    figures.sort_by(f64::total_cmp);
    let median = figures.get(figures.len() / 2).copied();
    json!({"median": median.map(rounded), "worst": figures.last().copied().map(rounded)})
}

fn print(figures: &Value) {
    out!(
        "{} backups, {} schedules, {} namespaces; each page {} times",
        figures["backups"],
        figures["schedules"],
        figures["namespaces"],
        figures["rounds"]
    );
    out!("{:<36}{:>10}{:>14}{:>14}{:>12}", "page", "bytes", "median ms", "worst ms", "MiB then");
    for page in figures["pages"].as_array().into_iter().flatten() {
        let path = page["path"].as_str().unwrap_or_default();
        let [bytes, median, worst, memory] = ["/bytes", "/milliseconds/median", "/milliseconds/worst", "/rss_mib"]
            .map(|figure| page.pointer(figure).map(Value::to_string).unwrap_or_default());
        out!("{path:<36}{bytes:>10}{median:>14}{worst:>14}{memory:>12}");
    }
    let (open, first) = (&figures["open"], &figures["pages"][0]);
    let time = &open["milliseconds_to_be_seen"];
    out!(
        "memory: {} MiB before anybody looked, {} MiB after, {} MiB with {} pages open, at most {} MiB while they follow changes",
        figures["rss_mib_before"],
        figures["rss_mib_after_rounds"],
        open["rss_mib_at_rest"],
        open["pages"],
        open["most_rss_mib"]
    );
    out!(
        "{} changes were seen {} times, after {} ms in the median and {} ms at the worst",
        open["changes"],
        open["seen"],
        time["median"],
        time["worst"]
    );
    let below = |figure: &Value, most: f64| figure.as_f64().is_some_and(|figure| figure <= most);
    out!(
        "allowed: first page {LARGEST_KIB} KiB, kept: {}; {LONGEST_MILLISECONDS} ms, kept: {}; growth {MOST_GROWTH_MIB} MiB, kept: {}; \
         changes in {LATEST_MILLISECONDS} ms, kept: {}",
        first["bytes"].as_u64().is_some_and(|bytes| bytes <= LARGEST_KIB << 10),
        below(&first["milliseconds"]["median"], LONGEST_MILLISECONDS),
        figures["growth_mib"].as_u64().is_some_and(|growth| growth <= MOST_GROWTH_MIB),
        below(&time["worst"], LATEST_MILLISECONDS)
    );
}

//! `cargo xtask bench`: the same work by us and by the original Velero, in one run, on one box, with one bucket.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use velero_testkit::progress::say;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, load};
use velero_tests::backups;

const BOX: &str = "bench";
const DEADLINE: Duration = Duration::from_secs(1200);

#[derive(Subcommand)]
pub(crate) enum Work {
    /// Backs objects up
    Backup(Options),
}

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many objects to load
    #[arg(long, default_value_t = 12_000)]
    items: usize,
    /// What to load
    #[arg(long, value_enum, default_value = "mixed")]
    shape: Shape,
    /// Name the namespaces in the backup instead of taking all
    #[arg(long)]
    by_namespace: bool,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
    /// Leave the box up afterwards
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shape {
    /// ConfigMaps, Secrets, Services and Deployments of 0.3 to 3 KB
    Mixed,
    /// Pods that each mount a claim of their own
    Pods,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(crate) fn run(work: &Work) -> Result<()> {
    let Work::Backup(options) = work;
    for edition in [Edition::OursReleased, Edition::Peer] {
        edition.install()?;
    }
    let test_box = TestBox::up(BOX, BoxKind::ControlPlane)?;
    let outcome = backup(&test_box, options);
    if !options.keep {
        TestBox::down(BOX)?;
    }
    print(&outcome?, options.output);
    Ok(())
}

fn backup(test_box: &TestBox, options: &Options) -> Result<Value> {
    say(format!("loading {} objects", options.items));
    let prefix = format!("load{}", options.items);
    let namespaces = load_objects(test_box, options, &prefix)?;
    let spec = if options.by_namespace { json!({"includedNamespaces": namespaces}) } else { json!({}) };
    let ours = measure(test_box, Edition::OursReleased, &spec)?;
    let peer = measure(test_box, Edition::Peer, &spec)?;
    let seconds = |figures: &Value| figures["seconds"].as_f64().context("no seconds measured");
    let ratio = rounded(seconds(&peer)? / seconds(&ours)?);
    Ok(json!({"work": "backup", "items": options.items, "ours": ours, "peer": peer, "ratio": ratio}))
}

fn load_objects(test_box: &TestBox, options: &Options, prefix: &str) -> Result<Vec<String>> {
    let (options, prefix) = (options.clone(), prefix.to_owned());
    harness::inside(test_box.clone(), async move |cluster| match options.shape {
        Shape::Mixed => {
            load::objects(&cluster.client, &prefix, options.items, (options.items / 600).clamp(1, 50)).await
        }
        Shape::Pods => load::pods_with_claims(&cluster.client, &prefix, options.items).await.map(|()| vec![prefix]),
    })
}

/// Starts the server afresh, takes one backup and stops the server.
fn measure(test_box: &TestBox, edition: Edition, spec: &Value) -> Result<Value> {
    say(format!("backing up with {edition:?}"));
    let namespace = format!("velero-{}", format!("{edition:?}").to_lowercase());
    let options = ServerOptions { prefix: harness::unique_name("bench"), namespace, ..ServerOptions::default() };
    let server = VeleroServer::up(test_box, edition, options)?;
    let name = harness::unique_name("bench");
    let request = backups::request(&server, &name, spec);
    let (backup, seconds) =
        harness::inside(test_box.clone(), async move |cluster| take(cluster.client, request).await)?;
    let peak = peak_memory(server.process()?)?;
    server.stop()?;
    let phase = &backup["status"]["phase"];
    ensure!(phase == "Completed", "the backup of {edition:?} is {phase}, log: {}", server.log().display());
    let items = &backup["status"]["progress"]["itemsBackedUp"];
    Ok(json!({"seconds": rounded(seconds), "peak_rss_mib": peak, "items": items}))
}

/// Creates a backup and watches it to its end, with a client that costs the machine next to nothing.
async fn take(client: Client, request: Value) -> Result<(Value, f64)> {
    let request: DynamicObject = serde_json::from_value(request)?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", "v1", "Backup"));
    let namespace = request.metadata.namespace.clone().unwrap_or_default();
    let name = request.metadata.name.clone().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource);
    let start = Instant::now();
    api.create(&PostParams::default(), &request).await?;
    while start.elapsed() < DEADLINE {
        let backup = api.get(&name).await?;
        if backup.data["status"]["phase"].as_str().is_some_and(|phase| backups::ENDED.contains(&phase)) {
            return Ok((backup.data, start.elapsed().as_secs_f64()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the backup {name} did not end in {} s", DEADLINE.as_secs())
}

/// The most memory a process held at any time, in MiB.
fn peak_memory(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in the process status")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib.div_ceil(1024))
}

fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

fn print(figures: &Value, output: Output) {
    if output == Output::Json {
        println!("{figures}");
        return;
    }
    println!("{:<10}{:>10}{:>12}{:>12}{:>12}", "", "items", "seconds", "items/s", "peak MiB");
    for side in ["ours", "peer"] {
        let (seconds, items) =
            (figures[side]["seconds"].as_f64().unwrap_or(0.0), figures[side]["items"].as_f64().unwrap_or(0.0));
        println!("{side:<10}{items:>10}{seconds:>12.2}{:>12.0}{:>12}", items / seconds, figures[side]["peak_rss_mib"]);
    }
    println!("ours is {} times as fast", figures["ratio"]);
}

//! `cargo xtask bench`: the same work by us and by the original Velero, in one run, on one box, with one bucket.

mod backup;
mod csi;
mod image;
mod openshift;
mod plugin;
mod profile;
mod repo;
mod repo_data;
mod repo_place;
mod restore;
mod scale;
mod scale_known;
mod volumes;
mod watch;
mod web;
mod web_client;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Subcommand, ValueEnum};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use velero_testkit::{BoxKind, Edition, TestBox};
use velero_tests::backups;

use profile::Profile;

use crate::output::out;

const BOX: &str = "bench";
const DEADLINE: Duration = Duration::from_secs(1200);

#[derive(Subcommand)]
pub(crate) enum Work {
    /// Backs objects up
    Backup(backup::Options),
    /// Copies a large image from one registry to another, beside skopeo
    Image(image::Options),
    /// Backs up few and many volumes of a CSI driver
    Csi(csi::Options),
    /// Backs objects up with and without the actions for OpenShift
    Openshift(openshift::Options),
    /// Backs objects up with and without the action of a plugin binary
    Plugin(plugin::Options),
    /// Saves volumes in repositories and restores them, beside Velero's own packages
    Repo(repo::Options),
    /// Restores objects into new namespaces
    Restore(restore::Options),
    /// Backs up and restores hundreds of thousands of objects, or has a server know thousands of backups
    Scale(scale::Options),
    /// Backs up and restores the data of volumes
    Volumes(volumes::Options),
    /// Looks at the page of a server that knows thousands of backups
    Web(web::Options),
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Output {
    Table,
    Json,
}

type Measure<'w> = Box<dyn Fn(&TestBox) -> Result<Value> + 'w>;

/// What a kind of work needs, and how it is measured in a box.
struct Bench<'w> {
    output: Output,
    keep: bool,
    editions: Vec<Edition>,
    kind: BoxKind,
    measure: Measure<'w>,
}

macro_rules! bench {
    ($work:ident, $options:expr, $editions:expr, $kind:ident) => {
        Bench {
            output: $options.output,
            keep: $options.keep,
            editions: $editions,
            kind: BoxKind::$kind,
            measure: Box::new(|test_box| $work::run(test_box, $options)),
        }
    };
}

pub(crate) fn run(work: &Work) -> Result<()> {
    let both = |profile: Profile| vec![profile.edition(), Edition::Peer];
    let bench = match work {
        Work::Image(options) => return image::run(options),
        Work::Repo(options) => return repo::run(options),
        Work::Scale(options) => return scale::run(options),
        Work::Web(options) => return web::run(options),
        Work::Backup(options) => bench!(backup, options, both(options.profile), ControlPlane),
        Work::Csi(options) => bench!(csi, options, vec![options.profile.edition()], Storage),
        Work::Openshift(options) => bench!(openshift, options, vec![options.profile.edition()], ControlPlane),
        Work::Plugin(options) => bench!(plugin, options, both(options.profile), ControlPlane),
        Work::Restore(options) => bench!(restore, options, both(options.profile), ControlPlane),
        Work::Volumes(options) => bench!(volumes, options, options.editions(), Storage),
    };
    let Bench { output, keep, editions, kind, measure } = bench;
    editions.into_iter().try_for_each(Edition::install)?;
    let outcome = measure(&TestBox::up(BOX, kind)?);
    if !keep {
        TestBox::down(BOX)?;
    }
    print(&outcome?, output);
    Ok(())
}

/// Creates a Backup or a Restore and watches it to its end, with a client that costs the machine next to nothing. Gives
/// the object and the seconds from the moment it was there.
async fn take(client: Client, request: Value) -> Result<(Value, f64)> {
    take_within(client, request, DEADLINE).await
}

/// Like [`take`], for as long as it may take.
async fn take_within(client: Client, request: Value, longest: Duration) -> Result<(Value, f64)> {
    let request: DynamicObject = serde_json::from_value(request)?;
    let types = request.types.clone().context("a request without a type")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let namespace = request.metadata.namespace.clone().unwrap_or_default();
    let name = request.metadata.name.clone().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource);
    api.create(&PostParams::default(), &request).await?;
    // An API server holds the first object of a definition that is younger than two seconds for two more.
    let start = Instant::now();
    while start.elapsed() < longest {
        let object = api.get(&name).await?;
        if object.data["status"]["phase"].as_str().is_some_and(|phase| backups::ENDED.contains(&phase)) {
            return Ok((object.data, start.elapsed().as_secs_f64()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the {} {name} did not end in {} s", types.kind, longest.as_secs())
}

/// The most memory a process held at any time, in MiB.
fn peak_memory(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in the process status")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib.div_ceil(1024))
}

/// How many times as long the other side took.
fn ratio(ours: &Value, other: &Value) -> Result<f64> {
    let seconds = |figures: &Value| figures["seconds"].as_f64().context("no seconds measured");
    Ok(rounded(seconds(other)? / seconds(ours)?))
}

fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

fn print(figures: &Value, output: Output) {
    if figures["work"] == "volumes" {
        return volumes::print(figures, output);
    }
    if output == Output::Json {
        out!("{figures}");
        return;
    }
    if figures["work"] == "openshift" {
        let (with, without) = (&figures["seconds"], &figures["without"]);
        out!("{with} s with the actions, {without} s without: {} times as long", figures["ratio"]);
        return;
    }
    if figures["work"] == "plugin" {
        for side in ["ours", "peer"] {
            let figures = &figures[side];
            out!(
                "{side}: {} s, {} s without the plugin: it adds {} s",
                figures["seconds"],
                figures["without"],
                figures["adds"]
            );
        }
        out!("it adds {} times as much to the peer", figures["ratio"]);
        return;
    }
    if figures["work"] == "csi" {
        for side in ["few", "many"] {
            let figures = &figures[side];
            out!(
                "{} volumes: {} s; the driver and its sidecars alone {} s",
                figures["volumes"],
                figures["seconds"],
                figures["driver"]
            );
        }
        out!("allowed for many: {} s, within: {}", figures["allowed"], figures["within"]);
        return;
    }
    out!("{:<16}{:>10}{:>12}{:>12}{:>12}", "", "items", "seconds", "items/s", "peak MiB");
    for side in ["ours", "peer", "peer_unlimited"].into_iter().filter(|side| figures[side].is_object()) {
        let (seconds, items) =
            (figures[side]["seconds"].as_f64().unwrap_or(0.0), figures[side]["items"].as_f64().unwrap_or(0.0));
        out!(
            "{side:<16}{items:>10}{seconds:>12.2}{:>12.0}{:>12}",
            items / seconds,
            figures[side]["peak_rss_mib"].to_string()
        );
    }
    if let Some(ratio) = figures["ratio"].as_f64() {
        out!("ours is {ratio} times as fast");
    }
    if let Some(ratio) = figures["ratio_unlimited"].as_f64() {
        out!("and {ratio} times as fast as the peer without its rate limit");
    }
    if let Some(rate) = figures["ours"]["most_writes_a_second"].as_u64() {
        out!("ours sent {rate} writes in its busiest second");
    }
}

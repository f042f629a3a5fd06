//! Hundreds of thousands of objects: backup, then restore into new namespaces, a box for each number of them. The smallest
//! number comes once more at the end, to tell whether the machine is as fast as it was.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Map, Value, json};
use velero_testkit::progress::say;
use velero_testkit::{Edition, ServerOptions, TestBox, VeleroServer, bulk_load, harness, load, objects};
use velero_tests::{backups, restores};

use super::profile::Profile;
use super::{Output, peak_memory, rounded, scale_known, take_within};
use crate::output::out;

const BOX: &str = "scale";
/// How long a backup or restore may take for each object, beside a minute: a restore of the original is the slowest.
const LONGEST_FOR_ITEM: Duration = Duration::from_millis(25);
/// How many objects are created without any server of ours, to see how the cluster itself takes them.
const ALONE: usize = 20_000;
/// How much longer than in proportion a larger number may take, in percent.
const MOST_DEVIATION: f64 = 20.0;

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many objects to back up and restore, one number after the other
    #[arg(long, value_delimiter = ',', default_value = "100000,300000,1000000")]
    items: Vec<usize>,
    /// The number of objects at which the original Velero does the same; 0 leaves it out
    #[arg(long, default_value_t = 100_000)]
    peer_items: usize,
    /// Let the original only back up: its restore takes many times as long as all else
    #[arg(long)]
    without_peer_restore: bool,
    /// Measure a server that knows many backups and schedules instead: its memory, its start, its requests to the store
    #[arg(long)]
    pub(super) known: bool,
    /// How many backups it knows
    #[arg(long, default_value_t = 10_000)]
    pub(super) backups: usize,
    /// How many schedules it knows
    #[arg(long, default_value_t = 500)]
    pub(super) schedules: usize,
    /// How our programs are built
    #[arg(long, value_enum, default_value = "release")]
    pub(super) profile: Profile,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
    /// Leave the last box up afterwards
    #[arg(long)]
    keep: bool,
}

/// The most memory that a server may hold for so many objects, in MiB.
fn most_memory(items: usize) -> u64 {
    if items <= 300_000 { 128 } else { 256 }
}

pub(super) fn run(options: &Options) -> Result<()> {
    let ours = options.profile.edition();
    ours.install()?;
    if options.known {
        let figures = in_box(options.keep, |test_box| scale_known::run(test_box, options))?;
        scale_known::print(&figures, options.output == Output::Json);
        return Ok(());
    }
    let mut sizes = options.items.clone();
    sizes.sort_unstable();
    ensure!(sizes.first().is_some_and(|items| *items > 0), "--items wants numbers of objects");
    if sizes.contains(&options.peer_items) {
        Edition::Peer.install()?;
    }
    let mut measured: Vec<Value> = Vec::new();
    for items in &sizes {
        let mut figures = in_box(options.keep, |test_box| measure(test_box, options, *items))?;
        let first = measured.first().unwrap_or(&figures).clone();
        compare(&mut figures, &first)?;
        print(&figures, options.output);
        measured.push(figures);
    }
    let [first, others @ ..] = &measured[..] else { return Ok(()) };
    if !others.is_empty() {
        // A machine whose speed changes in the meantime would pass for a server that does not grow in proportion.
        let without_peer = Options { peer_items: 0, ..options.clone() };
        let mut again = in_box(options.keep, |test_box| measure(test_box, &without_peer, sizes[0]))?;
        compare(&mut again, first)?;
        again["again"] = json!(true);
        print(&again, options.output);
    }
    Ok(())
}

/// Notes how much longer an item took than in the first measurement.
fn compare(figures: &mut Value, first: &Value) -> Result<()> {
    for work in ["backup", "restore"] {
        figures["ours"][work]["deviation_percent"] = json!(deviation(&first["ours"][work], &figures["ours"][work])?);
    }
    Ok(())
}

/// Measures in a box of its own.
pub(super) fn in_box(keep: bool, measure: impl FnOnce(&TestBox) -> Result<Value>) -> Result<Value> {
    TestBox::down(BOX)?;
    let figures = TestBox::up_roomy(BOX).and_then(|test_box| measure(&test_box));
    if !keep {
        TestBox::down(BOX)?;
    }
    figures
}

/// How much longer an item took than in the first measurement, in percent.
fn deviation(first: &Value, figures: &Value) -> Result<f64> {
    let of_item = |figures: &Value| figures["microseconds_an_item"].as_f64().context("no items measured");
    Ok(rounded((of_item(figures)? / of_item(first)? - 1.0) * 100.0))
}

fn measure(test_box: &TestBox, options: &Options, items: usize) -> Result<Value> {
    say(format!("loading {items} objects"));
    let begin = Instant::now();
    let namespaces = harness::inside(test_box.clone(), async move |cluster| {
        let namespaces = bulk_load::objects(&cluster.client, "scale", items).await?;
        let found = bulk_load::count(&cluster.client).await?;
        ensure!(found >= items as u64, "the cluster holds {found} of {items} objects");
        Ok(namespaces)
    })?;
    let loaded = begin.elapsed().as_secs_f64();
    let work = Work { test_box, items, namespaces: &namespaces };
    let mut figures =
        json!({"work": "scale", "items": items, "seconds_to_load": rounded(loaded), "most_mib": most_memory(items)});
    let mut sides = vec![("ours", work.start(options.profile.edition())?)];
    figures["alone"]["before"] = work.create_alone("before")?;
    figures["ours"]["backup"] = work.back_up(&sides[0].1)?;
    if items == options.peer_items {
        sides.push(("peer", work.start(Edition::Peer)?));
        figures["peer"]["backup"] = work.back_up(&sides[1].1)?;
    }
    for (name, side) in sides.iter().filter(|(name, _)| *name == "ours" || !options.without_peer_restore) {
        figures[name]["restore"] = work.restore(side)?;
        if *name == "ours" {
            figures["alone"]["after"] = work.create_alone("after")?;
        }
    }
    Ok(figures)
}

/// The same work for both servers.
struct Work<'a> {
    test_box: &'a TestBox,
    items: usize,
    namespaces: &'a [String],
}

/// One of the servers, and the backup it makes.
struct Side {
    server: VeleroServer,
    backup: String,
}

impl Work<'_> {
    fn start(&self, edition: Edition) -> Result<Side> {
        // The rate limit of the original is lifted: what is asked is how it grows.
        let flags = match edition {
            Edition::Peer => vec!["--client-qps=5000".to_owned(), "--client-burst=5000".to_owned()],
            _ => Vec::new(),
        };
        let namespace = format!("velero-{}", format!("{edition:?}").to_lowercase());
        let options =
            ServerOptions { namespace, prefix: harness::unique_name("scale"), flags, ..ServerOptions::default() };
        let server = VeleroServer::up(self.test_box, edition, options)?;
        Ok(Side { server, backup: harness::unique_name("scale") })
    }

    fn back_up(&self, side: &Side) -> Result<Value> {
        let spec = json!({"includedNamespaces": ["scale-*"]});
        self.finish(&side.server, backups::request(&side.server, &side.backup, &spec), "itemsBackedUp")
    }

    fn restore(&self, side: &Side) -> Result<Value> {
        let Side { server, backup } = side;
        // The memory of the restore is that of a server which does nothing else.
        server.start()?;
        server.wait_for_location("default")?;
        let mapping: Map<String, Value> = self
            .namespaces
            .iter()
            .map(|name| (name.clone(), json!(format!("{}-{name}", server.namespace()))))
            .collect();
        let spec = json!({"backupName": backup, "namespaceMapping": mapping});
        let restore = restores::request(server, &harness::unique_name("scale"), &spec);
        let before = self.count()?;
        let restored = self.finish(server, restore, "itemsRestored")?;
        let made = self.count()? - before;
        ensure!(made >= self.items as u64, "{:?} made {made} of {} objects", server.edition(), self.items);
        Ok(restored)
    }

    /// The microseconds that the cluster needs for an object which nobody restores: it holds more after a restore than before.
    fn create_alone(&self, when: &str) -> Result<Value> {
        say(format!("{ALONE} objects without us"));
        let namespace = format!("alone-{when}");
        let seconds = harness::inside(self.test_box.clone(), async move |cluster| {
            load::create_all(&cluster.client, [objects::namespace(&namespace)].into_iter()).await?;
            let text = "0123456789abcdef ".repeat(6);
            let maps = (0..ALONE).map(|index| objects::config_map(&namespace, &format!("item-{index}"), "text", &text));
            let begin = Instant::now();
            load::create_all(&cluster.client, maps).await?;
            Ok(begin.elapsed().as_secs_f64())
        })?;
        Ok(json!(rounded(seconds * 1e6 / ALONE as f64)))
    }

    fn count(&self) -> Result<u64> {
        harness::inside(self.test_box.clone(), async |cluster| bulk_load::count(&cluster.client).await)
    }

    /// Has a server do what is asked for, and stops it.
    fn finish(&self, server: &VeleroServer, request: Value, counter: &str) -> Result<Value> {
        let (kind, edition) = (request["kind"].clone(), server.edition());
        say(format!("{kind} of {} objects by {edition:?}", self.items));
        let longest = Duration::from_secs(60) + LONGEST_FOR_ITEM * u32::try_from(self.items)?;
        let (object, seconds) = harness::inside(self.test_box.clone(), async move |cluster| {
            take_within(cluster.client, request, longest).await
        })?;
        let peak = peak_memory(server.process()?)?;
        server.stop()?;
        let phase = &object["status"]["phase"];
        ensure!(phase == "Completed", "the {kind} of {edition:?} is {phase}, log: {}", server.log().display());
        let items = object["status"]["progress"][counter].as_u64().context("no items counted")?;
        ensure!(items >= self.items as u64, "the {kind} of {edition:?} has {items} of {} items", self.items);
        say(format!("{kind}: {items} items in {seconds:.1} s, {peak} MiB"));
        Ok(json!({
            "seconds": rounded(seconds),
            "items": items,
            "microseconds_an_item": rounded(seconds * 1e6 / items as f64),
            "peak_rss_mib": peak,
        }))
    }
}

fn print(figures: &Value, output: Output) {
    if output == Output::Json {
        out!("{figures}");
        return;
    }
    let again = if figures["again"] == true { " again" } else { "" };
    out!("{} objects{again}, loaded in {} s", figures["items"], figures["seconds_to_load"]);
    out!("{:<16}{:>10}{:>12}{:>12}{:>12}{:>16}", "", "items", "seconds", "µs an item", "peak MiB", "off linear");
    for (side, work) in [("ours", "backup"), ("ours", "restore"), ("peer", "backup"), ("peer", "restore")] {
        let row = &figures[side][work];
        if !row.is_object() {
            continue;
        }
        let deviation = row["deviation_percent"].as_f64().map(|percent| format!("{percent:+.1} %")).unwrap_or_default();
        let figure = |name: &str| row[name].to_string();
        out!(
            "{:<16}{:>10}{:>12}{:>12}{:>12}{deviation:>16}",
            format!("{side} {work}"),
            figure("items"),
            figure("seconds"),
            figure("microseconds_an_item"),
            figure("peak_rss_mib")
        );
    }
    let alone = &figures["alone"];
    out!("{ALONE} objects without us: {} µs each before the restore, {} after it", alone["before"], alone["after"]);
    let ours = ["backup", "restore"].map(|work| &figures["ours"][work]);
    let is_small = ours.iter().all(|row| row["peak_rss_mib"].as_u64() <= figures["most_mib"].as_u64());
    let is_linear = ours.iter().all(|row| row["deviation_percent"].as_f64().is_some_and(|it| it <= MOST_DEVIATION));
    out!("allowed: {} MiB, kept: {is_small}; {MOST_DEVIATION} % off linear, kept: {is_linear}", figures["most_mib"]);
}

//! The restore of many objects from one backup, each time into new namespaces.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Map, Value, json};
use velero_testkit::progress::say;
use velero_testkit::{Edition, ServerOptions, TestBox, VeleroServer, harness, load};
use velero_tests::audit::{AuditLog, busiest_second};
use velero_tests::{backups, restores};

use super::profile::Profile;
use super::{Output, peak_memory, ratio, rounded, take};

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many objects to restore
    #[arg(long, default_value_t = 12_000)]
    items: usize,
    /// How many more objects to load that are not restored
    #[arg(long, default_value_t = 0)]
    others: usize,
    /// Limit our requests a second, and count our writes
    #[arg(long)]
    client_qps: Option<u32>,
    /// Measure ours alone: for profiling, as nothing is compared
    #[arg(long)]
    without_peer: bool,
    /// How our programs are built
    #[arg(long, value_enum, default_value = "release")]
    pub(super) profile: Profile,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    pub(super) output: Output,
    /// Leave the box up afterwards
    #[arg(long)]
    pub(super) keep: bool,
}

/// One of the servers that are compared.
struct Side {
    name: &'static str,
    edition: Edition,
    flags: Vec<String>,
}

/// The backup everybody restores.
struct Source {
    backup: String,
    prefix: String,
    namespaces: Vec<String>,
}

pub(super) fn run(test_box: &TestBox, options: &Options) -> Result<Value> {
    let source = back_up(test_box, options)?;
    let mut figures = json!({"work": "restore", "items": options.items});
    for side in sides(options).iter().filter(|side| !options.without_peer || side.edition != Edition::Peer) {
        figures[side.name] = measure(test_box, options, &source, side)?;
    }
    if options.without_peer {
        return Ok(figures);
    }
    figures["ratio"] = json!(ratio(&figures["ours"], &figures["peer"])?);
    figures["ratio_unlimited"] = json!(ratio(&figures["ours"], &figures["peer_unlimited"])?);
    Ok(figures)
}

fn sides(options: &Options) -> [Side; 3] {
    let limit = |rate: u32| vec![format!("--client-qps={rate}"), format!("--client-burst={rate}")];
    [
        Side {
            name: "ours",
            edition: options.profile.edition(),
            flags: options.client_qps.map(limit).unwrap_or_default(),
        },
        Side { name: "peer", edition: Edition::Peer, flags: Vec::new() },
        Side { name: "peer_unlimited", edition: Edition::Peer, flags: limit(5_000) },
    ]
}

/// Loads the objects and backs up those that are to be restored.
fn back_up(test_box: &TestBox, options: &Options) -> Result<Source> {
    say(format!("loading {} objects and {} others", options.items, options.others));
    let wanted = options.clone();
    let namespaces = harness::inside(test_box.clone(), async move |cluster| {
        let load = async |name: &str, count: usize| {
            load::objects(&cluster.client, &format!("{name}{count}"), count, (count / 600).clamp(1, 50)).await
        };
        if wanted.others > 0 {
            load("others", wanted.others).await?;
        }
        load("load", wanted.items).await
    })?;
    let (backup, prefix) = (harness::unique_name("bench"), harness::unique_name("bench"));
    let server = start(test_box, options.profile.edition(), "velero-source", &prefix, Vec::new())?;
    backups::create(&server, &backup, &json!({"includedNamespaces": namespaces}))?;
    let phase = backups::ended(&server, &backup, Duration::from_secs(600))?["status"]["phase"].clone();
    ensure!(phase == "Completed", "the backup is {phase}, log: {}", server.log().display());
    server.stop()?;
    Ok(Source { backup, prefix, namespaces })
}

fn start(
    test_box: &TestBox,
    edition: Edition,
    namespace: &str,
    prefix: &str,
    mut flags: Vec<String>,
) -> Result<VeleroServer> {
    flags.push("--backup-sync-period=5s".into());
    let (namespace, prefix) = (namespace.to_owned(), prefix.to_owned());
    VeleroServer::up(test_box, edition, ServerOptions { namespace, prefix, flags, ..ServerOptions::default() })
}

/// Starts a server afresh, lets it restore into namespaces of its own and stops it.
fn measure(test_box: &TestBox, options: &Options, source: &Source, side: &Side) -> Result<Value> {
    say(format!("restoring: {}", side.name));
    let namespace = format!("velero-{}", side.name.replace('_', "-"));
    let server = start(test_box, side.edition, &namespace, &source.prefix, side.flags.clone())?;
    restores::wait_for_backup(&server, &source.backup)?;
    let request = restores::request(&server, &harness::unique_name("bench"), &spec(source, side));
    let log = AuditLog::from_now(test_box.machine())?;
    let (restore, seconds) =
        harness::inside(test_box.clone(), async move |cluster| take(cluster.client, request).await)?;
    let peak = peak_memory(server.process()?)?;
    server.stop()?;
    let phase = &restore["status"]["phase"];
    ensure!(phase == "Completed", "the restore by {} is {phase}, log: {}", side.name, server.log().display());
    let items = restore["status"]["progress"]["itemsRestored"].as_u64().context("no items counted")?;
    ensure!(items >= options.items as u64, "{} restored {items} of {} items", side.name, options.items);
    let mut figures = json!({"seconds": rounded(seconds), "peak_rss_mib": peak, "items": items});
    if options.client_qps.is_some() && side.edition != Edition::Peer {
        figures["most_writes_a_second"] = json!(busiest_second(&log.requests_of("velero-server")?));
    }
    // The next one wants a quiet cluster too.
    harness::inside(test_box.clone(), async |cluster| load::settled(&cluster.client).await)?;
    Ok(figures)
}

fn spec(source: &Source, side: &Side) -> Value {
    let target = side.name.replace('_', "-");
    let mapping: Map<String, Value> =
        source.namespaces.iter().map(|name| (name.clone(), json!(format!("{target}-{name}")))).collect();
    json!({"backupName": source.backup, "namespaceMapping": mapping})
}

//! The backup of many objects.

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use velero_testkit::progress::say;
use velero_testkit::{Edition, ServerOptions, TestBox, VeleroServer, harness, load};
use velero_tests::backups;

use super::profile::Profile;
use super::{Output, peak_memory, ratio, rounded, take};

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

#[derive(Clone, Copy, ValueEnum)]
enum Shape {
    /// ConfigMaps, Secrets, Services and Deployments of 0.3 to 3 KB
    Mixed,
    /// Pods that each mount a claim of their own
    Pods,
}

pub(super) fn run(test_box: &TestBox, options: &Options) -> Result<Value> {
    say(format!("loading {} objects", options.items));
    let prefix = format!("load{}", options.items);
    let namespaces = load_objects(test_box, options, &prefix)?;
    let spec = if options.by_namespace { json!({"includedNamespaces": namespaces}) } else { json!({}) };
    let ours = measure(test_box, options.profile.edition(), &spec)?;
    let peer = measure(test_box, Edition::Peer, &spec)?;
    let ratio = ratio(&ours, &peer)?;
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

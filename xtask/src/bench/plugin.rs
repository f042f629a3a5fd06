//! What an action of a plugin binary adds to a backup: the same binary under both servers.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use velero_testkit::progress::say;
use velero_testkit::{Edition, ServerOptions, TestBox, VeleroServer, harness, install, load, objects};
use velero_tests::backups;

use super::profile::Profile;
use super::{Output, rounded, take};

const NAMESPACE: &str = "acted-on";
/// How many backups each server takes.
const BACKUPS: usize = 3;

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many objects the action is called for
    #[arg(long, default_value_t = 10_000)]
    items: usize,
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

pub(super) fn run(test_box: &TestBox, options: &Options) -> Result<Value> {
    say(format!("loading {} objects", options.items));
    let items = options.items;
    harness::inside(test_box.clone(), async move |cluster| {
        let all = (0..items).map(|index| {
            let mut object = objects::config_map(NAMESPACE, &format!("item-{index}"), "key", "value");
            object["metadata"]["labels"] = json!({"example.velero.io/plugin": "yes"});
            object
        });
        load::create_all(&cluster.client, [objects::namespace(NAMESPACE)].into_iter()).await?;
        load::create_all(&cluster.client, all).await
    })?;
    let name = "velero-plugin-example";
    let plugin = install::package_binary(name, name, options.profile.name())?;
    let ours = added(test_box, options.profile.edition(), &plugin)?;
    let peer = added(test_box, Edition::Peer, &plugin)?;
    let adds = |figures: &Value| figures["adds"].as_f64().context("nothing measured");
    let ratio = rounded(adds(&peer)? / adds(&ours)?);
    Ok(json!({"work": "plugin", "items": items, "ours": ours, "peer": peer, "ratio": ratio}))
}

fn added(test_box: &TestBox, edition: Edition, plugin: &Path) -> Result<Value> {
    let without = measure(test_box, edition, None)?;
    let with = measure(test_box, edition, Some(plugin))?;
    Ok(json!({"seconds": rounded(with), "without": rounded(without), "adds": rounded(with - without)}))
}

/// Starts the server afresh, takes some backups and stops the server; gives the seconds of the fastest. The first moments
/// of a server would hide what a plugin adds.
fn measure(test_box: &TestBox, edition: Edition, plugin: Option<&Path>) -> Result<f64> {
    let with_plugin = plugin.is_some();
    say(format!("backing up with {edition:?}, {} the plugin", if with_plugin { "with" } else { "without" }));
    let namespace = format!("velero-{}-{with_plugin}", format!("{edition:?}").to_lowercase());
    let plugins = plugin.map(Path::to_owned).into_iter().collect();
    let prefix = harness::unique_name("bench");
    let server =
        VeleroServer::up(test_box, edition, ServerOptions { prefix, namespace, plugins, ..ServerOptions::default() })?;
    let mut fastest = f64::INFINITY;
    for _ in 0..BACKUPS {
        let name = harness::unique_name("bench");
        let request = backups::request(&server, &name, &json!({"includedNamespaces": [NAMESPACE]}));
        let (backup, seconds) =
            harness::inside(test_box.clone(), async move |cluster| take(cluster.client, request).await)?;
        let phase = &backup["status"]["phase"];
        ensure!(phase == "Completed", "the backup of {edition:?} is {phase}, log: {}", server.log().display());
        fastest = fastest.min(seconds);
    }
    server.stop()?;
    Ok(fastest)
}

//! What the actions for OpenShift add to a backup of objects they leave alone: 1,800 Secrets and 1,800 ConfigMaps.

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use velero_testkit::progress::say;
use velero_testkit::{Edition, ServerOptions, TestBox, VeleroServer, harness, load, objects};
use velero_tests::backups;

use super::profile::Profile;
use super::{Output, rounded, take};

const NAMESPACE: &str = "left-alone";
/// How many backups are taken each way; the fastest counts.
const BACKUPS: usize = 3;

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many objects of each kind
    #[arg(long, default_value_t = 1_800)]
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
    let items = options.items;
    say(format!("loading {items} Secrets and {items} ConfigMaps"));
    harness::inside(test_box.clone(), async move |cluster| {
        load::create_all(&cluster.client, [objects::namespace(NAMESPACE)].into_iter()).await?;
        load::create_all(&cluster.client, (0..items).flat_map(pair)).await
    })?;
    let (mut without, mut with) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..BACKUPS {
        without = without.min(measure(test_box, options.profile.edition(), "off")?);
        with = with.min(measure(test_box, options.profile.edition(), "on")?);
    }
    Ok(json!({
        "work": "openshift", "items": 2 * items, "seconds": rounded(with), "without": rounded(without),
        "ratio": rounded(with / without),
    }))
}

fn pair(index: usize) -> [Value; 2] {
    let text = format!("value {index} ").repeat(60);
    let mut secret = objects::config_map(NAMESPACE, &format!("item-{index}"), "key", "");
    secret["kind"] = json!("Secret");
    secret["data"] = Value::Null;
    secret["stringData"] = json!({"key": text});
    [objects::config_map(NAMESPACE, &format!("item-{index}"), "key", &text), secret]
}

/// Starts the server with the actions or without them, takes a backup that does not count and one that does.
fn measure(test_box: &TestBox, edition: Edition, switch: &str) -> Result<f64> {
    say(format!("backing up with the actions {switch}"));
    let options = ServerOptions {
        prefix: harness::unique_name("bench"),
        namespace: format!("velero-openshift-{switch}"),
        flags: vec![format!("--openshift={switch}")],
        ..ServerOptions::default()
    };
    let server = VeleroServer::up(test_box, edition, options)?;
    let mut last = f64::INFINITY;
    for _ in 0..2 {
        let name = harness::unique_name("bench");
        let request = backups::request(&server, &name, &json!({"includedNamespaces": [NAMESPACE]}));
        let (backup, seconds) =
            harness::inside(test_box.clone(), async move |cluster| take(cluster.client, request).await)?;
        let phase = &backup["status"]["phase"];
        ensure!(phase == "Completed", "the backup is {phase}, log: {}", server.log().display());
        last = seconds;
    }
    server.stop()?;
    Ok(last)
}

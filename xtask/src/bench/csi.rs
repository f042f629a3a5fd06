//! How the time of a backup grows with the number of its CSI volumes: few and many, in one run.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::parts::SNAPSHOT_CLASS;
use velero_testkit::progress::say;
use velero_testkit::{ServerOptions, Settings, TestBox, VeleroServer, harness, load, objects};
use velero_tests::{backups, csi};

use super::profile::Profile;
use super::{Output, rounded, take};

/// How many times the seconds of few volumes many may take, besides the driver's own.
const BOUND: f64 = 1.5;

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many volumes are few
    #[arg(long, default_value_t = 10)]
    few: usize,
    /// How many volumes are many
    #[arg(long, default_value_t = 100)]
    many: usize,
    /// How many seconds the driver needs for a snapshot
    #[arg(long, default_value_t = 1)]
    driver_seconds: u32,
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
    let flags = ["--features=EnableCSI", "--item-operation-sync-frequency=1s"].map(str::to_owned).to_vec();
    let server_options = ServerOptions { prefix: harness::unique_name("bench"), flags, ..ServerOptions::default() };
    let server = VeleroServer::up(test_box, options.profile.edition(), server_options)?;
    test_box.set_storage(&Settings { create_snapshot_seconds: options.driver_seconds, ..Settings::default() })?;
    let few = measure(test_box, &server, options.few)?;
    let many = measure(test_box, &server, options.many)?;
    server.stop()?;
    let figure = |figures: &Value, key: &str| figures[key].as_f64().with_context(|| format!("no {key} measured"));
    let allowed = BOUND * figure(&few, "seconds")? + figure(&many, "driver")?;
    let within = figure(&many, "seconds")? <= allowed;
    Ok(json!({"work": "csi", "few": few, "many": many, "allowed": rounded(allowed), "within": within}))
}

/// Backs up a namespace with that many volumes; gives the seconds, and those that the driver needs for it without us.
fn measure(test_box: &TestBox, server: &VeleroServer, volumes: usize) -> Result<Value> {
    say(format!("making {volumes} volumes"));
    let namespace = format!("volumes-{volumes}");
    let claims = namespace.clone();
    harness::inside(test_box.clone(), async move |cluster| {
        load::create_all(&cluster.client, [objects::namespace(&claims)].into_iter()).await?;
        let all = (0..volumes).map(|number| objects::claim(&claims, &format!("data-{number}")));
        load::create_all(&cluster.client, all).await
    })?;
    csi::wait_for_claims(server.machine(), &namespace)?;
    say(format!("backing up {volumes} volumes"));
    let request = backups::request(server, &namespace, &json!({"includedNamespaces": [namespace]}));
    let (backup, seconds) =
        harness::inside(test_box.clone(), async move |cluster| take(cluster.client, request).await)?;
    let status = &backup["status"];
    ensure!(status["phase"] == "Completed", "the backup is {status}, log: {}", server.log().display());
    let driver = driver_alone(test_box, server, &namespace, volumes)?;
    Ok(json!({"volumes": volumes, "seconds": rounded(seconds), "driver": rounded(driver)}))
}

/// Has the driver and its sidecars take as many snapshots without us; gives the seconds until the last can be used.
fn driver_alone(test_box: &TestBox, server: &VeleroServer, namespace: &str, volumes: usize) -> Result<f64> {
    say(format!("{volumes} snapshots without us"));
    let (machine, begun, place) = (server.machine(), Instant::now(), namespace.to_owned());
    harness::inside(test_box.clone(), async move |cluster| {
        let snapshot = |number: usize| {
            let claim = format!("data-{number}");
            objects::volume_snapshot(&place, &claim, &claim, SNAPSHOT_CLASS)
        };
        load::create_all(&cluster.client, (0..volumes).map(snapshot)).await
    })?;
    wait_until("the snapshots to be ready", csi::PATIENCE, || {
        let ready = "-o=jsonpath={.items[*].status.readyToUse}";
        let ready = machine.kubectl(&["-n", namespace, "get", "volumesnapshots", ready])?;
        let ready = ready.split(' ').filter(|ready| *ready == "true").count();
        ensure!(ready == volumes, "{ready} of {volumes} are ready");
        Ok(())
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    machine.kubectl(&["-n", namespace, "delete", "volumesnapshots", "--all", "--timeout=120s"])?;
    csi::wait_for_no_snapshot_objects(machine)?;
    Ok(seconds)
}

//! `cargo xtask demo`: what the project does, on a real cluster, in front of your eyes.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, objects};

#[derive(Args)]
pub(crate) struct Options {
    /// Leave the box up afterwards
    #[arg(long)]
    keep: bool,
}

const BOX: &str = "demo";
const NAMESPACE: &str = "shop";

pub(crate) fn run(options: &Options) -> Result<()> {
    Edition::Ours.install()?;
    let test_box = TestBox::up(BOX, BoxKind::Whole)?;
    let outcome = show(&test_box);
    if options.keep {
        println!("\nthe box stays up: eval \"$(cargo xtask cluster env --name {BOX})\"");
        return outcome;
    }
    TestBox::down(BOX)?;
    outcome
}

fn show(test_box: &TestBox) -> Result<()> {
    application(test_box.machine())?;
    title("Velero starts; its default location is a bucket of the box's S3 store");
    let velero =
        VeleroServer::up(test_box, Edition::Ours, ServerOptions { prefix: BOX.into(), ..ServerOptions::default() })?;
    shown(&velero, &["backup-location", "get"])?;
    title("A backup of the shop");
    shown(&velero, &["backup", "create", NAMESPACE, "--include-namespaces", NAMESPACE, "--wait"])?;
    shown(&velero, &["backup", "get"])?;
    shown(&velero, &["backup", "describe", NAMESPACE, "--details"])
}

/// Two web servers behind a service, and a customer that asks them by name.
fn application(machine: &Machine) -> Result<()> {
    title("An application: two web servers behind a service");
    let page = "while true; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nwelcome to the shop\\n' | nc -l -p 8080; done";
    let web = objects::deployment(NAMESPACE, "web", 2, page);
    for object in [objects::namespace(NAMESPACE), web, objects::service(NAMESPACE, "web", 8080)] {
        machine.apply(&object.to_string())?;
    }
    machine.kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/web", "--timeout=60s"])?;
    print!("{}", machine.kubectl(&["-n", NAMESPACE, "get", "pods,services"])?);
    title("A customer asks it by name");
    let ask = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc web.shop.svc.cluster.local 8080";
    machine.apply(&objects::pod(NAMESPACE, "customer", ask).to_string())?;
    wait_until("the answer", Duration::from_secs(30), || {
        let answer = machine.kubectl(&["-n", NAMESPACE, "logs", "customer"])?;
        ensure!(answer.contains("welcome to the shop"), "the customer got {answer:?}");
        print!("{answer}");
        Ok(())
    })
}

fn shown(velero: &VeleroServer, arguments: &[&str]) -> Result<()> {
    println!("$ velero {}", arguments.join(" "));
    print!("{}", velero.velero(arguments)?);
    Ok(())
}

fn title(text: &str) {
    println!("\n== {text}");
}

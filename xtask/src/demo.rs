//! `cargo xtask demo`: what the project does, on a real cluster, in front of your eyes.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use velero_testkit::machine::wait_until;
use velero_testkit::{BoxKind, TestBox, objects};

#[derive(Args)]
pub(crate) struct Options {
    /// Leave the box up afterwards
    #[arg(long)]
    keep: bool,
}

const BOX: &str = "demo";
const NAMESPACE: &str = "shop";

pub(crate) fn run(options: &Options) -> Result<()> {
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
    let machine = test_box.machine();
    title("An application: two web servers behind a service");
    let page = "while true; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nwelcome to the shop\\n' | nc -l -p 8080; done";
    for object in [
        objects::namespace(NAMESPACE),
        objects::deployment(NAMESPACE, "web", 2, page),
        objects::service(NAMESPACE, "web", 8080),
    ] {
        machine.apply(&object.to_string())?;
    }
    machine.kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/web", "--timeout=60s"])?;
    print!("{}", machine.kubectl(&["-n", NAMESPACE, "get", "pods,services"])?);
    title("A pod asks it by name");
    let ask = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc web.shop.svc.cluster.local 8080";
    machine.apply(&objects::pod(NAMESPACE, "customer", ask).to_string())?;
    wait_until("the answer", Duration::from_secs(30), || {
        let answer = machine.kubectl(&["-n", NAMESPACE, "logs", "customer"])?;
        ensure!(answer.contains("welcome to the shop"), "the customer got {answer:?}");
        print!("{answer}");
        Ok(())
    })
}

fn title(text: &str) {
    println!("\n== {text}");
}

//! `cargo xtask demo`: what the project does, on real clusters, in front of your eyes.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, objects};
use velero_tests::{csi, restores};

use crate::output::{self, out};

#[derive(Args)]
pub(crate) struct Options {
    /// Leave the boxes up afterwards
    #[arg(long)]
    keep: bool,
}

const BOX: &str = "demo";
const SECOND_BOX: &str = "demo-2";
const NAMESPACE: &str = "shop";
const NEW_NAMESPACE: &str = "boutique";

pub(crate) fn run(options: &Options) -> Result<()> {
    Edition::Ours.install()?;
    let outcome = show();
    if options.keep {
        for name in [BOX, SECOND_BOX].into_iter().filter(|name| TestBox::find(name).is_some()) {
            out!("\nthe box stays up: eval \"$(cargo xtask cluster env --name {name})\"");
        }
        return outcome;
    }
    for name in [BOX, SECOND_BOX] {
        TestBox::down(name)?;
    }
    outcome
}

fn show() -> Result<()> {
    let test_box = TestBox::up(BOX, BoxKind::Storage)?;
    let machine = test_box.machine();
    let books = application(machine)?;
    title("Velero starts; its default location is a bucket of the box's S3 store");
    let velero = start(&test_box)?;
    shown(&velero, &["backup-location", "get"])?;
    title("A backup of the shop");
    shown(&velero, &["backup", "create", NAMESPACE, "--include-namespaces", NAMESPACE, "--wait"])?;
    shown(&velero, &["backup", "get"])?;
    shown(&velero, &["backup", "describe", NAMESPACE, "--details"])?;
    lose_and_restore(machine, &velero, &books)?;
    velero.stop()?;
    migrate(&books)
}

fn start(test_box: &TestBox) -> Result<VeleroServer> {
    // Both boxes use one folder of the bucket, which no other run has: the second finds the backups of the first.
    let prefix = format!("{BOX}-{}", std::process::id());
    let flags = ["--backup-sync-period=5s", "--features=EnableCSI", "--item-operation-sync-frequency=1s"];
    let flags = flags.map(str::to_owned).to_vec();
    VeleroServer::up(test_box, Edition::Ours, ServerOptions { prefix, flags, ..ServerOptions::default() })
}

/// Two web servers behind a service, a customer that asks them by name, and a database with a volume; gives the checksum
/// of what is in the volume.
fn application(machine: &Machine) -> Result<String> {
    title("An application: two web servers behind a service, and a database with a volume");
    let page = "while true; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nwelcome to the shop\\n' | nc -l -p 8080; done";
    let web = objects::deployment(NAMESPACE, "web", 2, page);
    let database = csi::stateful_set(NAMESPACE, 1);
    for object in database.into_iter().chain([web, objects::service(NAMESPACE, "web", 8080)]) {
        machine.apply(&object.to_string())?;
    }
    show_application(machine, NAMESPACE)?;
    show_data(machine, NAMESPACE)
}

/// Waits for the database and shows what is in its volume.
fn show_data(machine: &Machine, namespace: &str) -> Result<String> {
    title("What the database has in its volume");
    csi::wait_for_set(machine, namespace, 1)?;
    output::print(machine.kubectl(&["-n", namespace, "get", "statefulsets,persistentvolumeclaims"])?);
    let sum = csi::sums(machine, namespace, 1)?.concat();
    output::print(&sum);
    Ok(sum)
}

fn compare_data(machine: &Machine, namespace: &str, before: &str) -> Result<()> {
    let now = show_data(machine, namespace)?;
    ensure!(now == before, "the data is not what it was: {now}, it was {before}");
    out!("the same as before");
    Ok(())
}

/// Waits for the application, shows it, and asks it for its page as a customer would.
fn show_application(machine: &Machine, namespace: &str) -> Result<()> {
    wait_until("the web servers", Duration::from_secs(90), || {
        let ready = "-o=jsonpath={.status.readyReplicas}";
        let ready = machine.kubectl(&["-n", namespace, "get", "deployment", "web", ready])?;
        ensure!(ready == "2", "{ready:?} of 2 web servers are ready");
        Ok(())
    })?;
    output::print(machine.kubectl(&["-n", namespace, "get", "deployments,pods,services"])?);
    title("A customer asks it by name");
    let ask = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc web.{namespace}.svc.cluster.local 8080");
    machine.apply(&objects::pod(namespace, "customer", &ask).to_string())?;
    wait_until("the answer", Duration::from_secs(60), || {
        let answer = machine.kubectl(&["-n", namespace, "logs", "customer"])?;
        ensure!(answer.contains("welcome to the shop"), "the customer got {answer:?}");
        output::print(&answer);
        Ok(())
    })
}

/// Somebody deletes the shop; the backup brings it back.
fn lose_and_restore(machine: &Machine, velero: &VeleroServer, books: &str) -> Result<()> {
    title("Somebody deletes the shop");
    out!("$ kubectl delete namespace {NAMESPACE}");
    output::print(machine.kubectl(&["delete", "namespace", NAMESPACE])?);
    title("What would a restore do?");
    shown(velero, &["restore", "create", "--from-backup", NAMESPACE, "--dry-run", "--features=EnableCSI"])?;
    title("The restore");
    shown(velero, &["restore", "create", "back", "--from-backup", NAMESPACE, "--wait"])?;
    shown(velero, &["restore", "get"])?;
    shown(velero, &["restore", "describe", "back", "--details"])?;
    title("The shop is open again");
    show_application(machine, NAMESPACE)?;
    compare_data(machine, NAMESPACE, books)
}

/// Another cluster reads the same bucket and gives the shop another name.
fn migrate(books: &str) -> Result<()> {
    title("A second cluster: its Velero reads the same bucket and finds the backup");
    let test_box = TestBox::up(SECOND_BOX, BoxKind::Storage)?;
    let velero = start(&test_box)?;
    restores::wait_for_backup(&velero, NAMESPACE)?;
    shown(&velero, &["backup", "get"])?;
    title(&format!("The shop moves there as {NEW_NAMESPACE}"));
    let mapping = format!("{NAMESPACE}:{NEW_NAMESPACE}");
    let moving = ["restore", "create", "moved", "--from-backup", NAMESPACE, "--namespace-mappings", &mapping, "--wait"];
    shown(&velero, &moving)?;
    shown(&velero, &["restore", "get"])?;
    show_application(test_box.machine(), NEW_NAMESPACE)?;
    compare_data(test_box.machine(), NEW_NAMESPACE, books)?;
    velero.stop()
}

fn shown(velero: &VeleroServer, arguments: &[&str]) -> Result<()> {
    out!("$ velero {}", arguments.join(" "));
    output::print(velero.velero(arguments)?);
    Ok(())
}

fn title(text: &str) {
    out!("\n== {text}");
}

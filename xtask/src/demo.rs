//! `cargo xtask demo`: what the project does, on real clusters, in front of your eyes.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, links, wait_until};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, objects};
use velero_tests::{csi, restores};

use crate::output::{self, out};

#[derive(Args)]
pub(crate) struct Options {
    /// Leave the boxes up afterwards
    #[arg(long)]
    keep: bool,
    /// Open the page of the first cluster to look at, until Ctrl-C, instead of moving the shop to a second one
    #[arg(long)]
    web: bool,
}

const BOX: &str = "demo";
const SECOND_BOX: &str = "demo-2";
const NAMESPACE: &str = "shop";
const NEW_NAMESPACE: &str = "boutique";
/// The backup that copies the volume through its pod, and the one that moves a snapshot of it.
const COPIED: &str = "shop-copied";
const MOVED: &str = "shop-moved";
/// The Secret with the password of the repositories, in the namespace of the server.
const SERVER_NAMESPACE: &str = "velero";
const PASSWORD: &str = "velero-repo-credentials";
/// Where the page is, in the box and on this host.
const WEB_PORT: u16 = 8090;
const WEB_ACCOUNT: &str = "visitor";

pub(crate) fn run(options: &Options) -> Result<()> {
    // What the box is made of is mostly downloaded and linked: that goes well beside compiling.
    let parts = thread::spawn(|| TestBox::install(BoxKind::Storage));
    Edition::Ours.install()?;
    parts.join().map_err(|_| anyhow!("what the box is made of could not be got"))??;
    for name in [BOX, SECOND_BOX] {
        // One that was left up to be looked at.
        TestBox::down(name)?;
    }
    if options.web {
        // Better now than in five minutes.
        links::wait_until_free(WEB_PORT, links::GIVING_UP)?;
    }
    let outcome = show(options);
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

fn show(options: &Options) -> Result<()> {
    let test_box = TestBox::up(BOX, BoxKind::Storage)?;
    let machine = test_box.machine();
    let books = application(machine)?;
    title("Velero starts; its default location is a bucket of the box's S3 store");
    let velero = start(&test_box)?;
    shown(&velero, &["backup-location", "get"])?;
    title("A backup of the shop: the volume is copied through its pod");
    let of_shop = ["--include-namespaces", NAMESPACE, "--wait"];
    shown(&velero, &[&["backup", "create", COPIED, "--default-volumes-to-fs-backup"], &of_shop[..]].concat())?;
    shown(&velero, &["backup", "describe", COPIED, "--details"])?;
    title("Another one: a snapshot of the volume is taken, and its data moved into the bucket");
    shown(&velero, &[&["backup", "create", MOVED, "--snapshot-move-data"], &of_shop[..]].concat())?;
    shown(&velero, &["backup", "get"])?;
    shown(&velero, &["repo", "get"])?;
    lose_and_restore(machine, &velero, &books)?;
    if options.web {
        return open_page(machine, &velero, options.keep);
    }
    let password = machine.read(&format!("/api/v1/namespaces/{SERVER_NAMESPACE}/secrets/{PASSWORD}"))?;
    velero.stop()?;
    migrate(&books, &password["data"])
}

fn start(test_box: &TestBox) -> Result<VeleroServer> {
    // Both boxes use one folder of the bucket, which no other run has: the second finds the backups of the first.
    let prefix = format!("{BOX}-{}", std::process::id());
    let page = format!("--web-address=127.0.0.1:{WEB_PORT}");
    let flags = ["--backup-sync-period=5s", "--features=EnableCSI", "--item-operation-sync-frequency=1s", &page];
    let flags = flags.map(str::to_owned).to_vec();
    let node_agents = Some(vec!["--features=EnableCSI".to_owned()]);
    let namespace = SERVER_NAMESPACE.to_owned();
    let options = ServerOptions { prefix, flags, node_agents, namespace, ..ServerOptions::default() };
    VeleroServer::up(test_box, Edition::Ours, options)
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
    shown(velero, &["restore", "create", "--from-backup", COPIED, "--dry-run", "--features=EnableCSI"])?;
    title("The restore");
    shown(velero, &["restore", "create", "back", "--from-backup", COPIED, "--wait"])?;
    shown(velero, &["restore", "get"])?;
    shown(velero, &["restore", "describe", "back", "--details"])?;
    title("The shop is open again");
    show_application(machine, NAMESPACE)?;
    compare_data(machine, NAMESPACE, books)
}

/// Opens a door to the page, makes somebody who may see and do everything there, says how to come in, and waits until who looks has
/// seen enough. Where nobody sits at a terminal nobody could say so: then it is enough that the page answers.
fn open_page(machine: &Machine, velero: &VeleroServer, keep: bool) -> Result<()> {
    title("A schedule, so that there is something to come");
    let times = ["--schedule", "0 3 * * *", "--include-namespaces", NAMESPACE];
    shown(velero, &[&["schedule", "create", "shop-nightly"], &times[..]].concat())?;
    machine.kubectl(&["-n", SERVER_NAMESPACE, "create", "serviceaccount", WEB_ACCOUNT])?;
    let account = format!("--serviceaccount={SERVER_NAMESPACE}:{WEB_ACCOUNT}");
    machine.kubectl(&["create", "clusterrolebinding", WEB_ACCOUNT, "--clusterrole=cluster-admin", &account])?;
    machine.open_door("page-door", WEB_PORT, &format!("127.0.0.1:{WEB_PORT}"))?;
    wait_until("the page", Duration::from_secs(60), page_answers)?;
    title("The page is open");
    out!("http://127.0.0.1:{WEB_PORT}");
    let make_token = ["-n", SERVER_NAMESPACE, "create", "token", WEB_ACCOUNT, "--duration=24h"];
    if keep {
        out!("a token to sign in with, good for a day:");
        out!("cargo xtask cluster run --name {BOX} -- kubectl {}", make_token.join(" "));
        out!("when you have seen enough: cargo xtask cluster down --name {BOX}");
        return Ok(());
    }
    if !(stdin().is_terminal() && stdout().is_terminal()) {
        out!("it answers; nobody is at a terminal to look at it, so it is closed again (--keep leaves it open)");
        return Ok(());
    }
    out!("sign in with this token, which is good for a day and for this cluster alone:\n");
    out!("{}", machine.kubectl(&make_token)?.trim());
    out!("\nCtrl-C when you have seen enough: the cluster goes with it");
    until_interrupted()?;
    title("Closing the page and taking the cluster down");
    Ok(())
}

/// Asks for the form to sign in, through the door.
fn page_answers() -> Result<()> {
    let mut door = TcpStream::connect(("127.0.0.1", WEB_PORT)).context("the door is closed")?;
    door.set_read_timeout(Some(Duration::from_secs(10)))?;
    door.write_all(format!("GET /sign-in HTTP/1.0\r\nHost: 127.0.0.1:{WEB_PORT}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    door.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.0 200"), "the page answers {answer:?}");
    Ok(())
}

/// Waits for Ctrl-C. What runs in the box does not hear it: it is no child of this terminal.
fn until_interrupted() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tokio::signal::ctrl_c()).context("cannot wait for Ctrl-C")
}

/// Another cluster reads the same bucket and gives the shop another name. It needs the password of the repositories.
fn migrate(books: &str, password: &Value) -> Result<()> {
    title("A second cluster: its Velero reads the same bucket, has the same password, and finds the backups");
    let test_box = TestBox::up(SECOND_BOX, BoxKind::Storage)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": PASSWORD, "namespace": SERVER_NAMESPACE},
        "data": password,
    });
    for object in [objects::namespace(SERVER_NAMESPACE), secret] {
        test_box.machine().apply(&object.to_string())?;
    }
    let velero = start(&test_box)?;
    restores::wait_for_backup(&velero, MOVED)?;
    shown(&velero, &["backup", "get"])?;
    title(&format!("The shop moves there as {NEW_NAMESPACE}"));
    let mapping = format!("{NAMESPACE}:{NEW_NAMESPACE}");
    let moving = ["restore", "create", "moved", "--from-backup", MOVED, "--namespace-mappings", &mapping, "--wait"];
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

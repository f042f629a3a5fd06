//! Two servers and one Lease: one works, the other waits and takes over, and a server that was frozen over that writes
//! nothing when it goes on. One that is alone outlives an API server that does not answer.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::parts::BUCKET;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, load, objects};
use velero_tests::audit::AuditLog;
use velero_tests::rivals::Rival;
use velero_tests::{backups, restores};

const PATIENCE: Duration = Duration::from_secs(60);
const SHOP: &str = "shop";
/// How many objects a backup has that lasts a while at the slow rate.
const OBJECTS: usize = 150;
const SLOW: [&str; 3] = ["--client-qps=20", "--client-burst=20", "--client-page-size=1"];
/// What servers write by the clock, whatever is asked of them.
const BY_THE_CLOCK: [&str; 4] = ["events", "backupstoragelocations", "serverstatusrequests", "leases"];

/// The resources of a server, and none that runs.
async fn install(cluster: &TestCluster, prefix: &str) -> VeleroServer {
    let options = ServerOptions { prefix: prefix.to_owned(), ..ServerOptions::default() };
    let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
    server.stop().unwrap();
    let maps = (0..OBJECTS).map(|number| objects::config_map(SHOP, &format!("map-{number}"), "number", "1"));
    load::create_all(&cluster.client, [objects::namespace(SHOP)].into_iter()).await.unwrap();
    load::create_all(&cluster.client, maps).await.unwrap();
    server
}

fn of_shop() -> Value {
    json!({"includedNamespaces": [SHOP]})
}

/// Waits until a backup or restore is in a phase.
fn wait_for_phase(server: &VeleroServer, plural: &str, name: &str, wanted: &str) -> Value {
    let mut found = Value::Null;
    wait_until(&format!("{name} to be {wanted}"), PATIENCE, || {
        found = server.object(plural, name)?;
        anyhow::ensure!(found["status"]["phase"] == wanted, "it is {}", found["status"]);
        Ok(())
    })
    .unwrap();
    found
}

/// Ends the leader so often, by a kill and by asking, each time in the middle of a backup, and tells how long it took until the
/// controllers of the other worked.
fn takes_over(server: &VeleroServer, rounds: usize) {
    let start =
        |number: usize| Rival::start(server, &format!("rival-{number}"), 8100 + number as u16 % 2, &SLOW).unwrap();
    let mut leader = start(0);
    leader.wait_until_it_leads(PATIENCE).unwrap();
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..2 * rounds {
        let next = start(round + 1);
        next.wait_until_it_waits(PATIENCE).unwrap();
        let work = format!("work-{round}");
        backups::create(server, &work, &of_shop()).unwrap();
        wait_for_phase(server, "backups", &work, "InProgress");
        let (signal, times) = if round % 2 == 0 { ("-KILL", &mut times[0]) } else { ("-TERM", &mut times[1]) };
        leader.signal(signal).unwrap();
        let began = Instant::now();
        let deadline = began + PATIENCE;
        while !next.http("/readyz").is_ok_and(|answer| answer == "ok") {
            assert!(Instant::now() < deadline, "nobody took over after {signal}: {}", next.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        times.push(began.elapsed());
        assert!(next.is_named_in(&next.holder().unwrap()));
        leader.wait_for_end(PATIENCE).unwrap();
        wait_for_phase(server, "backups", &work, "Failed");
        leader = next;
    }
    for (what, mut times) in ["a kill", "a graceful stop"].into_iter().zip(times) {
        times.sort();
        println!(
            "takeover after {what}: {} times, median {:?}, worst {:?}",
            times.len(),
            times[times.len() / 2],
            times[times.len() - 1]
        );
    }
    backups::create(server, "after-all", &of_shop()).unwrap();
    wait_for_phase(server, "backups", "after-all", "Completed");
    leader.stop().unwrap();
}

/// A server that is started by hand beside another does nothing but wait, answers, and says for whom it waits.
fn waits_beside_another(server: &VeleroServer) {
    let leader = Rival::start(server, "installed", 8110, &[]).unwrap();
    leader.wait_until_it_leads(PATIENCE).unwrap();
    let log = AuditLog::from_now(server.machine()).unwrap();
    let second = Rival::start(server, "by-hand", 8111, &["--log-format=json"]).unwrap();
    second.wait_until_it_waits(PATIENCE).unwrap();
    assert_eq!(second.http("/healthz").unwrap(), "ok");
    assert!(second.http("/metrics").unwrap().contains("velero_leader 0"));
    let said = second.log();
    assert!(said.contains("Another server leads") && said.contains("installed_"), "{said}");
    backups::create(server, "beside", &of_shop()).unwrap();
    wait_for_phase(server, "backups", "beside", "Completed");
    std::thread::sleep(Duration::from_secs(3));
    assert!(leader.is_named_in(&leader.holder().unwrap()));
    let of_leases = log.requests_of("velero-lease").unwrap();
    assert!(of_leases.iter().all(|request| request.verb == "update" && request.code == 200), "{of_leases:#?}");
    second.stop().unwrap();
    leader.stop().unwrap();
}

/// Freezes a server in the middle of something until another has ended that, and lets it go on.
fn frozen(server: &VeleroServer, prefix: &str, plural: &str, name: &str, leader: &Rival) {
    wait_for_phase(server, plural, name, "InProgress");
    // Some of it is done.
    wait_until("progress", PATIENCE, || {
        let progress = &server.object(plural, name)?["status"]["progress"];
        let done = progress["itemsBackedUp"].as_u64().or(progress["itemsRestored"].as_u64()).unwrap_or_default();
        anyhow::ensure!(done > 5, "it is {progress}");
        Ok(())
    })
    .unwrap();
    leader.signal("-STOP").unwrap();
    let next = Rival::start(server, &format!("after-{name}"), 8121, &[]).unwrap();
    next.wait_until_it_leads(PATIENCE).unwrap();
    let failed = wait_for_phase(server, plural, name, "Failed");
    assert!(failed["status"]["failureReason"].as_str().unwrap().contains("InProgress"), "{failed:#}");
    // What is owed is paid by now, or this would be a look at something that changes.
    std::thread::sleep(Duration::from_secs(2));
    let machine = server.machine();
    let listing = || backups::listing(machine, BUCKET, prefix).unwrap();
    let (stored, object) = (listing(), server.object(plural, name).unwrap());
    let log = AuditLog::from_now(machine).unwrap();
    leader.signal("-CONT").unwrap();
    leader.wait_for_end(PATIENCE).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let said = leader.log();
    assert!(said.contains("is lost: ") && said.contains("has taken it"), "{said}");
    assert_eq!(listing(), stored, "a server without the Lease has written to the bucket");
    assert_eq!(server.object(plural, name).unwrap(), object);
    let by_the_clock = |resource: &str| BY_THE_CLOCK.iter().any(|part| resource.starts_with(part));
    let written: Vec<_> = log.requests_of("velero-server").unwrap();
    let written: Vec<_> = written.into_iter().filter(|request| !by_the_clock(&request.resource)).collect();
    assert!(written.is_empty(), "{written:#?}");
    next.stop().unwrap();
}

fn frozen_servers_write_nothing(server: &VeleroServer, prefix: &str) {
    let leader = Rival::start(server, "frozen-backup", 8120, &SLOW).unwrap();
    leader.wait_until_it_leads(PATIENCE).unwrap();
    backups::create(server, "cold", &of_shop()).unwrap();
    frozen(server, prefix, "backups", "cold", &leader);

    let leader = Rival::start(server, "frozen-restore", 8122, &SLOW).unwrap();
    leader.wait_until_it_leads(PATIENCE).unwrap();
    let spec = json!({"backupName": "beside", "namespaceMapping": {SHOP: "copy"}});
    restores::create(server, "thaw", &spec).unwrap();
    frozen(server, prefix, "restores", "thaw", &leader);
}

/// An API server that does not answer for three times as long as a Lease is held ends neither the server nor its backup.
fn outlives_an_api_server_that_is_away(server: &VeleroServer) {
    let alone = Rival::start(server, "alone", 8130, &SLOW).unwrap();
    alone.wait_until_it_leads(PATIENCE).unwrap();
    backups::create(server, "through", &of_shop()).unwrap();
    wait_for_phase(server, "backups", "through", "InProgress");
    let api_server = server.machine().host_process("kube-apiserver").unwrap().to_string();
    let signal = |signal: &str| assert!(Command::new("kill").args([signal, &api_server]).status().unwrap().success());
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(30));
    let told = alone.http("/readyz");
    signal("-CONT");
    assert!(told.unwrap().contains("may lead"), "it thinks that it leads");
    wait_for_phase(server, "backups", "through", "Completed");
    assert!(alone.is_named_in(&alone.holder().unwrap()));
    alone.stop().unwrap();
}

fn story(box_name: &str, rounds: usize) {
    // What a run that broke off left would count as this run's.
    TestBox::down(box_name).unwrap();
    harness::run(box_name, BoxKind::ControlPlane, move |cluster| async move {
        let prefix = harness::unique_name("two-servers");
        let server = install(&cluster, &prefix).await;
        waits_beside_another(&server);
        frozen_servers_write_nothing(&server, &prefix);
        takes_over(&server, rounds);
        outlives_an_api_server_that_is_away(&server);
    });
    TestBox::down(box_name).unwrap();
}

#[test]
fn one_of_two_servers_works_the_other_takes_over_and_a_frozen_one_writes_nothing() {
    story("two-servers", 2);
}

#[test]
#[ignore = "takes minutes: twenty kills and twenty graceful stops, with their times"]
fn takeovers_are_timed() {
    TestBox::down("takeovers").unwrap();
    harness::run("takeovers", BoxKind::ControlPlane, async |cluster| {
        let server = install(&cluster, &harness::unique_name("takeovers")).await;
        takes_over(&server, 20);
    });
    TestBox::down("takeovers").unwrap();
}

//! Two clusters with one bucket and prefix take a backup of the same name in the same second, as equal schedules do: at most
//! one of them has the name, its files stay whole, and the other says why it has not.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::parts::BUCKET;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, objects};
use velero_tests::backups;

const BOXES: [&str; 2] = ["twin-one", "twin-two"];
const ROUNDS: usize = 5;
const DEADLINE: Duration = Duration::from_secs(60);

fn start(name: &str, prefix: &str) -> VeleroServer {
    let test_box = TestBox::up(name, BoxKind::ControlPlane).unwrap();
    let machine = test_box.machine();
    machine.apply(&objects::namespace("shop").to_string()).unwrap();
    for number in 0..20 {
        let map = objects::config_map("shop", &format!("map-{number}"), "cluster", name);
        machine.apply(&map.to_string()).unwrap();
    }
    let options = ServerOptions { prefix: prefix.to_owned(), ..ServerOptions::default() };
    VeleroServer::up(&test_box, Edition::Ours, options).unwrap()
}

/// The backup of that name in each cluster, created at the same time and waited for.
fn take(servers: &[VeleroServer], name: &str) -> Vec<Value> {
    let together = Barrier::new(servers.len());
    let spec = json!({"includedNamespaces": ["shop"]});
    thread::scope(|scope| {
        let takers = servers.iter().map(|server| {
            scope.spawn(|| {
                together.wait();
                backups::create(server, name, &spec).unwrap();
                backups::ended(server, name, DEADLINE).unwrap()
            })
        });
        let takers: Vec<_> = takers.collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    })
}

fn check(servers: &[VeleroServer], prefix: &str, name: &str, taken: &[Value]) {
    let machine = servers[0].machine();
    let completed: Vec<usize> =
        (0..taken.len()).filter(|index| taken[*index]["status"]["phase"] == "Completed").collect();
    assert_eq!(completed.len(), 1, "{name}: both have the name, or none: {taken:#?}");
    let (winner, loser) = (completed[0], 1 - completed[0]);
    let status = &taken[loser]["status"];
    let reason = format!("{}{}", status["failureReason"], status["validationErrors"]);
    assert!(reason.contains(name), "{name}: the other one does not say why: {status}");

    let key = format!("{prefix}/backups/{name}/velero-backup.json");
    let stored = backups::object(machine, BUCKET, &key).unwrap().unwrap_or_else(|| panic!("no object {key}"));
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(stored["metadata"]["uid"], taken[winner]["metadata"]["uid"], "{name}: the files are not the winner's");
    let cluster = servers[winner].machine().read("/api/v1/namespaces/kube-system").unwrap();
    let noted = &stored["metadata"]["annotations"]["velero.io/source-cluster-uid"];
    assert_eq!(*noted, cluster["metadata"]["uid"], "{name}: the backup does not say which cluster made it");
    let archive = backups::archive(machine, BUCKET, prefix, name).unwrap();
    for number in 0..20 {
        let path = format!("resources/configmaps/namespaces/shop/map-{number}.json");
        let map: Value = serde_json::from_slice(archive.get(&path).unwrap_or_else(|| panic!("no {path}"))).unwrap();
        assert_eq!(map["data"]["cluster"], BOXES[winner], "{name}: {path}");
    }
}

#[test]
fn of_two_clusters_with_one_bucket_and_one_backup_name_one_has_it_whole_and_the_other_says_why() {
    let prefix = harness::unique_name("twins");
    for name in BOXES {
        TestBox::down(name).unwrap();
    }
    let servers: Vec<VeleroServer> = BOXES.iter().map(|name| start(name, &prefix)).collect();
    for round in 0..ROUNDS {
        let name = format!("nightly-{round}");
        let taken = take(&servers, &name);
        check(&servers, &prefix, &name, &taken);
    }
    for name in BOXES {
        TestBox::down(name).unwrap();
    }
}

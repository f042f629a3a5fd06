//! The rate a user allows the server is kept by a restore.

use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, load, objects};
use velero_tests::audit::{AuditLog, busiest_second};
use velero_tests::{backups, restores};

const ITEMS: usize = 1_500;
const RATE: usize = 100;
/// Requests wait on their way to the API server: a second may get some of the one before.
const TOLERANCE: usize = 10;
const SECOND: u64 = 1_000_000;

#[test]
fn a_restore_keeps_to_the_rate_of_the_client() {
    TestBox::down("rate").unwrap();
    harness::run("rate", BoxKind::ControlPlane, async |cluster| {
        let flags = vec![format!("--client-qps={RATE}")];
        let options = ServerOptions { prefix: harness::unique_name("rate"), flags, ..ServerOptions::default() };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
        let maps = (0..ITEMS).map(|index| objects::config_map("source", &format!("map-{index}"), "a", "b"));
        let all: Vec<Value> = [objects::namespace("source")].into_iter().chain(maps).collect();
        load::create_all(&cluster.client, all.into_iter()).await.unwrap();
        backups::create(&server, "slow", &json!({"includedNamespaces": ["source"]})).unwrap();
        backups::ended(&server, "slow", Duration::from_secs(300)).unwrap();

        let log = AuditLog::from_now(cluster.test_box.machine()).unwrap();
        restores::create(&server, "slow", &json!({"backupName": "slow", "namespaceMapping": {"source": "restored"}}))
            .unwrap();
        let restore = restores::ended(&server, "slow", Duration::from_secs(300)).unwrap();
        assert_eq!(restore["status"]["phase"], "Completed", "{}", restore["status"]);

        let mut requests = log.requests_of("velero-server").unwrap();
        requests.sort_by_key(|request| request.received);
        assert!(requests.len() >= ITEMS, "only {} requests", requests.len());
        assert!(busiest_second(&requests) <= RATE + TOLERANCE, "{} requests in one second", busiest_second(&requests));
        let begin = requests[0].received;
        let seconds = (requests[requests.len() - 1].received - begin) / SECOND;
        assert!(requests.len() <= RATE * (seconds as usize + 1), "{} requests in {seconds} s", requests.len());
    });
    TestBox::down("rate").unwrap();
}

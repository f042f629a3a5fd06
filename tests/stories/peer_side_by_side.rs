//! Two installations in one cluster, the original and ours, each with its node agents: nobody takes the other's work. And a
//! server whose node agents are the other's, as after an exchange of the server alone: they work for each other.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use velero_testkit::{BoxKind, Edition, TestBox, VeleroServer, harness, load, objects};
use velero_tests::audit::{AuditLog, Request};
use velero_tests::volume_data::{self, PATIENCE, claimed, empty_dir, movers, picture};
use velero_tests::{backups, restores};

const NAME: &str = "side-by-side";
const SHOP: &str = "shop";

/// A pod with a volume that is copied and a claim whose snapshot is moved.
fn workload() -> Vec<Value> {
    let wanted = json!({"backup.velero.io/backup-volumes": "scratch"});
    let volumes = json!([claimed("claim", "data"), empty_dir("scratch")]);
    vec![objects::namespace(SHOP), objects::claim(SHOP, "data"), volume_data::pod(SHOP, "web", &wanted, &volumes)]
}

fn pictures(server: &VeleroServer, namespace: &str) -> [String; 2] {
    ["claim", "scratch"].map(|volume| picture(server.machine(), namespace, "web", volume).unwrap())
}

fn begin_backup(server: &VeleroServer, name: &str) {
    backups::create(server, name, &json!({"includedNamespaces": [SHOP], "snapshotMoveData": true})).unwrap();
}

fn end_backup(server: &VeleroServer, name: &str) {
    let backup = backups::ended(server, name, PATIENCE).unwrap();
    let edition = server.edition();
    assert_eq!(backup["status"]["phase"], "Completed", "{edition:?}: {}\n{}", backup["status"], server.agent_log());
    for plural in ["podvolumebackups", "datauploads"] {
        let made = movers(server, plural, "velero.io/backup-name", name).unwrap();
        assert_eq!(made.len(), 1, "{plural} of {edition:?}");
        assert_eq!(made[0]["status"]["phase"], "Completed", "{:#}", made[0]);
    }
}

fn begin_restore(server: &VeleroServer, backup: &str) {
    restores::wait_for_backup(server, backup).unwrap();
    let spec = json!({"backupName": backup, "namespaceMapping": {SHOP: format!("{backup}-copy")}});
    restores::create(server, backup, &spec).unwrap();
}

fn end_restore(server: &VeleroServer, backup: &str, before: &[String; 2]) {
    let restore = restores::ended(server, backup, PATIENCE).unwrap();
    let edition = server.edition();
    assert_eq!(restore["status"]["phase"], "Completed", "{edition:?}: {}\n{}", restore["status"], server.agent_log());
    let copy = format!("{backup}-copy");
    volume_data::wait_for_pods(server.machine(), &copy, &["web"]).unwrap();
    assert_eq!(&pictures(server, &copy), before, "{backup} by {edition:?}");
}

/// The namespace that one who asks belongs to: pods have accounts, and servers, which run outside, tell their names.
fn installation_of<'a>(request: &Request, servers: [&'a VeleroServer; 2]) -> Option<&'a str> {
    let account = request.user.strip_prefix("system:serviceaccount:").and_then(|account| account.split(':').next());
    let is_of = |server: &&VeleroServer| match account {
        Some(namespace) => namespace == server.namespace(),
        // The original tells its system too.
        None => {
            let is_original = request.agent.contains("(linux/");
            request.agent.starts_with("velero") && is_original == (server.edition() == Edition::Peer)
        }
    };
    servers.into_iter().find(is_of).map(VeleroServer::namespace)
}

/// Whatever was changed in the namespace of one installation was not changed by the other, and by itself it was.
fn assert_nobody_took_the_others_work(requests: &[Request], servers: [&VeleroServer; 2]) {
    for server in servers {
        let own: Vec<&Request> = requests.iter().filter(|request| request.namespace == server.namespace()).collect();
        for request in &own {
            let from = installation_of(request, servers);
            assert!(from.is_none_or(|from| from == server.namespace()), "{request:?}");
        }
        let written: BTreeSet<(&str, &str)> = own
            .iter()
            .filter(|request| installation_of(request, servers).is_some())
            .map(|request| (request.verb.as_str(), request.resource.as_str()))
            .collect();
        for wanted in ["podvolumebackups.velero.io", "datauploads.velero.io", "pods"] {
            assert!(written.contains(&("create", wanted)), "who made {wanted} in {}? {written:?}", server.namespace());
        }
    }
}

#[test]
fn two_installations_leave_each_other_alone_and_servers_and_agents_of_both_kinds_work_together() {
    TestBox::down(NAME).unwrap();
    harness::run(NAME, BoxKind::Storage, async |cluster| {
        let machine = cluster.test_box.machine();
        load::create_all(&cluster.client, workload().into_iter()).await.unwrap();
        volume_data::wait_for_pods(machine, SHOP, &["web"]).unwrap();
        let prefix = harness::unique_name("side-by-side");
        let [ours, peer] = [Edition::Ours, Edition::Peer]
            .map(|edition| volume_data::server(&cluster.test_box, edition, &prefix).unwrap());
        let before = pictures(&ours, SHOP);

        let audit = AuditLog::from_now(machine).unwrap();
        let both = [(&ours, "by-ours"), (&peer, "by-peer")];
        both.iter().for_each(|(server, name)| begin_backup(server, name));
        both.iter().for_each(|(server, name)| end_backup(server, name));
        both.iter().for_each(|(server, name)| begin_restore(server, name));
        both.iter().for_each(|(server, name)| end_restore(server, name, &before));
        for (server, _) in both {
            volume_data::wait_for_no_left_overs(server).unwrap();
        }
        assert_nobody_took_the_others_work(&audit.requests().unwrap(), [&ours, &peer]);

        // The servers change places; the agents stay where they are.
        ours.stop().unwrap();
        peer.stop().unwrap();
        let with_agents_of_peer = peer.replaced_by(Edition::Ours).unwrap();
        let with_own_agents = ours.replaced_by(Edition::Peer).unwrap();
        let both = [(&with_agents_of_peer, "ours-with-theirs"), (&with_own_agents, "theirs-with-ours")];
        for (server, name) in both {
            begin_backup(server, name);
            end_backup(server, name);
            begin_restore(server, name);
            end_restore(server, name, &before);
            volume_data::wait_for_no_left_overs(server).unwrap();
            server.stop().unwrap();
        }
    });
    TestBox::down(NAME).unwrap();
}

//! Copies through pods: either server restores what the other has saved, and goes on where the other left off.

use serde_json::{Value, json};
use velero_testkit::{BoxKind, Edition, TestBox, VeleroServer, harness, load, objects};
use velero_tests::backups;
use velero_tests::volume_data::{self, PATIENCE, claimed, empty_dir, movers, picture, restored_beside};

const NAME: &str = "peer-copies";
const SHOP: &str = "shop";
const EDITIONS: [Edition; 2] = [Edition::Ours, Edition::Peer];

fn workload() -> Vec<Value> {
    let wanted = json!({"backup.velero.io/backup-volumes": "claim,scratch"});
    let volumes = json!([claimed("claim", "data"), empty_dir("scratch"), empty_dir("unwanted")]);
    vec![objects::namespace(SHOP), objects::claim(SHOP, "data"), volume_data::pod(SHOP, "web", &wanted, &volumes)]
}

/// Backs the namespace up by copies; gives the bytes that were new, by volume.
fn back_up(server: &VeleroServer, name: &str) -> Vec<(String, i64, i64)> {
    backups::create(server, name, &json!({"includedNamespaces": [SHOP], "snapshotVolumes": false})).unwrap();
    let backup = backups::ended(server, name, PATIENCE).unwrap();
    let editions = server.edition();
    assert_eq!(backup["status"]["phase"], "Completed", "{editions:?}: {}\n{}", backup["status"], server.agent_log());
    let copies = movers(server, "podvolumebackups", "velero.io/backup-name", name).unwrap();
    let mut sizes: Vec<_> = copies
        .iter()
        .map(|copy| {
            assert_eq!(copy["status"]["phase"], "Completed", "{copy}");
            let volume = copy["spec"]["volume"].as_str().unwrap_or_default().to_owned();
            let bytes = |value: &Value| value.as_i64().unwrap_or_default();
            (volume, bytes(&copy["status"]["progress"]["totalBytes"]), bytes(&copy["status"]["incrementalBytes"]))
        })
        .collect();
    sizes.sort();
    sizes
}

fn restore(server: &VeleroServer, backup: &str) -> [String; 2] {
    let namespace = restored_beside(server, backup, SHOP).unwrap();
    ["claim", "scratch"].map(|volume| picture(server.machine(), &namespace, "web", volume).unwrap())
}

#[test]
fn either_server_restores_the_copies_of_the_other_and_goes_on_with_its_repository() {
    TestBox::down(NAME).unwrap();
    harness::run(NAME, BoxKind::Storage, async |cluster| {
        let machine = cluster.test_box.machine();
        load::create_all(&cluster.client, workload().into_iter()).await.unwrap();
        volume_data::wait_for_pods(machine, SHOP, &["web"]).unwrap();
        let before = ["claim", "scratch"].map(|volume| picture(machine, SHOP, "web", volume).unwrap());

        let prefix = harness::unique_name("copies");
        let servers = EDITIONS.map(|edition| volume_data::server(&cluster.test_box, edition, &prefix).unwrap());
        let [ours, peer] = &servers;
        let first = back_up(ours, "ours-first");
        assert_eq!(first.len(), 2, "one copy for each volume that is asked for: {first:?}");
        assert!(first.iter().all(|(_, total, new)| total == new && *total > 5_000_000), "{first:?}");
        for (server, name) in [(peer, "peer-second"), (ours, "ours-third")] {
            let again = back_up(server, name);
            // The original counts the lengths of links against itself.
            assert!(again.iter().all(|(_, _, new)| *new <= 0), "{name} saved again what was there: {again:?}");
        }
        for (server, backup) in
            [(peer, "ours-first"), (peer, "ours-third"), (ours, "peer-second"), (ours, "ours-first")]
        {
            assert_eq!(restore(server, backup), before, "{backup} by {:?}", server.edition());
        }
        for server in &servers {
            volume_data::wait_for_no_left_overs(server).unwrap();
            server.stop().unwrap();
        }
    });
    TestBox::down(NAME).unwrap();
}

//! Volumes that are devices: either server restores the device whose snapshot the other has moved into a repository, byte for
//! byte, and stores nothing again that the other has stored.

use anyhow::Result;
use serde_json::{Value, json};
use velero_testkit::machine::Machine;
use velero_testkit::parts::BUCKET;
use velero_testkit::{BoxKind, Edition, TestBox, VeleroServer, harness, load, objects};
use velero_tests::volume_data::{self, PATIENCE, movers};
use velero_tests::{backups, restores};

const NAME: &str = "peer-devices";
const SHOP: &str = "shop";
const EDITIONS: [Edition; 2] = [Edition::Ours, Edition::Peer];
/// The size of the device.
const SIZE: i64 = 48 << 20;
/// What a backup stores at most that finds everything stored: lists, its own records.
const HARDLY_ANYTHING: u64 = 1 << 20;
/// What a small change may cost: the two longest pieces a device is cut into.
const SMALL_CHANGE: u64 = 17 << 20;

fn workload() -> Vec<Value> {
    let mut claim = objects::for_device(objects::claim(SHOP, "data"));
    claim["spec"]["resources"]["requests"]["storage"] = json!(SIZE.to_string());
    // What it writes is told to it later: a restored pod must find its bytes, not make them.
    let pod = objects::pod_with_device(SHOP, "web", "data", "sleep 100000");
    vec![objects::namespace(SHOP), claim, pod]
}

fn execute(machine: &Machine, namespace: &str, shell: &str) -> Result<String> {
    machine.kubectl(&["-n", namespace, "exec", "web", "--", "sh", "-c", shell])
}

/// Writes random bytes onto the device, pieces of 64 KiB from an offset in such pieces on.
fn write(machine: &Machine, from: u32, count: u32) {
    let write =
        format!("dd if=/dev/urandom of=/dev/data bs=64k seek={from} count={count} conv=notrunc,fsync 2>&1; sync");
    execute(machine, SHOP, &write).unwrap();
}

/// The hash of the whole device, and how long it is.
fn device(machine: &Machine, namespace: &str) -> String {
    execute(machine, namespace, "sha256sum < /dev/data; wc -c < /dev/data").unwrap()
}

/// Backs the namespace up and moves its snapshot; gives the bytes that came into the repository.
fn back_up(server: &VeleroServer, prefix: &str, name: &str) -> u64 {
    let repository = format!("{prefix}/kopia/{SHOP}/");
    let before = backups::stored_bytes(server.machine(), BUCKET, &repository).unwrap();
    backups::create(server, name, &json!({"includedNamespaces": [SHOP], "snapshotMoveData": true})).unwrap();
    let backup = backups::ended(server, name, PATIENCE).unwrap();
    let uploads = movers(server, "datauploads", "velero.io/backup-name", name).unwrap();
    let edition = server.edition();
    let agents = server.agent_log();
    assert_eq!(backup["status"]["phase"], "Completed", "{edition:?}: {}\n{uploads:#?}\n{agents}", backup["status"]);
    let [upload] = &uploads[..] else { panic!("{} DataUploads for one volume", uploads.len()) };
    let status = &upload["status"];
    assert_eq!(
        (&status["phase"], &status["progress"]["totalBytes"]),
        (&json!("Completed"), &json!(SIZE)),
        "{upload:#}"
    );
    volume_data::wait_for_no_left_overs(server).unwrap();
    backups::stored_bytes(server.machine(), BUCKET, &repository).unwrap().saturating_sub(before)
}

fn restore(server: &VeleroServer, backup: &str) -> String {
    let edition = format!("{:?}", server.edition()).to_lowercase();
    let namespace = format!("{edition}-of-{backup}");
    restores::wait_for_backup(server, backup).unwrap();
    let spec = json!({"backupName": backup, "namespaceMapping": {SHOP: namespace}});
    restores::create(server, &namespace, &spec).unwrap();
    let restore = restores::ended(server, &namespace, PATIENCE).unwrap();
    let downloads = movers(server, "datadownloads", "velero.io/restore-name", &namespace).unwrap();
    let agents = server.agent_log();
    assert_eq!(restore["status"]["phase"], "Completed", "{namespace}: {}\n{downloads:#?}\n{agents}", restore["status"]);
    volume_data::wait_for_pods(server.machine(), &namespace, &["web"]).unwrap();
    volume_data::wait_for_no_left_overs(server).unwrap();
    let device = device(server.machine(), &namespace);
    server.machine().kubectl(&["delete", "namespace", &namespace, "--wait=false"]).unwrap();
    device
}

#[test]
fn either_server_restores_the_device_of_the_other_and_goes_on_with_its_repository() {
    TestBox::down(NAME).unwrap();
    harness::run(NAME, BoxKind::Storage, async |cluster| {
        let machine = cluster.test_box.machine();
        load::create_all(&cluster.client, workload().into_iter()).await.unwrap();
        volume_data::wait_for_pods(machine, SHOP, &["web"]).unwrap();
        // The end of the device stays empty.
        write(machine, 0, 640);
        let first = device(machine, SHOP);
        let prefix = harness::unique_name("devices");
        let servers = EDITIONS.map(|edition| volume_data::server(&cluster.test_box, edition, &prefix).unwrap());
        let [ours, peer] = &servers;

        let new = back_up(ours, &prefix, "ours-first");
        assert!(new > 40 << 20, "only {new} bytes were stored");
        let new = back_up(peer, &prefix, "peer-second");
        assert!(new < HARDLY_ANYTHING, "the original stored {new} bytes again");
        // At the end of what was written: all that comes behind a change may be cut at other places than before.
        write(machine, 638, 2);
        let changed = device(machine, SHOP);
        assert_ne!(first, changed);
        let new = back_up(peer, &prefix, "peer-third");
        assert!(new < SMALL_CHANGE, "the original stored {new} bytes for a small change");
        let new = back_up(ours, &prefix, "ours-fourth");
        assert!(new < HARDLY_ANYTHING, "ours stored {new} bytes again");

        for (server, backup, device) in [
            (peer, "ours-first", &first),
            (peer, "ours-fourth", &changed),
            (ours, "peer-second", &first),
            (ours, "peer-third", &changed),
            (ours, "ours-first", &first),
        ] {
            assert_eq!(&restore(server, backup), device, "{backup} by {:?}", server.edition());
        }
        for server in &servers {
            server.stop().unwrap();
        }
    });
    TestBox::down(NAME).unwrap();
}

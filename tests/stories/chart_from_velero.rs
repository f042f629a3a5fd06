//! A release of Velero's own chart, with a schedule that runs every minute, becomes one of ours and Velero's again: no
//! backup is missed and none is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use velero_testkit::image::Image;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{BUCKET, Images};
use velero_testkit::server::credentials_file;
use velero_testkit::{BoxKind, Edition, TestBox, Tool, harness, load, objects};
use velero_tests::command_line::CommandLine;
use velero_tests::helm::{Helm, chart, image, veleros_chart};

const NAMESPACE: &str = "velero";
/// The image of the original: the version we compare with, under the name that its chart 12.1.0 gives it too.
const PEER_IMAGES: [&str; 2] = ["docker.io/velero/velero:v1.18.3", "docker.io/velero/velero:v1.18.1"];
const PLUGIN_IMAGE: &str = "docker.io/velero/velero-plugin-for-aws:v1.14.3";
const MINUTE: i64 = 60;

/// The values file of somebody who uses Velero's chart.
fn values() -> Value {
    json!({
        "initContainers": [{
            "name": "velero-plugin-for-aws", "image": PLUGIN_IMAGE, "imagePullPolicy": "IfNotPresent",
            "volumeMounts": [{"mountPath": "/target", "name": "plugins"}],
        }],
        "configuration": {
            "backupStorageLocation": [{
                "name": "default", "provider": "aws", "bucket": BUCKET, "default": true,
                "prefix": harness::unique_name("from-velero"),
                "credential": {"name": "velero", "key": "cloud"},
                "config": {
                    "region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": TestBox::store_url_for_pods(),
                },
            }],
        },
        "snapshotsEnabled": false,
        "credentials": {"secretContents": {"cloud": credentials_file()}},
        "schedules": {"minutely": {
            "schedule": "* * * * *", "template": {"includedNamespaces": ["shop"], "ttl": "24h"},
        }},
    })
}

fn load_images(machine: &Machine) {
    let plugin = Image::new(PLUGIN_IMAGE)
        .file(Path::new("/usr/bin/busybox"), "bin/busybox")
        .file(&Tool::VeleroPluginForAws.path().unwrap(), "plugins/velero-plugin-for-aws")
        .entrypoint(&["/bin/busybox", "cp", "/plugins/velero-plugin-for-aws", "/target/velero-plugin-for-aws"])
        .user("65532:65532");
    let server = |name: &str, edition: Edition| Image::of_velero(name, &edition.binary().unwrap()).unwrap();
    let [peer, older] = PEER_IMAGES.map(|name| server(name, Edition::Peer));
    for made in [plugin, peer, older, server(&image(), Edition::Ours)] {
        let archive = machine.state().join("image.tar");
        made.write(&archive).unwrap();
        Images::load(machine, &archive).unwrap();
        fs::remove_file(&archive).unwrap();
    }
}

/// The backups of the schedule: when each was made, and its phase.
fn backups(machine: &Machine) -> anyhow::Result<BTreeMap<String, (Timestamp, String)>> {
    let items = machine.items(&format!("/apis/velero.io/v1/namespaces/{NAMESPACE}/backups"))?;
    let read = |backup: &Value| -> anyhow::Result<(String, (Timestamp, String))> {
        let text = |pointer: &str| backup.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok((text("/metadata/name"), (text("/metadata/creationTimestamp").parse()?, text("/status/phase"))))
    };
    items.iter().map(read).collect()
}

/// Waits for a backup made after now and gives all there are.
fn wait_for_another(machine: &Machine) -> BTreeMap<String, (Timestamp, String)> {
    let now = Timestamp::now();
    let mut found = BTreeMap::new();
    wait_until("another backup of the schedule", Duration::from_secs(150), || {
        found = backups(machine)?;
        let newest = found.values().filter(|(made, _)| *made >= now).max();
        anyhow::ensure!(newest.is_some_and(|(_, phase)| phase == "Completed"), "{newest:?}");
        Ok(())
    })
    .unwrap_or_else(|problem| panic!("{problem:#}\n{}", server_log(machine)));
    found
}

fn server_log(machine: &Machine) -> String {
    let told = |arguments: &[&str]| machine.kubectl(arguments).unwrap_or_else(|error| error.to_string());
    told(&["-n", NAMESPACE, "get", "pods"]) + &told(&["-n", NAMESPACE, "logs", "deployment/velero", "--tail=40"])
}

/// The next backup falls due while no server is there.
fn wait_for_the_end_of_a_minute() {
    let second = Timestamp::now().as_second().rem_euclid(MINUTE);
    let pause = (57 - second).rem_euclid(MINUTE);
    sleep(Duration::from_secs(pause.unsigned_abs()));
}

fn server_image(machine: &Machine) -> String {
    let path = "-o=jsonpath={.items[*].spec.containers[0].image}";
    machine.kubectl(&["-n", NAMESPACE, "get", "pods", "-l=name=velero", path]).unwrap()
}

/// Every minute from the first backup on has one, all are completed, and what was there before is there.
fn none_is_missed_or_lost(
    found: &BTreeMap<String, (Timestamp, String)>,
    before: &BTreeMap<String, (Timestamp, String)>,
) {
    for name in before.keys() {
        assert!(found.contains_key(name), "{name} is lost: {found:?}");
    }
    let minutes: Vec<i64> = {
        let mut minutes: Vec<i64> = found.values().map(|(made, _)| made.as_second().div_euclid(MINUTE)).collect();
        minutes.sort_unstable();
        minutes
    };
    let (Some(first), Some(last)) = (minutes.first(), minutes.last()) else { panic!("no backup") };
    for minute in *first..=*last {
        let count = minutes.iter().filter(|made| **made == minute).count();
        assert!(count >= 1, "no backup of minute {minute}: {found:#?}");
    }
    for (name, (_, phase)) in found {
        assert_eq!(phase, "Completed", "{name}: {found:#?}");
    }
}

/// One server restores what the other has saved.
fn restores(machine: &Machine, edition: Edition, backup: &str, into: &str) {
    let mapping = format!("shop:{into}");
    let create =
        ["-n", NAMESPACE, "restore", "create", into, "--from-backup", backup, "--namespace-mappings", &mapping];
    let velero = CommandLine::new(machine, edition);
    let told = velero.velero(&[&create[..], &["--wait"]].concat()).unwrap();
    assert!(told.contains("Restore completed with status: Completed"), "{told}");
    machine.kubectl(&["-n", into, "get", "configmap/stock"]).unwrap();
}

fn goes_over_and_back(machine: &Machine) {
    let helm = Helm::of(machine);
    let values = values();
    let [theirs, ours] = [veleros_chart(), chart()].map(|chart| chart.display().to_string());
    let within = ["--namespace", NAMESPACE, "--wait", "--timeout=180s"];
    helm.run(&[&["install", "velero", &theirs, "--create-namespace"][..], &within].concat(), Some(&values)).unwrap();
    let by_theirs = wait_for_another(machine);
    assert!(PEER_IMAGES.contains(&server_image(machine).as_str()));

    wait_for_the_end_of_a_minute();
    helm.run(&[&["upgrade", "velero", &ours][..], &within].concat(), Some(&values)).unwrap();
    assert_eq!(server_image(machine), image());
    let by_ours = wait_for_another(machine);
    none_is_missed_or_lost(&by_ours, &by_theirs);
    restores(machine, Edition::Ours, by_theirs.keys().next().unwrap(), "restored-by-ours");

    wait_for_the_end_of_a_minute();
    helm.run(&[&["rollback", "velero", "1"][..], &within].concat(), None).unwrap();
    assert!(PEER_IMAGES.contains(&server_image(machine).as_str()));
    let after_rollback = wait_for_another(machine);
    none_is_missed_or_lost(&after_rollback, &by_ours);
    let of_ours = by_ours.iter().filter(|(name, _)| !by_theirs.contains_key(*name)).max_by_key(|(_, (made, _))| *made);
    restores(machine, Edition::Peer, of_ours.unwrap().0, "restored-by-theirs");

    // Over again without naming values, which are those of the release, and back by an upgrade.
    helm.run(&[&["upgrade", "velero", &ours][..], &within].concat(), None).unwrap();
    let by_ours = wait_for_another(machine);
    wait_for_the_end_of_a_minute();
    helm.run(&[&["upgrade", "velero", &theirs][..], &within].concat(), Some(&values)).unwrap();
    assert!(PEER_IMAGES.contains(&server_image(machine).as_str()));
    let in_the_end = wait_for_another(machine);
    none_is_missed_or_lost(&in_the_end, &by_ours);
    eprintln!("{} backups, one a minute, in four changes of the server", in_the_end.len());
}

#[test]
#[ignore = "takes some eight minutes: backups are made once a minute"]
fn a_release_of_veleros_chart_goes_over_and_back_and_no_backup_is_missed_or_lost() {
    TestBox::down("from-velero").unwrap();
    harness::run("from-velero", BoxKind::Whole, async |cluster| {
        let machine = cluster.test_box.machine();
        let shop = [objects::namespace("shop"), objects::config_map("shop", "stock", "apples", "12")];
        load::create_all(&cluster.client, shop.into_iter()).await.unwrap();
        load_images(machine);
        goes_over_and_back(machine);
    });
    TestBox::down("from-velero").unwrap();
}

//! A release of Velero's own chart, with a schedule that runs every minute, becomes one of ours and Velero's again: no
//! backup is missed and none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use velero_api::annotations::RETRIED_AS;
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
/// How many seconds a server that has begun may take to look at its schedules.
const FIRST_LOOK: i64 = 15;

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

/// The backups of the schedule, by name.
type Backups = BTreeMap<String, Taken>;

/// What is known of a backup of the schedule.
#[derive(Debug)]
struct Taken {
    made: Timestamp,
    phase: String,
    /// The one that was made in its place, where the change of servers cut it short.
    again: String,
}

fn backups(machine: &Machine) -> anyhow::Result<Backups> {
    let items = machine.items(&format!("/apis/velero.io/v1/namespaces/{NAMESPACE}/backups"))?;
    let read = |backup: &Value| -> anyhow::Result<(String, Taken)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &backup["metadata"];
        let made: Timestamp = text(&metadata["creationTimestamp"]).parse()?;
        let again = text(&metadata["annotations"][RETRIED_AS]);
        Ok((text(&metadata["name"]), Taken { made, phase: text(&backup["status"]["phase"]), again }))
    };
    items.iter().map(read).collect()
}

/// Waits for a backup made after now and until none is under way, and gives all there are.
fn wait_for_another(machine: &Machine) -> Backups {
    let now = Timestamp::now();
    let mut found = BTreeMap::new();
    wait_until("another backup of the schedule", Duration::from_secs(150), || {
        found = backups(machine)?;
        let newest = found.values().filter(|backup| backup.made >= now).max_by_key(|backup| backup.made);
        anyhow::ensure!(newest.is_some_and(|backup| backup.phase == "Completed"), "{newest:?}");
        let has_ended = |backup: &Taken| ["Completed", "Failed", "PartiallyFailed"].contains(&backup.phase.as_str());
        anyhow::ensure!(found.values().all(has_ended), "{found:#?}");
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

/// A change of servers: when it was asked for, and when the new server began, in seconds since 1970.
struct Exchange {
    asked: i64,
    begun: i64,
}

impl Exchange {
    /// Whether a minute passed from its first to its last second without a server: what fell due in it is taken together with
    /// what fell due in the next.
    fn covers(&self, minute: i64) -> bool {
        self.asked <= minute * MINUTE && (minute + 1) * MINUTE <= self.begun + FIRST_LOOK
    }
}

/// Has Helm change the server.
fn exchange(machine: &Machine, arguments: &[&str], values: Option<&Value>) -> Exchange {
    let within = ["--namespace", NAMESPACE, "--wait", "--timeout=300s"];
    let asked = Timestamp::now().as_second();
    Helm::of(machine).run(&[arguments, &within].concat(), values).unwrap();
    let pods = machine.items(&format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=name%3Dvelero")).unwrap();
    let began = pods.iter().filter_map(|pod| {
        let began = pod.pointer("/status/containerStatuses/0/state/running/startedAt")?;
        began.as_str()?.parse::<Timestamp>().ok()
    });
    let begun = began.max().expect("a server runs").as_second();
    eprintln!("helm {}: the next server began after {} s", arguments[0], begun - asked);
    Exchange { asked, begun }
}

/// Whether a backup is complete, or the one that was made in its place.
fn is_taken(found: &Backups, name: &str) -> bool {
    found.get(name).is_some_and(|backup| backup.phase == "Completed" || is_taken(found, &backup.again))
}

/// Every minute from the first backup on has one, all are completed or taken again, and what was there before is there.
fn none_is_missed_or_lost(found: &Backups, before: &Backups, exchanges: &[Exchange]) {
    for name in before.keys() {
        assert!(found.contains_key(name), "{name} is lost: {found:?}");
    }
    let minutes: BTreeSet<i64> = found.values().map(|backup| backup.made.as_second().div_euclid(MINUTE)).collect();
    let (Some(first), Some(last)) = (minutes.first(), minutes.last()) else { panic!("no backup") };
    for minute in *first..=*last {
        let is_excused = exchanges.iter().any(|exchange| exchange.covers(minute));
        assert!(minutes.contains(&minute) || is_excused, "no backup of minute {minute}: {found:#?}");
    }
    for name in found.keys() {
        assert!(is_taken(found, name), "{name} is not completed: {found:#?}");
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
    let values = values();
    let [theirs, ours] = [veleros_chart(), chart()].map(|chart| chart.display().to_string());
    exchange(machine, &["install", "velero", &theirs, "--create-namespace"], Some(&values));
    let by_theirs = wait_for_another(machine);
    assert!(PEER_IMAGES.contains(&server_image(machine).as_str()));

    wait_for_the_end_of_a_minute();
    let mut exchanges = vec![exchange(machine, &["upgrade", "velero", &ours], Some(&values))];
    assert_eq!(server_image(machine), image());
    let by_ours = wait_for_another(machine);
    none_is_missed_or_lost(&by_ours, &by_theirs, &exchanges);
    restores(machine, Edition::Ours, newest_completed(&by_theirs, &Backups::new()), "restored-by-ours");

    wait_for_the_end_of_a_minute();
    exchanges.push(exchange(machine, &["rollback", "velero", "1"], None));
    assert!(PEER_IMAGES.contains(&server_image(machine).as_str()));
    let after_rollback = wait_for_another(machine);
    none_is_missed_or_lost(&after_rollback, &by_ours, &exchanges);
    restores(machine, Edition::Peer, newest_completed(&by_ours, &by_theirs), "restored-by-theirs");

    // Over again without naming values, which are those of the release, and back by an upgrade.
    exchanges.push(exchange(machine, &["upgrade", "velero", &ours], None));
    let by_ours = wait_for_another(machine);
    wait_for_the_end_of_a_minute();
    exchanges.push(exchange(machine, &["upgrade", "velero", &theirs], Some(&values)));
    assert!(PEER_IMAGES.contains(&server_image(machine).as_str()));
    let in_the_end = wait_for_another(machine);
    none_is_missed_or_lost(&in_the_end, &by_ours, &exchanges);
    eprintln!("{} backups, one a minute, in four changes of the server", in_the_end.len());
}

/// The newest completed backup that is not among others.
fn newest_completed<'a>(found: &'a Backups, others: &Backups) -> &'a str {
    let new = found.iter().filter(|(name, backup)| !others.contains_key(*name) && backup.phase == "Completed");
    new.max_by_key(|(_, backup)| backup.made).expect("a backup is completed").0
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

//! Either server restores what the other backed up, on another cluster, to the same objects.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::parts::CLAIMS_EVERY;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, load};
use velero_tests::picture::Picture;
use velero_tests::restores::{self, Ending};
use velero_tests::{backups, fixture, workloads};

const SOURCE: &str = "cross-source";
const TARGET: &str = "cross-target";
const BACKUP: &str = "all";
/// All use the same boxes.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn server(test_box: &TestBox, edition: Edition, prefix: &str) -> VeleroServer {
    let flags = vec!["--backup-sync-period=2s".into()];
    let namespace = format!("velero-{}", format!("{edition:?}").to_lowercase());
    let options = ServerOptions { prefix: prefix.into(), namespace, flags, ..ServerOptions::default() };
    VeleroServer::up(test_box, edition, options).unwrap()
}

/// The namespaces of the fixtures, and the cluster-scoped objects of every sort.
fn everything() -> Value {
    let namespaces: Vec<&str> = fixture::NAMESPACES.iter().copied().filter(|name| *name != "hidden").collect();
    let namespaces = [namespaces, vec![workloads::WORK, workloads::SIDE]].concat();
    let types = [
        "customresourcedefinitions",
        "clusterroles",
        "clusterrolebindings",
        "persistentvolumes",
        "storageclasses",
        "priorityclasses",
        "ingressclasses",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "gadgets.example.com",
    ];
    json!({"includedNamespaces": namespaces, "includedClusterScopedResources": types})
}

async fn back_up(cluster: TestCluster, prefixes: [(Edition, String); 2]) {
    load::create_all(&cluster.client, fixture::objects().into_iter()).await.unwrap();
    workloads::create(cluster.test_box.machine()).unwrap();
    for namespace in ["alpha", "beta"] {
        workloads::wait_for_claim(cluster.test_box.machine(), namespace, "data").unwrap();
    }
    for (edition, prefix) in prefixes {
        let server = server(&cluster.test_box, edition, &prefix);
        backups::create(&server, BACKUP, &everything()).unwrap();
        let backup = backups::ended(&server, BACKUP, Duration::from_secs(120)).unwrap();
        assert_eq!(backup["status"]["phase"], "Completed", "by {edition:?}: {}", backup["status"]);
        server.stop().unwrap();
    }
}

/// Restores on a new cluster, once as it was and once more under other names.
fn restore(reader: Edition, writer: Edition, prefix: &str) -> (Vec<Ending>, Picture) {
    TestBox::down(TARGET).unwrap();
    let target = TestBox::up(TARGET, BoxKind::ControlPlane).unwrap();
    let server = server(&target, reader, prefix);
    restores::wait_for_backup(&server, BACKUP).unwrap();
    let mapped = json!({"alpha": "alpha-moved", (workloads::WORK): "work-moved"});
    let specs = [
        json!({"backupName": BACKUP, "includeClusterResources": true}),
        json!({"backupName": BACKUP, "includedNamespaces": ["alpha", workloads::WORK], "namespaceMapping": mapped}),
    ];
    let endings = specs.iter().enumerate().map(|(index, spec)| {
        let name = format!("{reader:?}-{writer:?}-{index}").to_lowercase();
        restores::run(&server, prefix, &name, spec).unwrap()
    });
    let endings = endings.collect();
    // The controllers answer what was restored; a claim that missed its volume is looked at again and again.
    std::thread::sleep(CLAIMS_EVERY * 3);
    let picture = Picture::take(target.machine()).unwrap();
    server.stop().unwrap();
    (endings, picture)
}

#[test]
fn either_server_restores_what_the_other_backed_up_to_the_same_objects() {
    compare(&[(Edition::Peer, Edition::Ours), (Edition::Ours, Edition::Peer)]);
}

#[test]
#[ignore = "what ours restores of ours is looked at by many others; begun with --thorough"]
fn ours_restores_what_ours_backed_up_to_the_same_objects_as_the_original_its_own() {
    compare(&[(Edition::Ours, Edition::Ours)]);
}

/// Has one backup each restored by both, or by one, and compares with what the original makes of its own.
fn compare(pairs: &[(Edition, Edition)]) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for name in [SOURCE, TARGET] {
        TestBox::down(name).unwrap();
    }
    let run = harness::unique_name("cross");
    let prefix = |edition: Edition| format!("{run}/{edition:?}").to_lowercase();
    let prefixes = [Edition::Ours, Edition::Peer].map(|edition| (edition, prefix(edition)));
    harness::run(SOURCE, BoxKind::ControlPlane, move |cluster| back_up(cluster, prefixes));

    let (expected, expected_picture) = restore(Edition::Peer, Edition::Peer, &prefix(Edition::Peer));
    assert!(expected_picture.0.len() > 150, "only {} objects were restored", expected_picture.0.len());
    let mut wrong = Vec::new();
    for &(reader, writer) in pairs {
        let (endings, picture) = restore(reader, writer, &prefix(writer));
        let pair = format!("{reader:?} restores what {writer:?} backed up");
        for (index, (ending, expected)) in endings.iter().zip(&expected).enumerate() {
            let known = [restores::RACES, restores::OF_EVERY_CLUSTER].concat();
            let found = restores::differences(ending, expected, &known);
            wrong.extend(found.into_iter().map(|line| format!("{pair}, restore {index}: {line}")));
        }
        let found = picture.differences(&expected_picture);
        wrong.extend(found.into_iter().map(|line| format!("{pair}: {line}")));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    for name in [SOURCE, TARGET] {
        TestBox::down(name).unwrap();
    }
}

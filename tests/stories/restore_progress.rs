//! The progress of a restore is true: the total is known from the start, and nothing ever goes back.

use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, load};
use velero_tests::{backups, restores};

const ITEMS: usize = 12_000;
const PODS: usize = 60;
/// Updates come about once a second; a machine with other work to do may be late.
const LONGEST_SILENCE: Duration = Duration::from_secs(4);

/// One state of the restore as a watcher sees it.
#[derive(Clone, Debug)]
struct Seen {
    at: Instant,
    phase: String,
    total: Option<u64>,
    restored: u64,
}

fn seen(restore: &Value) -> Seen {
    let progress = &restore["status"]["progress"];
    Seen {
        at: Instant::now(),
        phase: restore["status"]["phase"].as_str().unwrap_or_default().to_owned(),
        total: progress["totalItems"].as_u64(),
        restored: progress["itemsRestored"].as_u64().unwrap_or_default(),
    }
}

/// Watches a restore until it has ended, beginning with a version of before it was made.
async fn watch(api: Api<DynamicObject>, name: String, mut version: String) -> Vec<Seen> {
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut all: Vec<Seen> = Vec::new();
    // The API server may end a watch at any time; a watcher goes on where it was.
    loop {
        let mut events = api.watch(&parameters, &version).await.unwrap().boxed();
        while let Some(event) = events.next().await {
            let object = match event.unwrap() {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => object,
                WatchEvent::Error(status) => panic!("the watch of {name} fails: {status:?}"),
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => continue,
            };
            version = object.metadata.resource_version.clone().unwrap_or_default();
            all.push(seen(&object.data));
            if all.last().is_some_and(|last| backups::ENDED.contains(&last.phase.as_str())) {
                return all;
            }
        }
    }
}

/// Restores while somebody watches.
async fn watched(cluster: &TestCluster, server: &VeleroServer, name: &str, spec: &Value) -> Vec<Seen> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", "v1", "Restore"));
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), server.namespace(), &resource);
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap_or_default();
    let watcher = tokio::spawn(watch(api, name.to_owned(), version));
    restores::create(server, name, spec).unwrap();
    let all = watcher.await.unwrap();
    assert_eq!(all.last().unwrap().phase, "Completed", "{all:#?}");
    all
}

/// The states that tell a progress; it never goes back, and at the end nothing is left.
fn progress(all: &[Seen]) -> Vec<(u64, u64)> {
    let states: Vec<(u64, u64)> =
        all.iter().filter_map(|seen| seen.total.map(|total| (total, seen.restored))).collect();
    for pair in states.windows(2) {
        assert!(pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1, "the progress goes back: {pair:?}");
    }
    assert!(states.iter().all(|(total, restored)| restored <= total), "more than all: {states:?}");
    let last = states.last().unwrap_or_else(|| panic!("no progress in {all:#?}"));
    assert_eq!(last.0, last.1, "something is left at the end");
    states
}

fn back_up(server: &VeleroServer, name: &str, namespaces: &[String]) {
    backups::create(server, name, &json!({"includedNamespaces": namespaces})).unwrap();
    let backup = backups::ended(server, name, Duration::from_secs(300)).unwrap();
    assert_eq!(backup["status"]["phase"], "Completed", "{}", backup["status"]);
}

fn start(cluster: &TestCluster) -> VeleroServer {
    let options = ServerOptions { prefix: harness::unique_name("progress"), ..ServerOptions::default() };
    VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap()
}

#[test]
fn a_watcher_sees_the_total_at_once_and_a_step_every_second() {
    TestBox::down("progress").unwrap();
    harness::run("progress", BoxKind::ControlPlane, async |cluster| {
        let server = start(&cluster);
        let namespaces = load::objects(&cluster.client, "source", ITEMS, 4).await.unwrap();
        back_up(&server, "many", &namespaces);
        let mapping: serde_json::Map<String, Value> =
            namespaces.iter().map(|name| (name.clone(), json!(format!("restored-{name}")))).collect();
        let all = watched(&cluster, &server, "many", &json!({"backupName": "many", "namespaceMapping": mapping})).await;

        let states = progress(&all);
        let totals: Vec<u64> = states.iter().map(|(total, _)| *total).collect();
        assert!(totals[0] >= ITEMS as u64, "the backup has {ITEMS} items and more, the first total is {}", totals[0]);
        assert!(
            totals.iter().all(|total| *total == totals[0]),
            "no action returns items, yet the total moves: {totals:?}"
        );
        let first = all.iter().find(|seen| seen.total.is_some()).unwrap();
        assert!(first.restored < first.total.unwrap() / 2, "the first update comes late: {first:?}");
        let running: Vec<&Seen> =
            all.iter().filter(|seen| seen.phase == "InProgress" && seen.total.is_some()).collect();
        for pair in running.windows(2) {
            let silence = pair[1].at - pair[0].at;
            assert!(silence <= LONGEST_SILENCE, "no update for {silence:?} after {:?}", pair[0]);
        }
    });
    TestBox::down("progress").unwrap();
}

#[test]
fn the_total_grows_by_exactly_the_items_that_actions_return() {
    TestBox::down("progress-grows").unwrap();
    harness::run("progress-grows", BoxKind::ControlPlane, async |cluster| {
        let server = start(&cluster);
        load::pods_with_claims(&cluster.client, "source", PODS).await.unwrap();
        back_up(&server, "pods", &["source".to_owned()]);
        // Only the pods have the label: each brings its claim along.
        let selector = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
        let spec = json!({"backupName": "pods", "labelSelector": selector, "namespaceMapping": {"source": "restored"}});
        let states = progress(&watched(&cluster, &server, "pods", &spec).await);
        let (first, last) = (states[0].0, states.last().unwrap().0);
        let pods = PODS as u64;
        assert!((pods..=1 + 2 * pods).contains(&first), "{pods} pods are planned, the first total is {first}");
        assert_eq!(last, 1 + 2 * pods, "the namespace, {pods} pods and as many claims");
        let claims = server.machine().names_at("/api/v1/namespaces/restored/persistentvolumeclaims").unwrap();
        assert_eq!(claims.len(), PODS);
    });
    TestBox::down("progress-grows").unwrap();
}

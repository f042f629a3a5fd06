//! Traces as the code of a real collector reads them: each backup and restore is a tree of its stages. Without a collector the work
//! goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::parts::WORKLOAD_IMAGE;
use velero_testkit::{
    BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, install, load, objects,
};
use velero_tests::otlp_receiver::{self, OtlpReceiver, Span};
use velero_tests::{backups, restores};

const BOX: &str = "traced";
const SHOP: &str = "shop";
const PATIENCE: Duration = Duration::from_secs(120);

/// A pod with a hook before and one after, which fails.
fn hooked_pod() -> Value {
    let shell = |command: &str| json!(["sh", "-c", command]).to_string();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": SHOP, "annotations": {
            "pre.hook.backup.velero.io/command": shell("true"),
            "post.hook.backup.velero.io/command": shell("exit 3"),
            "post.hook.backup.velero.io/on-error": "Continue",
            "post.hook.restore.velero.io/command": shell("true"),
            "post.hook.restore.velero.io/container": "main",
        }},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "100000"],
            }],
        },
    })
}

/// Items of which the example plugin says that there is still something to do.
fn slow_item(number: usize) -> Value {
    let mut object = objects::config_map(SHOP, &format!("item-{number}"), "state", "as it was");
    object["metadata"]["labels"] = json!({"example.velero.io/plugin": "yes"});
    object["metadata"]["annotations"] = json!({"example.velero.io/operation": "takes=1s"});
    object
}

fn server(cluster: &TestCluster) -> VeleroServer {
    let options = ServerOptions {
        prefix: harness::unique_name("traced"),
        flags: vec!["--item-operation-sync-frequency=1s".into(), otlp_receiver::flag()],
        plugins: vec![install::package_binary("velero-plugin-example", "velero-plugin-example", "dev").unwrap()],
        ..ServerOptions::default()
    };
    VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap()
}

/// The trace of an object that has ended, once all of this has come: each span as the names on the way to it.
fn trace(receiver: &OtlpReceiver, object: &Value, expected: &[&str]) -> Vec<Span> {
    let uid = object["metadata"]["uid"].as_str().unwrap();
    let mut spans = Vec::new();
    wait_until("the trace to come", PATIENCE, || {
        spans = receiver.spans(uid)?;
        let paths = paths(&spans);
        let missing: Vec<_> = expected.iter().filter(|path| !paths.contains(**path)).collect();
        ensure!(missing.is_empty(), "{missing:#?} are missing in {paths:#?}");
        Ok(())
    })
    .unwrap();
    spans
}

/// Each span as the names on the way to it.
fn paths(spans: &[Span]) -> BTreeSet<String> {
    let path = |span: &Span| {
        let (mut path, mut at) = (span.name.clone(), span);
        while let Some(around) = spans.iter().find(|around| around.id == at.parent) {
            path = format!("{} > {path}", around.name);
            at = around;
        }
        path
    };
    spans.iter().map(path).collect()
}

/// Every span is inside the whole, and has a time that can be.
fn assert_sound(spans: &[Span], object: &Value) {
    let whole: Vec<_> = spans.iter().filter(|span| span.parent.is_empty()).collect();
    let [whole] = whole[..] else { panic!("one whole: {whole:?}") };
    for (attribute, pointer) in [
        ("velero.name", "/metadata/name"),
        ("velero.namespace", "/metadata/namespace"),
        ("velero.uid", "/metadata/uid"),
        ("velero.phase", "/status/phase"),
    ] {
        let expected = object.pointer(pointer).and_then(Value::as_str);
        assert_eq!(whole.attributes.get(attribute).map(String::as_str), expected, "{attribute}");
    }
    assert_eq!(whole.failed, object["status"]["phase"] != "Completed");
    for span in spans {
        assert!(span.times.0 <= span.times.1, "{span:?}");
        assert!(whole.times.0 <= span.times.0, "{span:?} begins before {whole:?}");
        assert!(span.id == whole.id || spans.iter().any(|around| around.id == span.parent), "{span:?} is nowhere");
    }
}

fn a_backup_is_a_tree_of_its_stages(server: &VeleroServer, receiver: &OtlpReceiver) {
    backups::create(server, "whole", &json!({"includedNamespaces": [SHOP]})).unwrap();
    let backup = backups::ended(server, "whole", PATIENCE).unwrap();
    assert_eq!(backup["status"]["phase"], "PartiallyFailed", "the hook after it fails: {}", backup["status"]);
    let spans = trace(
        receiver,
        &backup,
        &[
            "backup",
            "backup > reserve",
            "backup > plugins",
            "backup > plan",
            "backup > items",
            "backup > items > list pods",
            "backup > items > list configmaps",
            "backup > items > action example.velero.io/backup",
            "backup > items > hook",
            "backup > archive",
            "backup > volumes",
            "backup > upload",
            "backup > files",
            "backup > operations",
            "backup > finalize",
        ],
    );
    assert_sound(&spans, &backup);
    let hooks: BTreeSet<_> = spans.iter().filter(|span| span.name == "hook").map(hook).collect();
    assert_eq!(hooks, [("pre", "shop/web", false), ("post", "shop/web", true)].into());
    let acted = spans.iter().find(|span| span.name == "action example.velero.io/backup").unwrap();
    assert_eq!(acted.attributes["velero.calls"], "3", "one span for all items");
    let items = spans.iter().find(|span| span.name == "items").unwrap();
    let told = backup["status"]["progress"]["itemsBackedUp"].as_i64().unwrap();
    assert_eq!(items.attributes["velero.items"], told.to_string());
    let operations = spans.iter().find(|span| span.name == "operations").unwrap();
    assert_eq!(operations.attributes["velero.operations"], "3");
}

fn hook(span: &Span) -> (&str, &str, bool) {
    (&span.attributes["velero.hook_phase"], &span.attributes["velero.pod"], span.failed)
}

fn a_restore_is_a_tree_of_its_stages(server: &VeleroServer, receiver: &OtlpReceiver) {
    let spec = json!({"backupName": "whole", "namespaceMapping": {SHOP: "shop-2"}});
    restores::create(server, "back", &spec).unwrap();
    let restore = restores::ended(server, "back", PATIENCE).unwrap();
    assert_eq!(restore["status"]["phase"], "Completed", "{}", restore["status"]);
    let spans = trace(
        receiver,
        &restore,
        &[
            "restore",
            "restore > plugins",
            "restore > read",
            "restore > plan",
            "restore > items",
            "restore > items > restore configmaps",
            "restore > items > restore pods",
            "restore > items > restore pods > hooks",
            "restore > items > action example.velero.io/restore",
            "restore > volumes",
            "restore > files",
        ],
    );
    assert_sound(&spans, &restore);
    let pods = spans.iter().find(|span| span.name == "restore pods").unwrap();
    assert_eq!(pods.attributes["velero.items"], "1");
}

fn without_a_collector_the_work_goes_on(server: &VeleroServer, receiver: &OtlpReceiver) {
    receiver.stop().unwrap();
    backups::create(server, "alone", &json!({"includedNamespaces": [SHOP], "includedResources": ["secrets"]})).unwrap();
    let backup = backups::ended(server, "alone", PATIENCE).unwrap();
    assert_eq!(backup["status"]["phase"], "Completed", "{}", backup["status"]);
    let lost = "velero_trace_spans_total{fate=\"lost\"}";
    wait_until("the spans to be given up", PATIENCE, || {
        let metrics = server.machine().run("curl", ["--silent", "--fail", "http://127.0.0.1:8086/metrics"])?;
        let value = metrics.lines().find_map(|line| line.strip_prefix(lost));
        ensure!(value.is_some_and(|value| value.trim() != "0"), "{value:?}");
        Ok(())
    })
    .unwrap();
    let log = std::fs::read_to_string(server.log()).unwrap();
    assert_eq!(log.matches("Traces are not taken").count(), 1, "said once: {log}");
}

#[test]
fn each_backup_and_restore_is_a_trace_and_a_collector_that_is_away_hinders_nothing() {
    TestBox::down(BOX).unwrap();
    harness::run(BOX, BoxKind::Whole, async |cluster| {
        let receiver = OtlpReceiver::start(cluster.test_box.machine()).unwrap();
        let server = server(&cluster);
        let items = [objects::namespace(SHOP), hooked_pod()].into_iter().chain((0..3).map(slow_item));
        load::create_all(&cluster.client, items).await.unwrap();
        let wait = ["-n", SHOP, "wait", "--for=condition=Ready", "--timeout=120s", "pod/web"];
        server.machine().kubectl(&wait).unwrap();
        a_backup_is_a_tree_of_its_stages(&server, &receiver);
        a_restore_is_a_tree_of_its_stages(&server, &receiver);
        without_a_collector_the_work_goes_on(&server, &receiver);
        server.stop().unwrap();
    });
    TestBox::down(BOX).unwrap();
}

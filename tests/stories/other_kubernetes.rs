//! A Kubernetes that is older than that of the other stories, and one that is newer: what users do every day works there
//! too, without an error or a warning, and what they are told is true.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use velero_api::annotations::{SOURCE_CLUSTER_GIT_VERSION, SOURCE_CLUSTER_MINOR_VERSION};
use velero_testkit::machine::wait_until;
use velero_testkit::parts::BUCKET;
use velero_testkit::{Edition, KubernetesRelease, ServerOptions, TestBox, VeleroServer, harness, objects};
use velero_tests::difference::differences;
use velero_tests::restores::{self, is_a_race, item_key};
use velero_tests::{backups, csi};

const PATIENCE: Duration = Duration::from_secs(120);
const SHOP: &str = "shop";
const COPY: &str = "shop-copy";
const BACKUP: &str = "first";
const SCHEDULE: &str = "often";
const DEFINITION: &str = "orders.shop.example.com";

/// What of the shop is looked at again, by its group and its name there.
const LOOKED_AT: [(&str, &str); 5] = [
    ("/apis/apps/v1", "deployments/web"),
    ("/api/v1", "configmaps/stock"),
    ("/api/v1", "secrets/keys"),
    ("/api/v1", "services/web"),
    ("/apis/shop.example.com/v1", "orders/apples"),
];

/// A control plane of another release, with our server.
struct Scene {
    release: KubernetesRelease,
    server: VeleroServer,
}

impl Scene {
    fn new(name: &str, release: KubernetesRelease) -> Self {
        TestBox::down(name).unwrap();
        let test_box = TestBox::up_with_kubernetes(name, release).unwrap();
        let options = ServerOptions { prefix: harness::unique_name(name), ..ServerOptions::default() };
        let server = VeleroServer::up(&test_box, Edition::Ours, options).unwrap();
        Self { release, server }
    }

    fn velero(&self, arguments: &[&str]) -> String {
        self.server.velero(arguments).unwrap()
    }

    fn kubectl(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        self.server.machine().kubectl(&words).unwrap()
    }

    /// Something of each sort, and a ConfigMap that the filters of the backup leave out.
    fn make_shop(&self) {
        let mut spare = objects::config_map(SHOP, "spare", "plums", "4");
        spare["metadata"]["labels"] = json!({"tier": "spare"});
        let in_shop = |name: &str| json!({"name": name, "namespace": SHOP});
        let all = [
            objects::namespace(SHOP),
            definition(),
            objects::deployment(SHOP, "web", 0, "sleep 1000"),
            objects::config_map(SHOP, "stock", "apples", "<3> & more"),
            spare,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": in_shop("keys"), "data": {"key": "dmFsdWU="}}),
            objects::service(SHOP, "web", 80),
        ];
        let machine = self.server.machine();
        for object in all {
            machine.apply(&object.to_string()).unwrap();
        }
        machine.wait_for_definition(DEFINITION).unwrap();
        let order = json!({
            "apiVersion": "shop.example.com/v1", "kind": "Order", "metadata": in_shop("apples"), "spec": {"count": 3},
        });
        machine.apply(&order.to_string()).unwrap();
    }

    /// The shop in a namespace, without what is new whenever it is made.
    fn shop_in(&self, namespace: &str) -> Vec<Value> {
        let read = |(group, object): (&str, &str)| {
            let path = format!("{group}/namespaces/{namespace}/{object}");
            essence(&self.server.machine().read(&path).unwrap())
        };
        LOOKED_AT.into_iter().map(read).collect()
    }

    /// The Events about objects of the server, each as kind, name, type and reason.
    fn events(&self) -> Result<BTreeSet<String>> {
        let line = |event: &Value| {
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let about = format!("{} {}", text("/regarding/kind"), text("/regarding/name"));
            format!("{about} {} {}", text("/type"), text("/reason"))
        };
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.server.namespace());
        Ok(self.server.machine().items(&path)?.iter().map(line).collect())
    }
}

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": DEFINITION},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"kind": "Order", "plural": "orders", "singular": "order"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// What is the same of an object wherever and whenever it is made.
fn essence(object: &Value) -> Value {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let own = labels.filter(|(key, _)| !key.starts_with("velero.io/"));
    let own: Map<String, Value> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut essence = object.clone();
    essence["metadata"] = json!({"name": object["metadata"]["name"], "labels": own});
    essence["status"] = Value::Null;
    if let Some(spec) = essence.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    essence
}

/// The words of a line of a table.
fn words(table: &str, line: usize) -> Vec<&str> {
    table.lines().nth(line).unwrap_or_default().split_whitespace().collect()
}

/// Fails unless a backup or restore is Completed, without errors and warnings.
fn assert_untroubled(object: &Value) {
    let status = &object["status"];
    assert_eq!(status["phase"], "Completed", "{status:#}");
    for count in ["errors", "warnings"] {
        assert_eq!(status[count].as_u64().unwrap_or_default(), 0, "{count}: {status:#}");
    }
}

fn everybody_knows_the_release(scene: &Scene) {
    let version = scene.release.version();
    assert_eq!(scene.server.machine().read("/version").unwrap()["gitVersion"], version);
    let versions: Value = serde_json::from_str(&scene.kubectl("version -o json")).unwrap();
    for side in ["clientVersion", "serverVersion"] {
        assert_eq!(versions[side]["gitVersion"], version, "{versions:#}");
    }
    let report = scene.velero(&["bug"]);
    assert!(report.contains(&format!("- Kubernetes: {version}\n")), "{report}");
}

fn the_server_is_ready(scene: &Scene) {
    wait_until("the server to be ready", PATIENCE, || {
        let said = scene.server.velero(&["server", "status"])?;
        ensure!(said.contains("\tStatus: Ready\n"), "{said}");
        Ok(())
    })
    .unwrap();
    let said = scene.velero(&["version"]);
    assert!(said.contains("Server:\n") && said.contains("\tStatus: Ready\n"), "{said}");
}

fn a_backup_holds_what_its_filters_say(scene: &Scene) {
    let create = ["backup", "create", BACKUP, "--include-namespaces", SHOP, "--selector", "tier!=spare"];
    let filters = ["--exclude-resources", "endpoints,endpointslices.discovery.k8s.io", "--wait"];
    let said = scene.velero(&[&create[..], &filters].concat());
    assert!(said.contains("Backup completed with status: Completed"), "{said}");
    scene.kubectl(&format!("-n velero wait --for=condition=Completed backups.velero.io/{BACKUP} --timeout=60s"));
    let backup = scene.server.object("backups", BACKUP).unwrap();
    assert_untroubled(&backup);
    let annotations = &backup["metadata"]["annotations"];
    assert_eq!(annotations[SOURCE_CLUSTER_GIT_VERSION], scene.release.version());
    assert_eq!(annotations[SOURCE_CLUSTER_MINOR_VERSION], scene.release.minor());

    let described = scene.velero(&["backup", "describe", BACKUP, "--details"]);
    for piece in ["Phase:  Completed", "shop/web", "shop/stock", "shop/keys", "shop/apples", DEFINITION] {
        assert!(described.contains(piece), "no {piece:?} in\n{described}");
    }
    assert!(!described.contains("shop/spare"), "{described}");
    let listed = scene.velero(&["backup", "get", BACKUP]);
    assert!(words(&listed, 1).starts_with(&[BACKUP, "Completed", "0", "0"]), "{listed}");
    let listed = scene.kubectl(&format!("-n velero get backups.velero.io {BACKUP}"));
    assert_eq!(words(&listed, 0), ["NAME", "STATUS", "ERRORS", "WARNINGS", "STARTED", "AGE"]);
    assert!(words(&listed, 1).starts_with(&[BACKUP, "Completed"]), "{listed}");
}

fn a_schedule_makes_backups(scene: &Scene) {
    scene.velero(&["schedule", "create", SCHEDULE, "--schedule=@every 5s", "--include-namespaces", SHOP]);
    scene.kubectl(&format!("-n velero wait --for=condition=Enabled schedules.velero.io/{SCHEDULE} --timeout=60s"));
    let path = format!("{}?labelSelector=velero.io%2Fschedule-name%3D{SCHEDULE}", scene.server.path("backups"));
    let machine = scene.server.machine();
    wait_until("a backup of the schedule", PATIENCE, || {
        ensure!(!machine.names_at(&path)?.is_empty(), "none is made, the log: {}", scene.server.log().display());
        Ok(())
    })
    .unwrap();
    scene.velero(&["schedule", "pause", SCHEDULE]);
    for name in machine.names_at(&path).unwrap() {
        assert_untroubled(&backups::ended(&scene.server, &name, PATIENCE).unwrap());
    }
}

/// Nothing is left of the shop, nor of the type that it brought.
fn lose_the_shop(scene: &Scene) {
    scene.kubectl(&format!("delete namespace {SHOP}"));
    scene.kubectl(&format!("delete customresourcedefinition {DEFINITION}"));
}

fn a_restore_does_what_its_dry_run_says(scene: &Scene, name: &str, into: &str, lost: &[Value]) {
    let mapping = format!("{SHOP}:{into}");
    let mapped = ["--namespace-mappings", mapping.as_str()];
    let flags: &[&str] = if into == SHOP { &[] } else { &mapped };
    let restore = |name: &str, last: &[&str]| {
        let create = ["restore", "create", name, "--from-backup", BACKUP];
        scene.velero(&[&create[..], flags, last].concat())
    };
    let plan: Value = serde_json::from_str(&restore(&format!("{name}-plan"), &["--dry-run", "-o", "json"])).unwrap();
    let planned = plan["items"].as_array().unwrap().iter().filter(|item| item["action"] == "create").map(item_key);
    let planned: BTreeSet<String> = planned.filter(|item| !is_a_race(item)).collect();

    let said = restore(name, &["--wait"]);
    assert!(said.contains("Restore completed with status: Completed"), "{said}");
    scene.kubectl(&format!("-n velero wait --for=condition=Completed restores.velero.io/{name} --timeout=60s"));
    assert_untroubled(&scene.server.object("restores", name).unwrap());
    let ending = restores::ending(&scene.server, &scene.server.options().prefix, name).unwrap();
    assert!(ending.messages.is_empty(), "{:#?}", ending.messages);
    let created = ending.items_that_were("created").into_iter().filter(|item| !is_a_race(item)).map(str::to_owned);
    assert_eq!(created.collect::<BTreeSet<String>>(), planned);

    let found = scene.shop_in(into);
    let changed: Vec<String> = found.iter().zip(lost).flat_map(|(found, lost)| differences(found, lost)).collect();
    assert!(changed.is_empty(), "{into}: {changed:#?}");
    let spare = format!("/api/v1/namespaces/{into}/configmaps/spare");
    assert_eq!(scene.server.machine().read_if_there(&spare).unwrap(), None);
}

fn events_tell_what_happened(scene: &Scene) {
    let ended = [("Backup", BACKUP), ("Restore", "copied"), ("Restore", "back")];
    let both = |(kind, name): (&str, &str)| ["Started", "Completed"].map(|end| format!("{kind} {name} Normal {end}"));
    let mut expected: BTreeSet<String> = ended.into_iter().flat_map(both).collect();
    expected.insert(format!("Schedule {SCHEDULE} Normal BackupSubmitted"));
    expected.insert("BackupStorageLocation default Normal Available".to_owned());
    wait_until("the Events", PATIENCE, || {
        let told = scene.events()?;
        ensure!(told.is_superset(&expected), "of {expected:#?}\nthere are {told:#?}");
        Ok(())
    })
    .unwrap();
    let told = scene.events().unwrap();
    assert!(!told.iter().any(|event| event.contains(" Warning ")), "{told:#?}");
}

fn a_deleted_backup_leaves_no_file(scene: &Scene) {
    csi::delete(&scene.server, BACKUP).unwrap();
    let folder = format!("{}/backups/{BACKUP}/", scene.server.options().prefix);
    let left = backups::keys(scene.server.machine(), BUCKET, &folder).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

fn users_do_their_work(name: &str, release: KubernetesRelease) {
    let scene = Scene::new(name, release);
    everybody_knows_the_release(&scene);
    scene.make_shop();
    let shop = scene.shop_in(SHOP);
    a_backup_holds_what_its_filters_say(&scene);
    a_schedule_makes_backups(&scene);
    lose_the_shop(&scene);
    a_restore_does_what_its_dry_run_says(&scene, "copied", COPY, &shop);
    a_restore_does_what_its_dry_run_says(&scene, "back", SHOP, &shop);
    the_server_is_ready(&scene);
    events_tell_what_happened(&scene);
    a_deleted_backup_leaves_no_file(&scene);
    let log = fs::read_to_string(scene.server.log()).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    TestBox::down(name).unwrap();
}

#[test]
#[ignore = "its control plane is built first, which takes minutes; begun with --thorough"]
fn users_do_their_work_on_a_kubernetes_five_versions_back() {
    users_do_their_work("older-kubernetes", KubernetesRelease::Older);
}

#[test]
#[ignore = "its control plane is built first, which takes minutes; begun with --thorough"]
fn users_do_their_work_on_a_kubernetes_one_version_ahead() {
    users_do_their_work("newer-kubernetes", KubernetesRelease::Newer);
}

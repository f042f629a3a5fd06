//! The ConfigMap of the node agents in a cluster: of fifty volumes no more are moved or prepared at a time than it says, the pods
//! and claims of all four kinds are as it says, and a repository is maintained by a Job.

use std::collections::HashMap;

use anyhow::ensure;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::{Api, Client};
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::v1::PodVolumeBackup;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{STORAGE_CLASS, WORKLOAD_IMAGE};
use velero_testkit::{BoxKind, Edition, TestBox, VeleroServer, harness, load, objects};
use velero_tests::volume_data::{self, PATIENCE, claimed, empty_dir, movers, picture};
use velero_tests::watched::Watched;
use velero_tests::{backups, restores};

const NAME: &str = "agent-config";
const SHOP: &str = "shop";
const MANY: &str = "many";
/// How many small volumes there are.
const VOLUMES: usize = 50;
/// How many of them may move at a time, and how many may be prepared.
const AT_ONCE: usize = 3;
const PREPARED: usize = 5;
/// A class whose volumes are made with the first pod.
const LATE: &str = "late";
const MAINTENANCE: &str = "maintenance";

fn agent_settings(node: &str) -> Value {
    json!({
        "loadConcurrency": {
            "globalConfig": AT_ONCE + 4,
            "perNodeConfig": [
                {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": node}}, "number": AT_ONCE},
                {"nodeSelector": {"matchExpressions": [{"key": "moves", "operator": "Exists"}]}, "number": AT_ONCE + 2},
                {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "another"}}, "number": 1},
            ],
            "prepareQueueLength": PREPARED,
        },
        "loadAffinity": [{"nodeSelector": {"matchLabels": {"moves": "data"}}}],
        "backupPVC": {LATE: {
            "storageClass": STORAGE_CLASS, "readOnly": true, "annotations": {"shop/of": "a-snapshot"},
            "secretNames": ["driver-key"], "configMapNames": ["driver-settings"],
        }},
        "restorePVC": {"ignoreDelayBinding": true},
        "cachePVC": {"storageClass": STORAGE_CLASS, "residentThresholdInMB": 1},
        // The node of the box says nothing of its disk, so nothing can be asked for there.
        "podResources": {"cpuRequest": "5m", "cpuLimit": "2", "memoryRequest": "24Mi", "memoryLimit": "600Mi"},
        "priorityClassName": "movers",
        "podLabels": {"team": "storage"},
        "podAnnotations": {"team/mail": "storage@example.com"},
        "privilegedFsBackup": true,
    })
}

fn small_volumes() -> Vec<Value> {
    let names: Vec<String> = (0..VOLUMES).map(|number| format!("volume-{number}")).collect();
    let volumes: Vec<Value> = names.iter().map(|name| empty_dir(name)).collect();
    let mounts: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "mountPath": format!("/volumes/{name}")})).collect();
    let fill = "for volume in /volumes/*; do echo $volume > $volume/name; done; touch /tmp/ready; sleep 100000";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": MANY},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", fill],
                "volumeMounts": mounts,
                "readinessProbe": {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1},
            }],
            "volumes": volumes,
        },
    });
    vec![objects::namespace(MANY), pod]
}

/// The classes, and a shop: a pod with a claim whose snapshot is moved, and one with a volume that is copied.
fn shop() -> Vec<Value> {
    let late = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": LATE},
        "provisioner": velero_testkit::DRIVER_NAME, "volumeBindingMode": "WaitForFirstConsumer",
    });
    let priority = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "movers"}, "value": 1000,
    });
    let mut claim = objects::claim(SHOP, "data");
    claim["spec"]["storageClassName"] = json!(LATE);
    let key = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "driver-key", "namespace": SHOP},
        "stringData": {"key": "open sesame"},
    });
    let wanted = json!({"backup.velero.io/backup-volumes": "scratch"});
    vec![
        late,
        priority,
        objects::namespace(SHOP),
        claim,
        key,
        objects::config_map(SHOP, "driver-settings", "speed", "slow"),
        volume_data::pod(SHOP, "web", &json!({}), &json!([claimed("claim", "data")])),
        volume_data::pod(SHOP, "notes", &wanted, &json!([empty_dir("scratch")])),
    ]
}

/// What was watched in the namespace of the server.
struct Seen {
    copies: Watched,
    pods: Watched,
    claims: Watched,
    secrets: Watched,
    config_maps: Watched,
}

impl Seen {
    fn begin(client: &Client, namespace: &str) -> Self {
        Self {
            copies: Watched::begin(Api::<PodVolumeBackup>::namespaced(client.clone(), namespace)),
            pods: Watched::begin(Api::<Pod>::namespaced(client.clone(), namespace)),
            claims: Watched::begin(Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace)),
            secrets: Watched::begin(Api::<Secret>::namespaced(client.clone(), namespace)),
            config_maps: Watched::begin(Api::<ConfigMap>::namespaced(client.clone(), namespace)),
        }
    }

    /// The pods that had a label, as they were first seen.
    fn pods_with(&self, label: &str) -> Vec<Value> {
        let mut found = HashMap::new();
        for pod in self.pods.seen().unwrap() {
            if pod["metadata"]["labels"][label].is_string() {
                found.entry(pod["metadata"]["uid"].to_string()).or_insert(pod);
            }
        }
        found.into_values().collect()
    }

    fn claim(&self, name: &str) -> Value {
        let found = self.claims.seen().unwrap().into_iter().find(|claim| claim["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no claim {name} was seen"))
    }
}

fn back_up(server: &VeleroServer, name: &str, spec: &Value) {
    backups::create(server, name, spec).unwrap();
    let backup = backups::ended(server, name, PATIENCE).unwrap();
    assert_eq!(backup["status"]["phase"], "Completed", "{}\n{}", backup["status"], server.agent_log());
}

fn restore(server: &VeleroServer, name: &str, spec: &Value) {
    restores::create(server, name, spec).unwrap();
    let restore = restores::ended(server, name, PATIENCE).unwrap();
    assert_eq!(restore["status"]["phase"], "Completed", "{}\n{}", restore["status"], server.agent_log());
}

/// The most objects that were in one of these phases at the same time.
fn most_at_once(changes: &[Value], phases: &[&str]) -> usize {
    let mut there = HashMap::new();
    let mut most = 0;
    for change in changes {
        let phase = change["status"]["phase"].as_str().unwrap_or_default();
        let counts = change["deleted"].is_null() && phases.contains(&phase);
        there.insert(change["metadata"]["name"].to_string(), counts);
        most = most.max(there.values().filter(|counts| **counts).count());
    }
    most
}

fn fifty_volumes_wait_for_their_turn(server: &VeleroServer, seen: &Seen) {
    back_up(server, MANY, &json!({"includedNamespaces": [MANY], "defaultVolumesToFsBackup": true}));
    let copies = movers(server, "podvolumebackups", "velero.io/backup-name", MANY).unwrap();
    assert_eq!(copies.len(), VOLUMES);
    for copy in &copies {
        assert_eq!(copy["status"]["phase"], "Completed", "{copy:#}");
    }
    let changes = seen.copies.seen().unwrap();
    assert_eq!(most_at_once(&changes, &["InProgress", "Canceling"]), AT_ONCE);
    let prepared = most_at_once(&changes, &["Accepted", "Prepared"]);
    assert!((1..=PREPARED).contains(&prepared), "{prepared} were prepared at a time");
}

/// What every pod that moves data has from the ConfigMap.
fn check_pod(pod: &Value) {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    assert_eq!(metadata["labels"]["team"], "storage", "{pod:#}");
    assert_eq!(metadata["labels"][labels::EXCLUDE_FROM_BACKUP], "true", "{pod:#}");
    assert_eq!(metadata["annotations"]["team/mail"], "storage@example.com", "{pod:#}");
    assert_eq!((&spec["priorityClassName"], &spec["priority"]), (&json!("movers"), &json!(1000)), "{pod:#}");
    let wanted = json!({
        "requests": {"cpu": "5m", "memory": "24Mi"},
        "limits": {"cpu": "2", "memory": "600Mi"},
    });
    assert_eq!(spec["containers"][0]["resources"], wanted, "{pod:#}");
}

fn is_placed_by_label(pod: &Value) -> bool {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let wanted = json!({"key": "moves", "operator": "In", "values": ["data"]});
    required["nodeSelectorTerms"][0]["matchExpressions"].as_array().is_some_and(|found| found.contains(&wanted))
}

fn is_privileged(pod: &Value) -> bool {
    pod["spec"]["containers"][0]["securityContext"]["privileged"] == true
}

/// The claim of its cache, where a pod has one and is told of it.
fn cache_of(pod: &Value) -> Option<&str> {
    let volumes = pod["spec"]["volumes"].as_array()?;
    let cache = volumes.iter().find(|volume| volume["name"] == "cachedir")?;
    let arguments = pod["spec"]["containers"][0]["args"].as_array()?;
    assert!(arguments.contains(&json!("--cache-volume-path=/cachedir")), "{pod:#}");
    cache["persistentVolumeClaim"]["claimName"].as_str()
}

fn only(mut pods: Vec<Value>, what: &str) -> Value {
    assert_eq!(pods.len(), 1, "pods of {what}");
    let pod = pods.remove(0);
    check_pod(&pod);
    pod
}

fn a_snapshot_is_moved_through_a_claim_as_configured(server: &VeleroServer, seen: &Seen) {
    back_up(server, SHOP, &json!({"includedNamespaces": [SHOP], "snapshotMoveData": true}));
    volume_data::wait_for_no_left_overs(server).unwrap();
    let pod = only(seen.pods_with(labels::DATA_UPLOAD), "uploads");
    assert!(is_placed_by_label(&pod) && !is_privileged(&pod), "{pod:#}");
    let name = pod["metadata"]["name"].as_str().unwrap();
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"], json!({"claimName": name, "readOnly": true}));
    let claim = seen.claim(name);
    assert_eq!(claim["spec"]["storageClassName"], STORAGE_CLASS, "{claim:#}");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadOnlyMany"]), "{claim:#}");
    assert_eq!(claim["metadata"]["annotations"]["shop/of"], "a-snapshot", "{claim:#}");
    for (copies, name) in [(&seen.secrets, "driver-key"), (&seen.config_maps, "driver-settings")] {
        wait_until("the copy to go", PATIENCE, || {
            let copies: Vec<Value> =
                copies.seen()?.into_iter().filter(|copy| copy["metadata"]["name"] == name).collect();
            ensure!(copies.first().is_some_and(|copy| !copy["data"].is_null()), "{name} was not copied");
            ensure!(copies.last().is_some_and(|copy| copy["deleted"] == true), "the copy of {name} is left");
            Ok(())
        })
        .unwrap();
    }
    let copied = seen.pods_with(labels::POD_VOLUME_BACKUP);
    assert_eq!(copied.len(), VOLUMES + 1);
    for pod in &copied {
        check_pod(pod);
        assert!(is_privileged(pod) && cache_of(pod).is_none(), "{pod:#}");
    }
}

/// Nothing but the mover uses the claim: its volume would never be made if the agent waited for that.
fn a_claim_is_filled_before_anybody_uses_it(server: &VeleroServer, seen: &Seen) {
    let machine = server.machine();
    let spec = json!({
        "backupName": SHOP, "excludedResources": ["pods"], "namespaceMapping": {SHOP: "claims"},
    });
    restore(server, "claims", &spec);
    volume_data::wait_for_no_left_overs(server).unwrap();
    let pod = only(seen.pods_with(labels::DATA_DOWNLOAD), "downloads");
    assert!(is_placed_by_label(&pod) && !is_privileged(&pod), "{pod:#}");
    let cache = seen.claim(cache_of(&pod).expect("a download has a cache"));
    assert_eq!(cache["spec"]["storageClassName"], STORAGE_CLASS, "{cache:#}");
    let web = volume_data::pod("claims", "web", &json!({}), &json!([claimed("claim", "data")]));
    machine.apply(&web.to_string()).unwrap();
    volume_data::wait_for_pods(machine, "claims", &["web"]).unwrap();
    let pictures = [SHOP, "claims"].map(|namespace| picture(machine, namespace, "web", "claim").unwrap());
    assert_eq!(pictures[0], pictures[1]);
}

fn a_volume_of_a_pod_is_filled_as_configured(server: &VeleroServer, seen: &Seen) {
    let machine = server.machine();
    let spec = json!({
        "backupName": SHOP, "labelSelector": {"matchLabels": {"app": "notes"}}, "namespaceMapping": {SHOP: "notes"},
    });
    restore(server, "notes", &spec);
    volume_data::wait_for_no_left_overs(server).unwrap();
    let pod = only(seen.pods_with(labels::POD_VOLUME_RESTORE), "restores of volumes of pods");
    assert!(is_privileged(&pod) && cache_of(&pod).is_some(), "{pod:#}");
    volume_data::wait_for_pods(machine, "notes", &["notes"]).unwrap();
    let pictures = [SHOP, "notes"].map(|namespace| picture(machine, namespace, "notes", "scratch").unwrap());
    assert_eq!(pictures[0], pictures[1]);
}

fn a_repository_is_maintained_by_a_job(server: &VeleroServer, seen: &Seen) {
    let machine = server.machine();
    let repositories = machine.items(&server.path("backuprepositories")).unwrap();
    let repository = repositories.iter().find(|repository| repository["spec"]["volumeNamespace"] == SHOP).unwrap();
    let name = repository["metadata"]["name"].as_str().unwrap();
    let often = r#"{"spec":{"maintenanceFrequency":"1s"}}"#;
    machine
        .kubectl(&["-n", server.namespace(), "patch", "backuprepository", name, "--type=merge", "-p", often])
        .unwrap();
    wait_until("the maintenance", PATIENCE, || {
        let status = server.object("backuprepositories", name)?["status"].clone();
        let runs = status["recentMaintenance"].as_array().cloned().unwrap_or_default();
        ensure!(!runs.is_empty(), "{status:#}");
        for run in runs {
            assert_eq!(run["result"], "Succeeded", "{status:#}");
        }
        Ok(())
    })
    .unwrap();
    let pods = seen.pods_with(labels::REPOSITORY_NAME);
    let pod = pods.first().expect("the pod of a Job");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "Job", "{pod:#}");
    assert_eq!(pod["metadata"]["labels"]["team"], "upkeep", "{pod:#}");
    assert_eq!(pod["spec"]["priorityClassName"], "movers", "{pod:#}");
    assert!(is_placed_by_label(pod), "{pod:#}");
    let wanted = json!({"requests": {"cpu": "7m"}, "limits": {"memory": "700Mi"}});
    let resources = &pod["spec"]["containers"][0]["resources"];
    assert_eq!((&resources["requests"]["cpu"], &resources["limits"]), (&wanted["requests"]["cpu"], &wanted["limits"]));
}

fn server(test_box: &TestBox, machine: &Machine) -> VeleroServer {
    let nodes = machine.items("/api/v1/nodes").unwrap();
    let node = nodes[0]["metadata"]["name"].as_str().unwrap();
    machine.kubectl(&["label", "node", node, "moves=data"]).unwrap();
    let jobs = json!({
        "loadAffinity": [{"nodeSelector": {"matchLabels": {"moves": "data"}}}],
        "podResources": {"cpuRequest": "7m", "memoryLimit": "700Mi"},
        "priorityClassName": "movers",
        "podLabels": {"team": "upkeep"},
    });
    let namespace = "velero-ours";
    machine.apply(&objects::namespace(namespace).to_string()).unwrap();
    machine.apply(&objects::config_map(namespace, MAINTENANCE, "global", &jobs.to_string()).to_string()).unwrap();
    let flags = ["--fs-backup-timeout=20m", &format!("--repo-maintenance-job-configmap={MAINTENANCE}")];
    let prefix = harness::unique_name("agent-config");
    volume_data::set_up_server(test_box, Edition::Ours, &prefix, &flags, &agent_settings(node)).unwrap()
}

#[test]
fn what_the_config_map_of_the_agents_says_holds_for_every_pod_that_moves_data() {
    TestBox::down(NAME).unwrap();
    harness::run(NAME, BoxKind::Storage, async |cluster| {
        let machine = cluster.test_box.machine();
        load::create_all(&cluster.client, shop().into_iter().chain(small_volumes())).await.unwrap();
        let server = server(&cluster.test_box, machine);
        let seen = Seen::begin(&cluster.client, server.namespace());
        volume_data::wait_for_pods(machine, MANY, &["pod"]).unwrap();
        volume_data::wait_for_pods(machine, SHOP, &["web", "notes"]).unwrap();
        fifty_volumes_wait_for_their_turn(&server, &seen);
        a_snapshot_is_moved_through_a_claim_as_configured(&server, &seen);
        a_claim_is_filled_before_anybody_uses_it(&server, &seen);
        a_volume_of_a_pod_is_filled_as_configured(&server, &seen);
        a_repository_is_maintained_by_a_job(&server, &seen);
        server.stop().unwrap();
    });
    TestBox::down(NAME).unwrap();
}

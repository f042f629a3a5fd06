//! Pods with data in volumes of every kind, pictures of that data, and servers with node agents to save it.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::WORKLOAD_IMAGE;
use velero_testkit::{Edition, ServerOptions, TestBox, VeleroServer, objects};

use crate::restores;

/// How long a backup or restore with data may take.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// The password of the repositories that both editions share in these tests.
const PASSWORD: &str = "a-password-of-tests";
/// The ConfigMap that says how busy node agents may be, and how many volumes are then moved at once.
const AGENT_SETTINGS: &str = "node-agent-settings";
const AT_ONCE: u32 = 6;

/// What a volume holds: modes, owners, links, empty and large files, odd names.
const FILL: &str = r#"cd "$1" && test -e done || {
mkdir -p deep/er/est empty 'with space' && echo hello > deep/er/est/hello && : > nothing
head -c 300000 /dev/urandom > large && head -c 70000 /dev/urandom > 'with space/ünïcode'
dd if=/dev/urandom of=sparse bs=1 count=10 seek=5000000 2>/dev/null
ln -s deep/er/est/hello link && ln -s /nowhere dangling
chmod 0640 nothing && chmod 04755 large && chown 1234:5678 deep/er && touch -d '2001-02-03 04:05:06' large && chmod 0700 empty
touch done; }"#;

/// Prints everything about what lies in a volume.
const PICTURE: &str = r#"cd "$1" && find . -mindepth 1 -name .velero -prune -o -mindepth 1 -print | sort | while read -r file; do
stat -c '%n|%f|%u|%g' "$file"; test -h "$file" && readlink "$file"; test -d "$file" || stat -c '%s|%Y' "$file"; done
find . -type f ! -path './.velero/*' -exec sha256sum {} + | sort"#;

/// A server with node agents, whose repositories have a known password. Editions with the same prefix share them.
pub fn server(test_box: &TestBox, edition: Edition, prefix: &str) -> Result<VeleroServer> {
    server_with(test_box, edition, prefix, &[])
}

/// A server with node agents and further flags.
pub fn server_with(test_box: &TestBox, edition: Edition, prefix: &str, flags: &[&str]) -> Result<VeleroServer> {
    up(test_box, edition, prefix, flags, &[])
}

/// A server whose node agents move the data of many volumes at once. The original counts its time for copies from the begin of
/// the backup, all of them together, so that must be long.
pub fn busy_server(test_box: &TestBox, edition: Edition, prefix: &str) -> Result<VeleroServer> {
    busy_server_with(test_box, edition, prefix, &[])
}

/// Such a server with further flags.
pub fn busy_server_with(test_box: &TestBox, edition: Edition, prefix: &str, flags: &[&str]) -> Result<VeleroServer> {
    let settings = json!({"loadConcurrency": {"globalConfig": AT_ONCE}});
    let flags = [&["--fs-backup-timeout=20m", "--item-block-worker-count=4"], flags].concat();
    set_up_server(test_box, edition, prefix, &flags, &settings)
}

/// A server with further flags, and node agents with that document in their ConfigMap.
pub fn set_up_server(
    test_box: &TestBox,
    edition: Edition,
    prefix: &str,
    flags: &[&str],
    settings: &Value,
) -> Result<VeleroServer> {
    let namespace = namespace(edition);
    let machine = test_box.machine();
    machine.apply(&objects::namespace(&namespace).to_string())?;
    let settings = settings.to_string();
    machine.apply(&objects::config_map(&namespace, AGENT_SETTINGS, "settings.json", &settings).to_string())?;
    up(test_box, edition, prefix, flags, &[&format!("--node-agent-configmap={AGENT_SETTINGS}")])
}

/// The namespace of the server of an edition.
pub fn namespace(edition: Edition) -> String {
    format!("velero-{}", format!("{edition:?}").to_lowercase())
}

fn up(
    test_box: &TestBox,
    edition: Edition,
    prefix: &str,
    flags: &[&str],
    agent_flags: &[&str],
) -> Result<VeleroServer> {
    let namespace = namespace(edition);
    let machine = test_box.machine();
    machine.apply(&objects::namespace(&namespace).to_string())?;
    let password = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "velero-repo-credentials", "namespace": namespace},
        "stringData": {"repository-password": PASSWORD},
    });
    machine.apply(&password.to_string())?;
    let fixed = ["--features=EnableCSI", "--backup-sync-period=2s", "--item-operation-sync-frequency=2s"];
    let all = |fixed: &[&str], further: &[&str]| -> Vec<String> {
        fixed.iter().chain(further).map(|flag| (*flag).to_owned()).collect()
    };
    let flags = all(&fixed, flags);
    let node_agents = Some(all(&["--features=EnableCSI"], agent_flags));
    let options = ServerOptions { prefix: prefix.into(), namespace, flags, node_agents, ..ServerOptions::default() };
    VeleroServer::up(test_box, edition, options)
}

/// A pod whose volumes are filled once, and which then waits. Each volume is mounted below `/volumes`.
pub fn pod(namespace: &str, name: &str, annotations: &Value, volumes: &Value) -> Value {
    let names: Vec<&str> = volumes.as_array().into_iter().flatten().filter_map(|it| it["name"].as_str()).collect();
    let mounts: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "mountPath": format!("/volumes/{name}")})).collect();
    let script = format!(
        "fill() {{ {FILL}\n}}; for volume in /volumes/*; do test -w \"$volume\" && (fill \"$volume\"); done; sync; touch /tmp/ready; \
         sleep 100000"
    )
    .replace("$1", "$volume");
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script],
                "volumeMounts": mounts,
                "readinessProbe": {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1},
            }],
            "volumes": volumes,
        },
    })
}

/// A volume that is a claim of the pod's namespace.
pub fn claimed(volume: &str, claim: &str) -> Value {
    json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
}

/// A volume that lives as long as its pod.
pub fn empty_dir(volume: &str) -> Value {
    json!({"name": volume, "emptyDir": {}})
}

/// Restores a namespace under a name that says who restored what, and waits for the end and for its pod `web`; gives the name.
pub fn restored_beside(server: &VeleroServer, backup: &str, namespace: &str) -> Result<String> {
    let edition = format!("{:?}", server.edition()).to_lowercase();
    let name = format!("{edition}-of-{backup}");
    restores::wait_for_backup(server, backup)?;
    restores::create(server, &name, &json!({"backupName": backup, "namespaceMapping": {namespace: name}}))?;
    let status = restores::ended(server, &name, PATIENCE)?["status"].clone();
    ensure!(status["phase"] == "Completed", "{name}: {status}\n{}", server.agent_log());
    wait_for_pods(server.machine(), &name, &["web"])?;
    Ok(name)
}

/// Waits until pods have their data.
pub fn wait_for_pods(machine: &Machine, namespace: &str, names: &[&str]) -> Result<()> {
    for name in names {
        wait_until("a pod with its data", PATIENCE, || {
            let pod = machine.read(&format!("/api/v1/namespaces/{namespace}/pods/{name}"))?;
            let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            let ready = statuses.clone().count() > 0 && statuses.clone().all(|status| status["ready"] == true);
            ensure!(ready, "{namespace}/{name}: {}", pod["status"]);
            Ok(())
        })?;
    }
    Ok(())
}

/// Everything about what lies in a volume of a pod: names, modes, owners, sizes, times, links and hashes.
pub fn picture(machine: &Machine, namespace: &str, pod: &str, volume: &str) -> Result<String> {
    let path = format!("/volumes/{volume}");
    let told = machine.kubectl(&["-n", namespace, "exec", pod, "--", "sh", "-c", PICTURE, "sh", &path]);
    let told = told.with_context(|| format!("cannot look into volume {volume} of pod {namespace}/{pod}"))?;
    ensure!(told.contains("deep/er/est/hello"), "volume {volume} of pod {namespace}/{pod} holds only:\n{told}");
    Ok(told)
}

/// The kinds of objects that move data.
pub const TRANSFERS: [&str; 4] = ["podvolumebackups", "podvolumerestores", "datauploads", "datadownloads"];

/// The version of the API that such a kind is in.
pub fn version_of(plural: &str) -> &'static str {
    if plural.starts_with("data") { "v2alpha1" } else { "v1" }
}

/// What is mounted in a machine for pods that are gone.
pub fn mounts_of_nobody(machine: &Machine) -> Result<Vec<String>> {
    let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", machine.init()))?;
    let pods = machine.items("/api/v1/pods")?;
    let there: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["metadata"]["uid"].as_str()).collect();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let of_nobody = points.filter(|point| {
        let pod = point.split_once("/kubelet/pods/").and_then(|(_, rest)| rest.split('/').next());
        pod.is_some_and(|pod| !there.contains(pod))
    });
    Ok(of_nobody.map(|point| format!("mount {point}")).collect())
}

/// The objects of a kind that moved data for a backup or restore, by its name.
pub fn movers(server: &VeleroServer, plural: &str, label: &str, owner: &str) -> Result<Vec<Value>> {
    let version = version_of(plural);
    let path =
        format!("/apis/velero.io/{version}/namespaces/{}/{plural}?labelSelector={label}%3D{owner}", server.namespace());
    server.machine().items(&path)
}

/// What is left in the namespace of a server of those who moved data: pods, claims and snapshots.
pub fn left_overs(server: &VeleroServer) -> Result<Vec<String>> {
    let (machine, namespace) = (server.machine(), server.namespace());
    let pods = machine.items(&format!("/api/v1/namespaces/{namespace}/pods"))?;
    let is_mover = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["apiVersion"].as_str().is_some_and(of_velero);
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut left: Vec<String> = pods.iter().filter(is_mover).map(|pod| format!("pod {}", name(pod))).collect();
    let claims = machine.names_at(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"))?;
    left.extend(claims.into_iter().map(|name| format!("claim {name}")));
    for kind in ["volumesnapshots", "volumesnapshotcontents"] {
        let names = machine.names_at(&format!("/apis/snapshot.storage.k8s.io/v1/{kind}"))?;
        left.extend(names.into_iter().map(|name| format!("{kind} {name}")));
    }
    Ok(left)
}

fn of_velero(api_version: &str) -> bool {
    api_version.starts_with("velero.io/")
}

/// Waits until nothing is left of those who moved data.
pub fn wait_for_no_left_overs(server: &VeleroServer) -> Result<()> {
    wait_until("the left-overs to go", Duration::from_secs(90), || {
        let left = left_overs(server)?;
        ensure!(left.is_empty(), "left are {left:?}");
        Ok(())
    })
}

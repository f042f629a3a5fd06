//! Workloads with volumes of the box's CSI driver, and what is left of their snapshots.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::WORKLOAD_IMAGE;
use velero_testkit::{TestBox, VeleroServer, objects};

/// How long pods may take to run, and drivers to finish.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The kinds that snapshots are made of.
const SNAPSHOT_KINDS: [(&str, &str, &str); 4] = [
    ("snapshot.storage.k8s.io", "v1", "volumesnapshot"),
    ("snapshot.storage.k8s.io", "v1", "volumesnapshotcontent"),
    ("groupsnapshot.storage.k8s.io", "v1beta2", "volumegroupsnapshot"),
    ("groupsnapshot.storage.k8s.io", "v1beta2", "volumegroupsnapshotcontent"),
];

/// A namespace with a StatefulSet whose pods each fill a volume of their own once.
pub fn stateful_set(namespace: &str, replicas: u32) -> Vec<Value> {
    let labels = json!({"app": "db"});
    let shell =
        "test -f /data/content || head -c 200000 /dev/urandom > /data/content; sync; touch /tmp/ready; sleep 100000";
    let container = json!({
        "name": "db", "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", shell],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "readinessProbe": {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1},
    });
    let template = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    });
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": namespace},
        "spec": {
            "replicas": replicas, "serviceName": "db", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
            "volumeClaimTemplates": [template],
        },
    });
    vec![objects::namespace(namespace), set]
}

/// Waits until all pods of the StatefulSet have their data.
pub fn wait_for_set(machine: &Machine, namespace: &str, replicas: u32) -> Result<()> {
    wait_until("the pods to be ready", PATIENCE, || {
        let set = machine.read(&format!("/apis/apps/v1/namespaces/{namespace}/statefulsets/db"))?;
        let ready = &set["status"]["readyReplicas"];
        ensure!(*ready == replicas, "{ready} of {replicas} are ready");
        Ok(())
    })
}

/// The checksum of each pod's data.
pub fn sums(machine: &Machine, namespace: &str, replicas: u32) -> Result<Vec<String>> {
    let sum = |number: u32| {
        let pod = format!("db-{number}");
        machine.kubectl(&["-n", namespace, "exec", &pod, "--", "sha256sum", "/data/content"])
    };
    (0..replicas).map(sum).collect()
}

/// Waits until claims are bound.
pub fn wait_for_claims(machine: &Machine, namespace: &str) -> Result<()> {
    wait_until("the claims to be bound", PATIENCE, || {
        let claims = machine.items(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"))?;
        let phases: Vec<&Value> = claims.iter().map(|claim| &claim["status"]["phase"]).collect();
        ensure!(!phases.is_empty() && phases.iter().all(|phase| **phase == "Bound"), "{phases:?}");
        Ok(())
    })
}

/// The snapshots and contents in the cluster, by kind and name; restored ones are not among them.
pub fn snapshot_objects(machine: &Machine) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (group, version, kind) in SNAPSHOT_KINDS {
        let path = format!("/apis/{group}/{version}/{kind}s?labelSelector=%21velero.io%2Frestore-name");
        found.extend(machine.names_at(&path)?.into_iter().map(|name| format!("{kind}.{group}/{name}")));
    }
    Ok(found)
}

/// Waits until the cluster has no snapshot of a backup any more.
pub fn wait_for_no_snapshot_objects(machine: &Machine) -> Result<()> {
    wait_until("the snapshots to go", PATIENCE, || {
        let left = snapshot_objects(machine)?;
        ensure!(left.is_empty(), "left are {left:?}");
        Ok(())
    })
}

/// The snapshots that the driver holds of volumes of this cluster, now or earlier.
pub fn held(volumes: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let all = TestBox::storage()?.snapshots.all()?;
    Ok(all.into_iter().filter(|snapshot| volumes.contains(&snapshot.source_volume_id)).map(|it| it.id).collect())
}

/// The handles of the volumes in this cluster.
pub fn volumes(machine: &Machine) -> Result<BTreeSet<String>> {
    let volumes = machine.items("/api/v1/persistentvolumes")?;
    Ok(volumes.iter().filter_map(|volume| Some(volume["spec"]["csi"]["volumeHandle"].as_str()?.to_owned())).collect())
}

/// Waits until a backup is in a phase.
pub fn wait_for_phase(server: &VeleroServer, backup: &str, wanted: &str) -> Result<()> {
    wait_until("the phase of the backup", PATIENCE, || {
        let phase = &server.object("backups", backup)?["status"]["phase"];
        ensure!(phase == wanted, "{backup} is {phase}, wanted is {wanted}");
        Ok(())
    })
}

/// Deletes a backup and waits until it is gone.
pub fn delete(server: &VeleroServer, backup: &str) -> Result<()> {
    server.velero(&["backup", "delete", backup, "--confirm"])?;
    wait_until("the backup to be deleted", PATIENCE, || {
        let left = server.machine().names_at(&server.path("backups"))?;
        let requests = server.machine().items(&server.path("deletebackuprequests"))?;
        let problems: Vec<&Value> = requests.iter().map(|request| &request["status"]["errors"]).collect();
        ensure!(!left.iter().any(|name| name == backup), "{left:?} {problems:?}");
        Ok(())
    })
}

/// What the results of a backup say, as text.
pub fn results(server: &VeleroServer, backup: &str) -> Result<String> {
    server.velero(&["backup", "describe", backup, "--details"]).context("cannot describe the backup")
}

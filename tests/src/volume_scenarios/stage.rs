//! Makes what the rows are about.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::progress::say;
use velero_testkit::{DRIVER_NAME, TestCluster, load, objects};

use super::outcome::{self, Picture};
use super::pods::{self, LATE_CLASS, OTHER_CLASS, STATE};
use super::{Row, owned};

/// How long the pods of a row have to be as they should be before the backup.
const TO_SETTLE: Duration = Duration::from_secs(120);

/// Everything the rows are about, in a cluster.
pub struct Stage {
    pub(super) machine: Machine,
    pub(super) rows: Vec<Row>,
    pub(super) before: BTreeMap<(&'static str, String), Picture>,
    /// Rows that never came to be as they should, with the reason.
    pub(super) broken: BTreeMap<&'static str, String>,
}

impl Stage {
    /// Makes the objects of all rows and waits until they are as they should be.
    pub async fn set(cluster: &TestCluster, rows: Vec<Row>) -> Result<Self> {
        let machine = cluster.test_box.machine().clone();
        let classes = [class(LATE_CLASS, "WaitForFirstConsumer"), class(OTHER_CLASS, "Immediate")];
        let namespaces = rows.iter().map(|row| objects::namespace(row.name));
        load::create_all(&cluster.client, classes.into_iter().chain(namespaces)).await?;
        let all = rows.iter().flat_map(|row| row.objects.iter().map(|object| placed(object, row.name)));
        // The admission of pods wants what they name to be there, such as their account; the order of a row is kept.
        let (pods, others): (Vec<Value>, Vec<Value>) = all.partition(|object| object["kind"] == "Pod");
        load::create_all(&cluster.client, others.into_iter()).await?;
        wait_for_accounts(&machine, &rows)?;
        load::create_all(&cluster.client, pods.into_iter()).await?;
        let mut stage = Self { machine, rows, before: BTreeMap::new(), broken: BTreeMap::new() };
        stage.settle();
        Ok(stage)
    }

    fn settle(&mut self) {
        for row in &self.rows {
            match settle(&self.machine, row) {
                Ok(pictures) => {
                    self.before.extend(pictures.into_iter().map(|(pod, picture)| ((row.name, pod), picture)));
                }
                Err(error) => {
                    say(format!("{} is not as it should be: {error:#}", row.name));
                    self.broken.insert(row.name, format!("{error:#}"));
                }
            }
        }
    }
}

fn wait_for_accounts(machine: &Machine, rows: &[Row]) -> Result<()> {
    for row in rows {
        wait_until("an account", TO_SETTLE, || {
            let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", row.name);
            ensure!(machine.read_if_there(&account)?.is_some(), "there is no {account}");
            Ok(())
        })?;
    }
    Ok(())
}

/// Waits until a row is as it should be; gives what is in the volumes of its pods where it is restored.
fn settle(machine: &Machine, row: &Row) -> Result<Vec<(String, Picture)>> {
    let mut pictures = Vec::new();
    for pod in row.pods() {
        let name = name_of(&pod);
        wait_for_state(machine, row.name, &name, &state_of(&pod), TO_SETTLE)?;
        if row.restore.is_some() && state_of(&pod) == "Running" {
            pictures.push((name.clone(), outcome::picture(machine, row.name, &name)?));
        }
    }
    for filler in &row.fillers {
        machine.delete(&format!("/api/v1/namespaces/{}/pods/{filler}", row.name))?;
    }
    for claim in &row.going {
        machine.kubectl(&["-n", row.name, "delete", "persistentvolumeclaim", claim, "--wait=false"])?;
    }
    Ok(pictures)
}

/// The object in a namespace, if its kind has one.
pub(super) fn placed(object: &Value, namespace: &str) -> Value {
    let mut object = object.clone();
    if object["kind"] != "PersistentVolume" {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn class(name: &str, binding: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": DRIVER_NAME,
        "volumeBindingMode": binding,
    })
}

pub(super) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn state_of(pod: &Value) -> String {
    pod["metadata"]["labels"][STATE].as_str().unwrap_or("Running").to_owned()
}

/// The volumes of a pod that hold data of their own.
pub(super) fn data_volumes(pod: &Value) -> Vec<String> {
    let containers = &pod["spec"]["containers"];
    let mounts = containers.as_array().into_iter().flatten().flat_map(|it| it["volumeMounts"].as_array());
    let mut names: Vec<String> = mounts
        .flatten()
        .filter(|mount| mount["mountPath"].as_str().is_some_and(|path| path.starts_with(pods::DATA_FOLDER)))
        .filter_map(|mount| mount["name"].as_str().map(str::to_owned))
        .collect();
    names.dedup();
    names
}

/// Waits until a pod is in a phase; one that is Running has filled its volumes too.
pub(super) fn wait_for_state(
    machine: &Machine,
    namespace: &str,
    name: &str,
    state: &str,
    patience: Duration,
) -> Result<()> {
    wait_until("a pod", patience, || {
        let status = owned::find(machine, namespace, name)?["status"].clone();
        let is_there =
            status["phase"] == state && (state != "Running" || status["containerStatuses"][0]["ready"] == true);
        ensure!(is_there, "{namespace}/{name}: {status}");
        Ok(())
    })
}

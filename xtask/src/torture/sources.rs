//! What there is to back up: namespaces that stay as they are, so that it is known what every backup of them must hold.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::{TestCluster, load, objects};
use velero_tests::volume_data::{self, claimed};

/// What every Secret of the sources holds, in different forms; it must not be in any log.
pub(super) const MARK: &str = "torture-marked-secret";
/// The pod of a namespace with a volume, and the volume.
const POD: &str = "web";
const VOLUME: &str = "data";
/// How long a pod may take to run with its data.
const UNTIL_FILLED: Duration = Duration::from_secs(120);
/// How long its node may take to let somebody look into the volume.
const UNTIL_SEEN: Duration = Duration::from_secs(20);

/// How the data of a volume is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// There is no volume.
    Plain,
    /// There is none, and a plugin acts on the items and begins operations.
    Plugin,
    Copied,
    Snapshot,
    Moved,
}

/// A namespace, and all that has to be in its backups.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) namespace: String,
    pub(super) way: Way,
    /// The data of its objects by plural and name.
    pub(super) contents: BTreeMap<(&'static str, String), Value>,
    /// What lies in its volume.
    picture: Option<String>,
}

impl Source {
    /// The fields of the spec of a backup of it.
    pub(super) fn backup_spec(&self) -> Value {
        let has_volume = !matches!(self.way, Way::Plain | Way::Plugin);
        // None ends by itself, however long the torture goes on: nobody asks for that.
        json!({
            "includedNamespaces": [self.namespace], "ttl": "720h0m0s",
            "snapshotMoveData": self.way == Way::Moved, "snapshotVolumes": has_volume && self.way != Way::Copied,
        })
    }

    /// What of it is missing or different in a namespace it was restored to.
    pub(super) fn missing_in(&self, machine: &Machine, target: &str) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        for ((plural, name), data) in &self.contents {
            let found = machine.read_if_there(&format!("/api/v1/namespaces/{target}/{plural}/{name}"))?;
            let found = found.unwrap_or_default();
            if found["data"] != *data {
                missing.push(format!("{plural} {target}/{name} is {found}"));
            }
        }
        if let Some(picture) = &self.picture {
            match restored_picture(machine, target) {
                Ok(restored) if restored == *picture => {}
                Ok(restored) => missing.push(format!("the volume of {target} holds\n{restored}\nand not\n{picture}")),
                Err(problem) => missing.push(format!("the volume of {target} is not there: {problem:#}")),
            }
        }
        Ok(missing)
    }
}

fn restored_picture(machine: &Machine, namespace: &str) -> Result<String> {
    wait_until("the pod with its data", UNTIL_FILLED, || {
        let pod = machine.read(&format!("/api/v1/namespaces/{namespace}/pods/{POD}"))?;
        let status = &pod["status"];
        ensure!(status["containerStatuses"][0]["ready"] == true, "pod {namespace}/{POD} is not ready: {status}");
        Ok(())
    })?;
    // A node that is busy refuses a command now and then.
    let mut picture = String::new();
    wait_until("a look into the volume", UNTIL_SEEN, || {
        picture = volume_data::picture(machine, namespace, POD, VOLUME)?;
        Ok(())
    })?;
    Ok(picture)
}

/// Makes all sources.
pub(super) async fn make(cluster: &TestCluster, has_node: bool, random: &mut Rng) -> Result<Vec<Source>> {
    let mut ways = vec![("plain-a", Way::Plain), ("plain-b", Way::Plain)];
    if has_node {
        ways.extend([
            ("plugin", Way::Plugin),
            ("copied", Way::Copied),
            ("snapshot", Way::Snapshot),
            ("moved", Way::Moved),
        ]);
    }
    let mut sources = Vec::new();
    for (name, way) in ways {
        sources.push(make_one(cluster, &format!("source-{name}"), way, random).await?);
    }
    for source in sources.iter_mut().filter(|source| !matches!(source.way, Way::Plain | Way::Plugin)) {
        source.picture = Some(restored_picture(cluster.test_box.machine(), &source.namespace)?);
    }
    Ok(sources)
}

async fn make_one(cluster: &TestCluster, namespace: &str, way: Way, random: &mut Rng) -> Result<Source> {
    let mut all: Vec<Value> = (0..6).map(|number| map(namespace, number, way, random)).collect();
    all.extend((0..2).map(|number| secret(namespace, number, random)));
    load::create_all(&cluster.client, [objects::namespace(namespace)].into_iter()).await?;
    load::create_all(&cluster.client, all.into_iter()).await?;
    let annotations = match way {
        Way::Plain | Way::Plugin => None,
        Way::Copied => Some(json!({"backup.velero.io/backup-volumes": VOLUME})),
        Way::Snapshot | Way::Moved => Some(json!({})),
    };
    if let Some(annotations) = annotations {
        let pod = volume_data::pod(namespace, POD, &annotations, &json!([claimed(VOLUME, VOLUME)]));
        load::create_all(&cluster.client, [objects::claim(namespace, VOLUME), pod].into_iter()).await?;
    }
    let contents = contents(cluster.test_box.machine(), namespace)?;
    ensure!(contents.len() == 8, "{namespace} has {} objects", contents.len());
    Ok(Source { namespace: namespace.to_owned(), way, contents, picture: None })
}

fn map(namespace: &str, number: usize, way: Way, random: &mut Rng) -> Value {
    let text: String = (0..random.usize(10..4_000)).map(|_| random.alphanumeric()).collect();
    let mut map = objects::config_map(namespace, &format!("map-{number}"), "text", &text);
    if way == Way::Plugin {
        map["metadata"]["labels"] = json!({"example.velero.io/plugin": "yes"});
        let millis = random.u64(200..6_000);
        map["metadata"]["annotations"] = json!({
            "example.velero.io/operation": format!("takes={millis}ms"),
            "example.velero.io/restore-operation": format!("takes={millis}ms"),
        });
    }
    map
}

fn secret(namespace: &str, number: usize, random: &mut Rng) -> Value {
    let text: String = (0..20).map(|_| random.alphanumeric()).collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("secret-{number}"), "namespace": namespace},
        "stringData": {"password": format!("{MARK}-{text}")},
    })
}

/// The objects of a namespace that no controller of the cluster has made.
fn contents(machine: &Machine, namespace: &str) -> Result<BTreeMap<(&'static str, String), Value>> {
    let mut contents = BTreeMap::new();
    for plural in ["configmaps", "secrets"] {
        for object in machine.items(&format!("/api/v1/namespaces/{namespace}/{plural}"))? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if name != "kube-root-ca.crt" {
                contents.insert((plural, name), object["data"].clone());
            }
        }
    }
    Ok(contents)
}

//! Many objects in a cluster, for measurements: the same mix every time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// How many requests are under way at once.
const CONNECTIONS: usize = 24;
/// How long the controllers may take to catch up.
const SETTLE: Duration = Duration::from_secs(600);
/// How long a namespace or a type that was just created may take to be there.
const UNTIL_SERVED: Duration = Duration::from_secs(15);

/// Creates that many objects in namespaces `<prefix>-0`, `<prefix>-1`, …: half ConfigMaps, three tenths Secrets, a tenth
/// headless Services, a tenth Deployments without replicas; 0.3 to 3 KB each. Gives the names of the namespaces.
pub async fn objects(client: &Client, prefix: &str, count: usize, namespaces: usize) -> Result<Vec<String>> {
    let names: Vec<String> = (0..namespaces).map(|index| format!("{prefix}-{index}")).collect();
    create_all(client, names.iter().map(|name| crate::objects::namespace(name))).await?;
    let mix = (0..count).map(|index| object(&names[index % namespaces], index));
    create_all(client, mix).await?;
    settled(client).await?;
    Ok(names)
}

/// Waits until the controllers have answered every Deployment with a ReplicaSet: measurements want a quiet cluster.
pub async fn settled(client: &Client) -> Result<()> {
    let count = async |kind: &str| -> Result<i64> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let page = api.list(&ListParams::default().limit(1)).await?;
        Ok(page.items.len() as i64 + page.metadata.remaining_item_count.unwrap_or_default())
    };
    let start = Instant::now();
    while count("ReplicaSet").await? < count("Deployment").await? {
        anyhow::ensure!(start.elapsed() < SETTLE, "the Deployments have no ReplicaSets after {} s", SETTLE.as_secs());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

/// Creates pods that each mount a claim of their own, without a scheduler to run them.
pub async fn pods_with_claims(client: &Client, namespace: &str, count: usize) -> Result<()> {
    create_all(client, std::iter::once(crate::objects::namespace(namespace))).await?;
    create_all(client, (0..count).map(|index| claim(namespace, index))).await?;
    create_all(client, (0..count).map(|index| pod_with_claim(namespace, index))).await
}

/// Creates objects, many at once; one that exists is fine.
pub async fn create_all(client: &Client, objects: impl Iterator<Item = Value>) -> Result<()> {
    let mut running = JoinSet::new();
    for object in objects {
        if running.len() >= CONNECTIONS {
            running.join_next().await.context("no request under way")???;
        }
        running.spawn(create(client.clone(), object));
    }
    while let Some(created) = running.join_next().await {
        created??;
    }
    Ok(())
}

async fn create(client: Client, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().context("an object without a type")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let start = Instant::now();
    loop {
        match api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
            Err(kube::Error::Api(status)) if is_early(&status) && start.elapsed() < UNTIL_SERVED => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            outcome => return outcome.map(drop).context("cannot create an object"),
        }
    }
}

/// Whether the API server refuses only because the namespace or the type is new: a pod wants the account of its namespace.
fn is_early(status: &kube::core::Status) -> bool {
    status.code == 404 || (status.code == 403 && status.message.contains("error looking up service account"))
}

fn object(namespace: &str, index: usize) -> Value {
    let name = format!("object-{index:06}");
    let size = 300 + (index * 7919) % 2700;
    let metadata = json!({"name": name, "namespace": namespace, "labels": {"app": format!("app-{}", index % 17)}});
    match index / 3 % 10 {
        0..=4 => {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": payload(index, size)}})
        }
        5..=7 => {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"text": payload(index, size)}})
        }
        8 => json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
                    "spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 80}]}}),
        _ => crate::objects::deployment(namespace, &name, 0, "sleep 1000"),
    }
}

/// Text that compresses about as well as configuration does.
fn payload(seed: usize, size: usize) -> String {
    let words = ["replicas", "endpoint", "timeout=30s", "enabled: true", "https", "cluster.local", "password", "0x"];
    let mut state = seed as u64 + 1;
    let mut text = String::with_capacity(size + 16);
    while text.len() < size {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        text.push_str(words[(state >> 33) as usize % words.len()]);
        text.push_str(&format!("{:x} ", (state >> 40) as u16));
    }
    text.truncate(size);
    text
}

fn claim(namespace: &str, index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{index}"), "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn pod_with_claim(namespace: &str, index: usize) -> Value {
    let mut pod = crate::objects::pod(namespace, &format!("pod-{index}"), "sleep 1000");
    pod["spec"]["schedulerName"] = json!("nobody");
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{index}")}}]);
    pod
}

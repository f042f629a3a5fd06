//! Millions of small objects in a cluster. Creating them one by one would take longer than all that is measured with them,
//! so they are written into etcd, hundreds at a time, in the form in which the API server keeps them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use kube::api::{Api, ListParams};
use kube::{Client, Config};
use prost::Message;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::load;
use crate::parts::ETCD_ENDPOINT;

/// How many objects a namespace has.
pub const IN_NAMESPACE: usize = 5_000;
/// How many objects are written at once: a request to etcd holds a mebibyte and a half.
const IN_REQUEST: usize = 500;
/// How many requests are under way at once.
const CONNECTIONS: usize = 4;
/// What stands in front of everything that the API server keeps in this form.
const MAGIC: &[u8] = b"k8s\0";

/// Writes that many objects into namespaces `<prefix>-0`, `<prefix>-1`, …, each of which gets [`IN_NAMESPACE`]: six tenths
/// ConfigMaps, the others Secrets, about 600 bytes each as JSON. Gives the names of the namespaces. To be
/// called inside the network of the box.
pub async fn objects(client: &Client, prefix: &str, count: usize) -> Result<Vec<String>> {
    let namespaces: Vec<String> = (0..count.div_ceil(IN_NAMESPACE)).map(|index| format!("{prefix}-{index}")).collect();
    load::create_all(client, namespaces.iter().map(|name| crate::objects::namespace(name))).await?;
    let etcd = Client::try_from(Config::new(ETCD_ENDPOINT.parse()?))?;
    let mut running = JoinSet::new();
    for first in (0..count).step_by(IN_REQUEST) {
        if running.len() >= CONNECTIONS {
            running.join_next().await.context("no request under way")???;
        }
        let written: Vec<Value> =
            (first..count.min(first + IN_REQUEST)).map(|index| put(&namespaces[index / IN_NAMESPACE], index)).collect();
        running.spawn(write(etcd.clone(), written));
    }
    while let Some(written) = running.join_next().await {
        written??;
    }
    Ok(namespaces)
}

/// How many ConfigMaps and Secrets the cluster holds.
pub async fn count(client: &Client) -> Result<u64> {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    let one = ListParams::default().limit(1);
    let maps = Api::<ConfigMap>::all(client.clone()).list_metadata(&one).await?;
    let secrets = Api::<Secret>::all(client.clone()).list_metadata(&one).await?;
    let of_list = |found: usize, remaining: Option<i64>| found as u64 + remaining.unwrap_or_default().unsigned_abs();
    Ok(of_list(maps.items.len(), maps.metadata.remaining_item_count)
        + of_list(secrets.items.len(), secrets.metadata.remaining_item_count))
}

async fn write(etcd: Client, written: Vec<Value>) -> Result<()> {
    let body = json!({"success": written}).to_string().into_bytes();
    let request = Request::post("/v3/kv/txn").header("Content-Type", "application/json").body(body)?;
    let answer: Value = etcd.request(request).await.context("etcd does not take the objects")?;
    ensure!(answer["succeeded"] == true, "etcd refuses the objects: {answer}");
    Ok(())
}

/// One write of a transaction.
fn put(namespace: &str, index: usize) -> Value {
    let name = format!("item-{index:07}");
    let metadata = metadata(namespace, &name, index);
    let text = format!("value {index} of {name}; {}", "0123456789abcdef ".repeat(4));
    let (plural, bytes) = match index % 5 {
        0..3 => ("configmaps", ConfigMap { metadata: Some(metadata), data: [("text".into(), text)].into() }.stored()),
        _ => {
            let data = [("text".into(), text.into_bytes())].into();
            ("secrets", Secret { metadata: Some(metadata), data, secret_type: "Opaque".into() }.stored())
        }
    };
    let key = format!("/registry/{plural}/{namespace}/{name}");
    json!({"requestPut": {"key": STANDARD.encode(key), "value": STANDARD.encode(bytes)}})
}

fn metadata(namespace: &str, name: &str, index: usize) -> ObjectMeta {
    let time = Time { seconds: 1_790_000_000, nanos: 0 };
    let fields = r#"{"f:data":{".":{},"f:text":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}"#;
    let owner = ManagedFieldsEntry {
        manager: "loader".into(),
        operation: "Update".into(),
        api_version: "v1".into(),
        time: Some(time),
        fields_type: "FieldsV1".into(),
        fields_v1: Some(FieldsV1 { raw: fields.into() }),
    };
    ObjectMeta {
        name: name.into(),
        namespace: namespace.into(),
        uid: format!("00000000-0000-4000-8000-{index:012x}"),
        created: Some(time),
        labels: [("app".into(), format!("app-{}", index % 17))].into(),
        managed_fields: vec![owner],
    }
}

/// An object in the form in which the API server keeps it.
trait Stored: Message + Sized {
    const KIND: &'static str;

    fn stored(&self) -> Vec<u8> {
        let type_meta = TypeMeta { api_version: "v1".into(), kind: Self::KIND.into() };
        let envelope = Unknown { type_meta: Some(type_meta), raw: self.encode_to_vec() };
        [MAGIC, &envelope.encode_to_vec()].concat()
    }
}

impl Stored for ConfigMap {
    const KIND: &'static str = "ConfigMap";
}

impl Stored for Secret {
    const KIND: &'static str = "Secret";
}

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct ConfigMap {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(btree_map = "string, string", tag = "2")]
    data: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Secret {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(btree_map = "string, bytes", tag = "2")]
    data: BTreeMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    secret_type: String,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(message, optional, tag = "8")]
    created: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "17")]
    managed_fields: Vec<ManagedFieldsEntry>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct ManagedFieldsEntry {
    #[prost(string, tag = "1")]
    manager: String,
    #[prost(string, tag = "2")]
    operation: String,
    #[prost(string, tag = "3")]
    api_version: String,
    #[prost(message, optional, tag = "4")]
    time: Option<Time>,
    #[prost(string, tag = "6")]
    fields_type: String,
    #[prost(message, optional, tag = "7")]
    fields_v1: Option<FieldsV1>,
}

#[derive(Clone, PartialEq, Message)]
struct FieldsV1 {
    #[prost(bytes = "vec", tag = "1")]
    raw: Vec<u8>,
}

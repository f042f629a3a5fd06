//! What of an operation outlives the process: a ConfigMap in Velero's namespace that says what to copy and how it ended. It
//! belongs to the Backup or Restore; the server removes it when that has ended. The plan is compressed: a stream of OpenShift
//! may name thousands of images, a ConfigMap holds one MiB.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use velero_api::labels;
use velero_cluster::{Cluster, types};
use velero_plugin::{Error, Result};

use super::plan::ImageCopy;
use crate::workflow::Work;

/// What a name starts with.
const PREFIX: &str = "openshift-image-copy-";
const PLAN: &str = "plan";
const OUTCOME: &str = "outcome";
const BYTES: &str = "bytes";
/// The outcome of a copy that went well.
const DONE: &str = "done";
/// What a ConfigMap holds, with room for the rest of the object.
const LARGEST_PLAN: usize = 1_000_000;
/// What a plan may be once it is read.
const LARGEST_TEXT: u64 = 64 << 20;

/// What is copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The registry of this cluster.
    pub(crate) internal: String,
    pub(crate) copies: Vec<ImageCopy>,
}

/// A plan and what became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) plan: Plan,
    /// `None` while it goes on; else the error, if there was one.
    pub(crate) outcome: Option<Option<String>>,
    /// The bytes of all images that were copied.
    pub(crate) bytes: u64,
}

/// Writes a plan down and gives the ID of its operation.
pub(crate) async fn create(cluster: &Cluster, work: &(impl Work + Sync), plan: &Plan) -> Result<String> {
    let id = format!("{PREFIX}{}", uuid::Uuid::new_v4());
    let packed = pack(plan).map_err(|problem| Error::Item(format!("plan of {id}: {problem}")))?;
    let labels = json!({
        labels::RESOURCE_USAGE: labels::RESOURCE_USAGE_OPERATION_RECORD, labels::EXCLUDE_FROM_BACKUP: "true",
    });
    let owners = json!([work.as_owner()]);
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": id, "namespace": work.namespace(), "labels": labels, "ownerReferences": owners},
        "binaryData": {PLAN: packed},
    });
    cluster.create(&types::CONFIG_MAPS, Some(work.namespace()), &object).await?;
    Ok(id)
}

/// A plan as a ConfigMap keeps it.
fn pack(plan: &Plan) -> Result<String, String> {
    let text = serde_json::to_vec(plan).map_err(|error| error.to_string())?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(&text).and_then(|()| encoder.finish()).map_err(|error| error.to_string())?;
    if packed.len() > LARGEST_PLAN {
        let images = plan.copies.len();
        return Err(format!("{images} images are more than a ConfigMap can keep track of; set imageCopy to sync"));
    }
    Ok(BASE64.encode(packed))
}

fn unpack(packed: &str) -> Result<Plan, String> {
    let packed = BASE64.decode(packed).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    let read = GzDecoder::new(packed.as_slice()).take(LARGEST_TEXT).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// Whether an ID can be that of a copy.
pub(crate) fn is_id(id: &str) -> bool {
    id.starts_with(PREFIX)
}

/// Reads a record; `None` when there is none.
pub(crate) async fn read(cluster: &Cluster, namespace: &str, id: &str) -> Result<Option<Record>> {
    if !is_id(id) {
        return Ok(None);
    }
    let found = cluster.get(types::CONFIG_MAPS.item(Some(namespace), id)).await?;
    found.map(|found| parse(&found).map_err(|problem| Error::Failed(format!("ConfigMap {id}: {problem}")))).transpose()
}

fn parse(object: &Value) -> Result<Record, String> {
    let text = |key: &str| object["data"][key].as_str();
    let packed = object["binaryData"][PLAN].as_str().unwrap_or_default();
    let plan = unpack(packed).map_err(|problem| format!("binaryData.{PLAN}: {problem}"))?;
    let outcome = text(OUTCOME).map(|outcome| (outcome != DONE).then(|| outcome.to_owned()));
    let bytes = text(BYTES).and_then(|bytes| bytes.parse().ok()).unwrap_or_default();
    Ok(Record { plan, outcome, bytes })
}

/// Writes down how a plan ended.
pub(crate) async fn end(cluster: &Cluster, namespace: &str, id: &str, error: Option<&str>, bytes: u64) -> Result<()> {
    let patch = json!({"data": {OUTCOME: error.unwrap_or(DONE), BYTES: bytes.to_string()}});
    match cluster.merge_patch(types::CONFIG_MAPS.item(Some(namespace), id), &patch).await {
        // It went with its Backup or Restore.
        Err(error) if error.is_not_found() => Ok(()),
        outcome => Ok(outcome.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use velero_registry::Digest;

    use super::*;
    use crate::images::plan::ImageName;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let plan = Plan { internal: "internal:5000".to_owned(), copies: Vec::new() };
        let packed = pack(&plan).unwrap();
        for (outcome, expected) in
            [(None, None), (Some("done"), Some(None)), (Some("no such blob"), Some(Some("no such blob".to_owned())))]
        {
            let mut object = json!({"binaryData": {"plan": packed}, "data": {"bytes": "7"}});
            if let Some(outcome) = outcome {
                object["data"]["outcome"] = json!(outcome);
            }
            assert_eq!(parse(&object), Ok(Record { plan: plan.clone(), outcome: expected, bytes: 7 }));
        }
        assert!(parse(&json!({"data": {}})).unwrap_err().contains("binaryData.plan"));
    }

    /// A plan of so many images, each with a digest that cannot be compressed.
    fn plan_of(images: usize) -> Plan {
        let name = |registry: &str, path: String| ImageName { registry: registry.to_owned(), path };
        let copy = |number: usize| {
            let image = Digest::of(&number.to_be_bytes()).as_str().to_owned();
            ImageCopy {
                source: name("image-registry.openshift-image-registry.svc:5000", format!("shop/web@{image}")),
                destination: name("migration.example.com", format!("shop/web:v{number}")),
                image,
            }
        };
        Plan { internal: "internal:5000".to_owned(), copies: (0..images).map(copy).collect() }
    }

    #[test]
    fn a_plan_of_ten_thousand_images_fits_and_one_that_does_not_is_told() {
        let plan = plan_of(10_000);
        assert_eq!(unpack(&pack(&plan).unwrap()), Ok(plan));
        let error = pack(&plan_of(100_000)).unwrap_err();
        assert!(error.contains("100000 images") && error.contains("imageCopy"), "{error}");
    }
}

//! What of an operation outlives the process: a ConfigMap in Velero's namespace that says what to copy and how it ended. It
//! belongs to the Backup or Restore and goes with it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use velero_cluster::{Cluster, ResourceType};
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

fn config_maps() -> ResourceType {
    ResourceType::new("v1", "ConfigMap", "configmaps", true)
}

/// Writes a plan down and gives the ID of its operation.
pub(crate) async fn create(cluster: &Cluster, work: &(impl Work + Sync), plan: &Plan) -> Result<String> {
    let id = format!("{PREFIX}{}", uuid::Uuid::new_v4());
    let text = serde_json::to_string(plan).map_err(|error| Error::Failed(format!("plan of {id}: {error}")))?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": id, "namespace": work.namespace(), "ownerReferences": [work.as_owner()]},
        "data": {PLAN: text},
    });
    cluster.create(&config_maps(), Some(work.namespace()), &object).await?;
    Ok(id)
}

/// Reads a record; `None` when there is none.
pub(crate) async fn read(cluster: &Cluster, namespace: &str, id: &str) -> Result<Option<Record>> {
    if !id.starts_with(PREFIX) {
        return Ok(None);
    }
    let found = cluster.get(&config_maps(), Some(namespace), id).await?;
    found.map(|found| parse(&found).map_err(|problem| Error::Failed(format!("ConfigMap {id}: {problem}")))).transpose()
}

fn parse(object: &Value) -> Result<Record, String> {
    let text = |key: &str| object["data"][key].as_str();
    let plan = serde_json::from_str(text(PLAN).unwrap_or_default()).map_err(|error| format!("data.{PLAN}: {error}"))?;
    let outcome = text(OUTCOME).map(|outcome| (outcome != DONE).then(|| outcome.to_owned()));
    let bytes = text(BYTES).and_then(|bytes| bytes.parse().ok()).unwrap_or_default();
    Ok(Record { plan, outcome, bytes })
}

/// Writes down how a plan ended.
pub(crate) async fn end(cluster: &Cluster, namespace: &str, id: &str, error: Option<&str>, bytes: u64) -> Result<()> {
    let patch = json!({"data": {OUTCOME: error.unwrap_or(DONE), BYTES: bytes.to_string()}});
    match cluster.merge_patch(&config_maps(), Some(namespace), id, &patch).await {
        // It went with its Backup or Restore.
        Err(error) if error.is_not_found() => Ok(()),
        outcome => Ok(outcome.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let plan = Plan { internal: "internal:5000".to_owned(), copies: Vec::new() };
        let text = serde_json::to_string(&plan).unwrap();
        for (outcome, expected) in
            [(None, None), (Some("done"), Some(None)), (Some("no such blob"), Some(Some("no such blob".to_owned())))]
        {
            let mut object = json!({"data": {"plan": text, "bytes": "7"}});
            if let Some(outcome) = outcome {
                object["data"]["outcome"] = json!(outcome);
            }
            assert_eq!(parse(&object), Ok(Record { plan: plan.clone(), outcome: expected, bytes: 7 }));
        }
        assert!(parse(&json!({"data": {}})).unwrap_err().contains("data.plan"));
    }
}

//! What was exchanged is kept in a ConfigMap, so that it can be put back.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use velero_api::labels;

use crate::migration::cleaned;
use crate::session::{Session, api_error};

/// The ConfigMap with the workloads as they were.
const KEPT: &str = "velero-before-migration";

fn api(session: &Session) -> Api<ConfigMap> {
    Api::namespaced(session.cluster.client().clone(), session.namespace())
}

/// Keeps workloads. What an earlier run has kept stays where it was interrupted after it had exchanged some. Where none is `begun` it is
/// of an exchange that was taken back another way.
pub(super) async fn keep(session: &Session, found: impl Iterator<Item = &Value>, begun: bool) -> Result<()> {
    let mut data = BTreeMap::new();
    for workload in found {
        let kept = cleaned(workload);
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let key = format!("{}.{}", text(&kept["kind"]).to_lowercase(), text(&kept["metadata"]["name"]));
        data.insert(key, Some(serde_json::to_string_pretty(&kept)?));
    }
    let api = api(session);
    let known = api.get_opt(KEPT).await.map_err(api_error)?;
    let metadata = json!({"name": KEPT, "labels": {labels::COMPONENT: labels::COMPONENT_VELERO}});
    match known {
        Some(known) => {
            for old in known.data.unwrap_or_default().into_keys().filter(|_| !begun) {
                data.entry(old).or_insert(None);
            }
            let patch = Patch::Merge(json!({ "data": data }));
            api.patch(KEPT, &PatchParams::default(), &patch).await.map_err(api_error)?;
        }
        None => {
            let object: ConfigMap = serde_json::from_value(json!({ "metadata": metadata, "data": data }))?;
            api.create(&PostParams::default(), &object).await.map_err(api_error)?;
        }
    }
    session.printer.line(format_args!("ConfigMap/{KEPT}: holds what is replaced"))
}

/// The workloads as they were, and the state of the ConfigMap in which they are.
pub(super) struct Kept {
    pub(super) workloads: Vec<Value>,
    state: Preconditions,
}

/// The workloads as they were.
pub(super) async fn kept(session: &Session) -> Result<Kept> {
    let found = api(session).get_opt(KEPT).await.map_err(api_error)?;
    let found = found.with_context(|| {
        format!(
            "ConfigMap {}/{KEPT} does not exist: this Velero was not replaced by velero migrate run, or is back already; \
             install Velero by its own velero install --apply",
            session.namespace()
        )
    })?;
    let read = |(key, text): (String, String)| {
        serde_json::from_str(&text).with_context(|| format!("key {key} of ConfigMap {KEPT} cannot be read"))
    };
    let state = Preconditions { uid: found.metadata.uid, resource_version: found.metadata.resource_version };
    let workloads = found.data.unwrap_or_default().into_iter().map(read).collect::<Result<_>>()?;
    Ok(Kept { workloads, state })
}

/// Removes what was kept, unless somebody has kept more in it since it was read.
pub(super) async fn forget(session: &Session, kept: Kept) -> Result<()> {
    let parameters = DeleteParams { preconditions: Some(kept.state), ..DeleteParams::default() };
    match api(session).delete(KEPT, &parameters).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        removed => removed.map(drop).map_err(api_error),
    }
}

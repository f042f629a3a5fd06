//! What a bundle gets from the API server.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, LogParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use velero_cluster::list_all;

use super::bundle::Bundle;
use super::redact::redact;
use crate::session::{Session, api_error};

/// Kinds of Kubernetes that show how the server runs: group, version, kind, plural. Never Secrets.
const KINDS: [(&str, &str, &str, &str); 6] = [
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Event", "events"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("batch", "v1", "Job", "jobs"),
];
/// How many lines of a log are taken, from its end.
const LOG_LINES: i64 = 200_000;

/// Collects Velero's objects and those that show how its server runs.
pub(super) async fn objects(session: &Session, bundle: &mut Bundle) -> Result<()> {
    let further = KINDS.map(|(group, version, kind, plural)| resource(group, version, kind, plural));
    for resource in velero_resources().into_iter().chain(further) {
        let name = format!("{}/{}.json", folder(&resource, session.namespace()), resource.plural);
        let listed = list(session, &resource).await.and_then(|list| Ok(serde_json::to_vec_pretty(&list)?));
        bundle.add_or_note(&name, &resource.plural, listed)?;
    }
    Ok(())
}

/// Collects the logs of all containers in the server's namespace.
pub(super) async fn logs(session: &Session, bundle: &mut Bundle) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let listed = match list_all(&pods, &ListParams::default()).await {
        Ok(listed) => listed.items,
        // That pods cannot be listed has been noted with the objects.
        Err(_) => return Ok(()),
    };
    let core = folder(&resource("", "v1", "Pod", "pods"), session.namespace());
    for pod in &listed {
        let name = pod.name_any();
        for (container, restarted) in containers(pod) {
            let file = format!("{core}/{name}/{container}/{container}");
            let what = format!("log of container {container} of pod {name}");
            bundle.add_or_note(&format!("{file}.log"), &what, log(&pods, &name, &container, false).await)?;
            if restarted {
                let before = log(&pods, &name, &container, true).await;
                bundle.add_or_note(&format!("{file}-previous.log"), &format!("earlier {what}"), before)?;
            }
        }
    }
    Ok(())
}

fn velero_resources() -> Vec<ApiResource> {
    let definitions = velero_api::crd::all();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource_of = |definition: &Value| {
        let spec = &definition["spec"];
        let (names, version) = (&spec["names"], text(&spec["versions"][0]["name"]));
        resource(&text(&spec["group"]), &version, &text(&names["kind"]), &text(&names["plural"]))
    };
    definitions.iter().map(resource_of).collect()
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// Where the original's bundle has objects of a type.
fn folder(resource: &ApiResource, namespace: &str) -> String {
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    format!("kubecapture/{group}_{}/{namespace}", resource.version)
}

async fn list(session: &Session, resource: &ApiResource) -> Result<Value> {
    let client = session.cluster.client().clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, session.namespace(), resource);
    let mut items = Vec::new();
    for object in list_all(&api, &ListParams::default()).await.map_err(api_error)?.items {
        let mut object = serde_json::to_value(object)?;
        redact(&mut object);
        items.push(object);
    }
    Ok(json!({"apiVersion": resource.api_version, "kind": format!("{}List", resource.kind), "items": items}))
}

/// The containers of a pod that have begun, and whether they have been started again.
fn containers(pod: &Pod) -> Vec<(String, bool)> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let begun = all.filter(|container| {
        let waits = container.state.as_ref().is_some_and(|state| state.waiting.is_some());
        !waits || container.restart_count > 0
    });
    begun.map(|container| (container.name.clone(), container.restart_count > 0)).collect()
}

async fn log(pods: &Api<Pod>, pod: &str, container: &str, previous: bool) -> Result<Vec<u8>> {
    let parameters = LogParams {
        container: Some(container.to_owned()),
        previous,
        tail_lines: Some(LOG_LINES),
        ..LogParams::default()
    };
    Ok(pods.logs(pod, &parameters).await.map_err(api_error)?.into_bytes())
}

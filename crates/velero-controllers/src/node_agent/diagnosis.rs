//! Why data does not become reachable: what Kubernetes says of the pod and the claims that were made for a transfer.
//! They go when it ends, so nobody could look at them afterwards.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;
use velero_cluster::list_all;
use velero_cluster::types::{PERSISTENT_VOLUME_CLAIMS, PODS};
use velero_plugin::item::elements;

use crate::node_agent::agent::Agent;
use crate::node_agent::expose::claims::cache_name;
use crate::node_agent::resources;
use crate::node_agent::transfer::Owner;

/// How much is told of one object.
const MOST_LETTERS: usize = 400;

/// What is not as it should be of what was made for a transfer, in words. Who cannot be asked says nothing.
pub(crate) async fn of_made(agent: &Agent, owner: &Owner) -> Vec<String> {
    let (namespace, cache) = (Some(owner.namespace.as_str()), cache_name(owner));
    let made = [
        PODS.item(namespace, &owner.name),
        PERSISTENT_VOLUME_CLAIMS.item(namespace, &owner.name),
        PERSISTENT_VOLUME_CLAIMS.item(namespace, &cache),
    ];
    let mut said = Vec::new();
    for item in made {
        let found = agent.objects.cluster().get(item).await.ok().flatten();
        let Some(object) = found.filter(|object| resources::belongs_to(object, &owner.uid)) else { continue };
        if let Some(problem) = problem(&object) {
            let warning = last_warning(agent, &object).await;
            let title = format!("{} {}", item.resource_type.kind, item.key());
            said.push(told(&title, &problem, warning.as_deref()));
        }
    }
    said
}

/// What a pod or a claim says of itself while it is not ready. A pod that runs has nobody who lets it begin.
fn problem(object: &Value) -> Option<String> {
    let phase = object["status"]["phase"].as_str().unwrap_or("Pending");
    match phase {
        "Bound" => return None,
        "Running" => {
            let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
            return Some(format!(
                "Running on node {node:?}, and no node agent there has taken it: see that one runs on that node, or keep \
                 these pods from it with loadAffinity"
            ));
        }
        _ => {}
    }
    let conditions = elements(object, "/status/conditions");
    let unplaced = conditions.filter(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
    let containers = elements(object, "/status/containerStatuses");
    let waiting = containers.map(|container| &container["state"]["waiting"]);
    let said = unplaced.chain(waiting).filter_map(|said| said["message"].as_str());
    Some(std::iter::once(phase).chain(said).collect::<Vec<_>>().join(": "))
}

/// What others warned of last: the scheduler, the kubelet, a provisioner.
async fn last_warning(agent: &Agent, object: &Value) -> Option<String> {
    let uid = object["metadata"]["uid"].as_str()?;
    let events: Api<Event> = Api::namespaced(agent.client(), object["metadata"]["namespace"].as_str()?);
    let about = ListParams::default().fields(&format!("involvedObject.uid={uid},type=Warning"));
    let found = list_all(&events, &about).await.ok()?;
    found.items.into_iter().max_by_key(last_seen)?.message
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    let seen = event.last_timestamp.as_ref().map(|time| time.0);
    seen.or_else(|| event.event_time.as_ref().map(|time| time.0))
}

fn told(title: &str, problem: &str, warning: Option<&str>) -> String {
    let further = warning.filter(|warning| !problem.contains(*warning));
    let further = further.map(|warning| format!(": {warning}")).unwrap_or_default();
    format!("{title} is {problem}{further}").chars().take(MOST_LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_ready_says_why() {
        let condition = |status: &str| json!({ "type": "PodScheduled", "status": status, "message": "no node fits" });
        let waiting = json!([{ "state": { "waiting": { "reason": "ErrImagePull", "message": "no such image" } } }]);
        for (status, expected) in [
            (json!({ "phase": "Bound" }), None),
            (json!({}), Some("Pending")),
            (json!({ "phase": "Lost" }), Some("Lost")),
            (json!({ "phase": "Pending", "conditions": [condition("False")] }), Some("Pending: no node fits")),
            (
                json!({ "phase": "Pending", "conditions": [condition("True")], "containerStatuses": waiting }),
                Some("Pending: no such image"),
            ),
        ] {
            assert_eq!(problem(&json!({ "status": status })).as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn a_pod_that_runs_has_no_agent_on_its_node() {
        let pod = json!({ "spec": { "nodeName": "n1" }, "status": { "phase": "Running" } });
        let said = problem(&pod).unwrap();
        assert!(said.starts_with("Running on node \"n1\"") && said.contains("loadAffinity"), "{said}");
    }

    #[test]
    fn a_warning_is_told_once_and_not_without_end() {
        let title = "PersistentVolumeClaim velero/b-1";
        assert_eq!(told(title, "Pending", None), format!("{title} is Pending"));
        assert_eq!(told(title, "Pending", Some("no class")), format!("{title} is Pending: no class"));
        let twice = told(title, "Pending: no node fits", Some("no node fits"));
        assert_eq!(twice, format!("{title} is Pending: no node fits"));
        assert_eq!(told(title, "Pending", Some(&"ü".repeat(1000))).chars().count(), MOST_LETTERS);
    }
}

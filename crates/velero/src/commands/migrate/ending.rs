//! Ending a server before another program takes its place: two of them must not work side by side.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};
use velero_cluster::list_all_metadata;

use crate::session::{Session, api_error};

/// How long its pods may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often they are looked for.
const PAUSE: Duration = Duration::from_secs(1);

/// Ends the pods of a Deployment and gives what it is then. Who dies meanwhile runs the command again.
pub(super) async fn end_server(session: &Session, api: &Api<DynamicObject>, name: &str) -> Result<DynamicObject> {
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    api.patch(name, &PatchParams::default(), &patch).await.map_err(api_error)?;
    let pods: Api<Pod> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let running = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let listed = list_all_metadata(&pods, &running).await.map_err(api_error)?;
        if !listed.items.iter().any(|pod| is_of(&pod.metadata, name)) {
            return api.get(name).await.map_err(api_error);
        }
        ensure!(
            Instant::now() < deadline,
            "the pods of Deployment/{name}, which has no replicas now, have not ended within {} seconds; run the command again",
            PATIENCE.as_secs()
        );
        sleep(PAUSE).await;
    }
}

/// Whether a pod is one of a Deployment: of a ReplicaSet that is called like it, with a hash behind.
fn is_of(pod: &ObjectMeta, deployment: &str) -> bool {
    pod.owner_references.iter().flatten().any(|owner| {
        owner.kind == "ReplicaSet" && owner.name.rsplit_once('-').is_some_and(|(name, _)| name == deployment)
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    #[test]
    fn only_pods_of_the_deployment_are_waited_for() {
        for (kind, name, expected) in [
            ("ReplicaSet", "velero-7d9c4b5f6d", true),
            ("ReplicaSet", "velero-ui-7d9c4b5f6d", false),
            ("DaemonSet", "velero-agents", false),
            ("ReplicaSet", "velero", false),
        ] {
            let owner = OwnerReference { kind: kind.to_owned(), name: name.to_owned(), ..OwnerReference::default() };
            let pod = ObjectMeta { owner_references: Some(vec![owner]), ..ObjectMeta::default() };
            assert_eq!(is_of(&pod, "velero"), expected, "{kind} {name}");
        }
        assert!(!is_of(&ObjectMeta::default(), "velero"));
    }
}

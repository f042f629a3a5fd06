//! The Deployment the server runs from.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use kube::Api;
use kube::api::ListParams;
use velero_api::metadata;

use crate::output::Availability;
use crate::session::{Session, api_error};

/// How the server's Deployment is marked.
const SERVER_SELECTOR: &str = "component=velero";
/// The container of the server.
pub(crate) const SERVER_CONTAINER: &str = "velero";

/// The server's Deployment, if it runs from one.
pub(crate) async fn server_deployment(session: &Session) -> Result<Option<Deployment>> {
    let api: Api<Deployment> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let listed = api.list(&ListParams::default().labels(SERVER_SELECTOR)).await.map_err(api_error)?;
    Ok(listed.items.into_iter().find(|deployment| server_container(deployment).is_some()))
}

/// The container of the server in its Deployment.
pub(super) fn server_container(deployment: &Deployment) -> Option<&Container> {
    let pod: &PodSpec = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.iter().find(|container| container.name == SERVER_CONTAINER)
}

/// How many of its pods serve.
pub(super) fn availability(deployment: &Deployment) -> Availability {
    Availability {
        name: metadata::name(deployment).to_owned(),
        ready: deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default(),
        desired: deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
    }
}

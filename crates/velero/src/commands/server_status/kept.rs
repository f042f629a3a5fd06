//! Reading what the server says about itself, without asking it.

use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::core::Status;
use tokio::time::timeout;
use velero_api::v1::{SERVER_STATUS_NAME, ServerStatusRequest, ServerStatusRequestPhase};

use super::deployment::{server_container, server_deployment};
use crate::session::{Session, api_error};

/// The request that the server keeps up to date; an error says what is missing, and what helps.
pub(crate) async fn kept_status(session: &Session, patience: Duration) -> Result<ServerStatusRequest> {
    let namespace = session.namespace();
    let Ok(answer) = timeout(patience, session.api::<ServerStatusRequest>().get(SERVER_STATUS_NAME)).await else {
        bail!("the Kubernetes API server did not answer within {patience:?}");
    };
    match answer {
        Ok(kept) if *kept.status.phase() == ServerStatusRequestPhase::Processed => Ok(kept),
        Ok(_) => bail!("the server in namespace {namespace} has not written its status yet: is it running?"),
        Err(kube::Error::Api(refusal)) if refusal.code == 403 => {
            bail!("{}; you need the right to get serverstatusrequests.velero.io there", refusal.message)
        }
        Err(kube::Error::Api(refusal)) if refusal.code == 404 => Err(what_is_missing(session, &refusal).await),
        Err(error) => Err(api_error(error)),
    }
}

/// Says whether the definitions, the namespace or only the request is missing.
async fn what_is_missing(session: &Session, refusal: &Status) -> Error {
    let named = refusal.details.as_ref().is_some_and(|details| details.name == SERVER_STATUS_NAME);
    if !named {
        return anyhow!("the cluster knows no ServerStatusRequests: Velero is not installed, see velero install");
    }
    let namespace = session.namespace();
    let namespaces: Api<Namespace> = Api::all(session.cluster.client().clone());
    if let Ok(None) = namespaces.get_metadata_opt(namespace).await {
        return anyhow!("namespace {namespace} does not exist: --namespace names that of the server");
    }
    let deployment = server_deployment(session).await.ok().flatten();
    let image = deployment.as_ref().and_then(server_container).and_then(|container| container.image.as_deref());
    let deployed = image.map(|image| format!("; the image of its Deployment is {image}")).unwrap_or_default();
    anyhow!(
        "namespace {namespace} has no ServerStatusRequest {SERVER_STATUS_NAME}: no server has started there, or one that \
         keeps none, as the original Velero, whose version and status cannot be known without asking it{deployed}"
    )
}

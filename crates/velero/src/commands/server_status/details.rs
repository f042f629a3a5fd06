//! Collecting what `velero server status --details` shows.

use anyhow::Result;
use futures::{join, try_join};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;
use kube::api::ListParams;
use velero_api::metadata;
use velero_api::v1::{Backup, BackupStorageLocation, DeleteBackupRequest, Restore, ServerStatusRequest};

use super::deployment::{availability, server_deployment};
use crate::output::{Availability, Part, ServerDetails, Work, WorkOverview};
use crate::session::{Session, api_error};

/// How the pods of node agents are marked.
const NODE_AGENT_ROLE: (&str, &str) = ("role", "node-agent");

/// Collects all parts at the same time; a part that cannot be read says why and keeps nobody else.
pub(super) async fn collect(session: &Session, kept: &ServerStatusRequest) -> ServerDetails {
    let (deployment, node_agents, locations, work) = join!(
        server_deployment(session),
        node_agents(session),
        session.list::<BackupStorageLocation>(""),
        all_work(session),
    );
    let locations = locations.map(|listed| listed.items.iter().map(Into::into).collect());
    ServerDetails {
        deployment: Part::from(deployment.map(|found| found.as_ref().map(availability))),
        node_agents: Part::from(node_agents),
        locations: Part::from(locations),
        plugins: kept.status.plugins.clone(),
        work: Part::from(work.map(WorkOverview::from)),
    }
}

async fn node_agents(session: &Session) -> Result<Vec<Availability>> {
    let api: Api<DaemonSet> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let listed = api.list(&ListParams::default()).await.map_err(api_error)?;
    Ok(listed.items.iter().filter(|set| is_node_agent(set)).map(ready_agents).collect())
}

fn is_node_agent(set: &DaemonSet) -> bool {
    let labels = set.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref()?.labels.as_ref());
    let (key, value) = NODE_AGENT_ROLE;
    labels.is_some_and(|labels| labels.get(key).is_some_and(|role| role == value))
}

fn ready_agents(set: &DaemonSet) -> Availability {
    let status = set.status.as_ref();
    Availability {
        name: metadata::name(set).to_owned(),
        ready: status.map_or(0, |status| status.number_ready),
        desired: status.map_or(0, |status| status.desired_number_scheduled),
    }
}

async fn all_work(session: &Session) -> Result<Vec<Work>> {
    let (backups, restores, deletions) =
        try_join!(session.list::<Backup>(""), session.list::<Restore>(""), session.list::<DeleteBackupRequest>(""))?;
    let backups = backups.items.iter().map(Work::from);
    let restores = restores.items.iter().map(Work::from);
    Ok(backups.chain(restores).chain(deletions.items.iter().map(Work::from)).collect())
}

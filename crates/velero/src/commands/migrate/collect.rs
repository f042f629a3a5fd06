//! Reading an installed Velero.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::Value;
use velero_api::GROUP;
use velero_api::v1::BackupStorageLocation;
use velero_store::is_built_in;

use crate::commands::location_config::{Given, location_config};
use crate::migration::{Installed, Located, Release};
use crate::session::{Session, api_error};

/// How many objects are asked for at once.
const PAGE: u32 = 500;
/// The container of the server.
const SERVER: &str = "velero";
/// How Helm marks the Secrets of releases that are there: after an installation or a rollback that failed none is deployed.
const RELEASES: &str = "owner=helm,status notin (superseded,uninstalled,uninstalling)";
/// The key of the release in it.
const RELEASE: &str = "release";

/// Reads everything that tells how a Velero is installed and used.
pub(super) async fn collect(session: &Session) -> Result<Installed> {
    let own =
        |version: &'static str, kind: &'static str, plural: &'static str| list(session, GROUP, version, kind, plural);
    let deployments = list(session, "apps", "v1", "Deployment", "deployments").await?;
    let daemon_sets = list(session, "apps", "v1", "DaemonSet", "daemonsets").await?;
    let mut locations = Vec::new();
    for object in own("v1", "BackupStorageLocation", "backupstoragelocations").await? {
        let refusal = refusal(session, &object).await;
        locations.push(Located { object, refusal });
    }
    Ok(Installed {
        servers: deployments.into_iter().filter(is_server).collect(),
        agents: daemon_sets.into_iter().filter(is_agent).collect(),
        config_maps: list(session, "", "v1", "ConfigMap", "configmaps").await?,
        accounts: list(session, "", "v1", "ServiceAccount", "serviceaccounts").await?,
        schedules: own("v1", "Schedule", "schedules").await?,
        backups: own("v1", "Backup", "backups").await?,
        restores: own("v1", "Restore", "restores").await?,
        locations,
        snapshot_locations: own("v1", "VolumeSnapshotLocation", "volumesnapshotlocations").await?,
        repositories: own("v1", "BackupRepository", "backuprepositories").await?,
        pod_volume_backups: own("v1", "PodVolumeBackup", "podvolumebackups").await?,
        data_uploads: own("v2alpha1", "DataUpload", "datauploads").await?,
        releases: releases(session).await?,
    })
}

fn is_server(deployment: &Value) -> bool {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
    containers.is_some_and(|containers| containers.iter().any(|container| container["name"] == SERVER))
}

/// The DaemonSets of node agents, whatever they are called.
fn is_agent(daemon_set: &Value) -> bool {
    const NAMES: [&str; 3] = ["node-agent", "node-agent-windows", "restic"];
    NAMES.iter().any(|name| daemon_set["metadata"]["name"] == *name)
        || daemon_set["spec"]["template"]["metadata"]["labels"]["role"] == "node-agent"
}

/// All objects of a kind in the namespace, page by page; none where there is no such kind.
async fn list(session: &Session, group: &str, version: &str, kind: &str, plural: &str) -> Result<Vec<Value>> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let api: Api<DynamicObject> =
        Api::namespaced_with(session.cluster.client().clone(), session.namespace(), &resource);
    let mut parameters = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = match api.list(&parameters).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(found),
            Err(error) => return Err(api_error(error)),
        };
        for object in page.items {
            // The items of a list do not say what they are.
            let mut object = serde_json::to_value(object)?;
            object["apiVersion"] = resource.api_version.clone().into();
            object["kind"] = kind.into();
            found.push(object);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// What is wrong with the description of a location that needs no plugin. One in a directory is the server's to judge.
async fn refusal(session: &Session, object: &Value) -> Option<String> {
    let location: BackupStorageLocation = match serde_json::from_value(object.clone()) {
        Ok(location) => location,
        Err(error) => return Some(format!("it cannot be understood: {error}")),
    };
    let provider = &location.spec.provider;
    if !is_built_in(provider) || provider.ends_with("fs") {
        return None;
    }
    match location_config(session, &location, &Given::default()).await {
        Ok(config) => velero_store::check::refusal(&config).await.map(|finding| finding.to_string()),
        Err(error) => Some(format!("{error:#}")),
    }
}

async fn releases(session: &Session) -> Result<Vec<Release>> {
    let api: Api<Secret> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let listed = api.list(&ListParams::default().labels(RELEASES)).await.map_err(api_error)?;
    let data = listed.items.into_iter().filter_map(|secret| secret.data?.remove(RELEASE));
    Ok(Release::newest(data.filter_map(|data| Release::read(&data.0)).filter(Release::is_of_velero)))
}

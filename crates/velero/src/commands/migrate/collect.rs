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
use crate::migration::{Installed, Located, Release, Unread};
use crate::session::{Session, api_error};

/// How many objects are asked for at once.
const PAGE: u32 = 500;
/// The container of the server.
const SERVER: &str = "velero";
/// The kind of locations.
const LOCATION: &str = "BackupStorageLocation";
/// The kind of objects that Helm keeps releases in.
const RELEASES_IN: &str = "Secret";
/// How Helm marks the Secrets of releases that are there: after an installation or a rollback that failed none is deployed.
const RELEASES: &str = "owner=helm,status notin (superseded,uninstalled,uninstalling)";
/// The key of the release in it.
const RELEASE: &str = "release";

/// Reads everything that tells how a Velero is installed and used, as far as it may be read.
pub(super) async fn collect(session: &Session) -> Result<Installed> {
    let mut reader = Reader { session, unread: Vec::new() };
    let deployments = reader.list("apps", "v1", "Deployment", "deployments").await?;
    let daemon_sets = reader.list("apps", "v1", "DaemonSet", "daemonsets").await?;
    let releases = reader.releases().await?;
    let locations = reader.locations().await?;
    Ok(Installed {
        servers: deployments.into_iter().filter(is_server).collect(),
        agents: daemon_sets.into_iter().filter(is_agent).collect(),
        config_maps: reader.list("", "v1", "ConfigMap", "configmaps").await?,
        accounts: reader.list("", "v1", "ServiceAccount", "serviceaccounts").await?,
        schedules: reader.own("v1", "Schedule", "schedules").await?,
        backups: reader.own("v1", "Backup", "backups").await?,
        restores: reader.own("v1", "Restore", "restores").await?,
        locations,
        snapshot_locations: reader.own("v1", "VolumeSnapshotLocation", "volumesnapshotlocations").await?,
        repositories: reader.own("v1", "BackupRepository", "backuprepositories").await?,
        pod_volume_backups: reader.own("v1", "PodVolumeBackup", "podvolumebackups").await?,
        data_uploads: reader.own("v2alpha1", "DataUpload", "datauploads").await?,
        releases,
        unread: reader.unread,
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

/// Reads objects, and notes those that may not be read.
struct Reader<'a> {
    session: &'a Session,
    unread: Vec<Unread>,
}

impl Reader<'_> {
    /// All objects of a kind of Velero's own.
    async fn own(&mut self, version: &str, kind: &str, plural: &str) -> Result<Vec<Value>> {
        self.list(GROUP, version, kind, plural).await
    }

    /// All objects of a kind in the namespace, page by page; none where there is no such kind, or it may not be listed.
    async fn list(&mut self, group: &str, version: &str, kind: &str, plural: &str) -> Result<Vec<Value>> {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.session.cluster.client().clone(), self.session.namespace(), &resource);
        let mut parameters = ListParams::default().limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page = match api.list(&parameters).await {
                Ok(page) => page,
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(found),
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    self.note(kind, &status.message);
                    return Ok(Vec::new());
                }
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

    async fn releases(&mut self) -> Result<Vec<Release>> {
        let api: Api<Secret> = Api::namespaced(self.session.cluster.client().clone(), self.session.namespace());
        let listed = match api.list(&ListParams::default().labels(RELEASES)).await {
            Ok(listed) => listed,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                self.note(RELEASES_IN, &status.message);
                return Ok(Vec::new());
            }
            Err(error) => return Err(api_error(error)),
        };
        let data = listed.items.into_iter().filter_map(|secret| secret.data?.remove(RELEASE));
        Ok(Release::newest(data.filter_map(|data| Release::read(&data.0)).filter(Release::is_of_velero)))
    }

    /// The locations, judged by what can be read of them; the Secrets that they refer to may not all be.
    async fn locations(&mut self) -> Result<Vec<Located>> {
        let mut locations = Vec::new();
        for object in self.own("v1", LOCATION, "backupstoragelocations").await? {
            match refusal(self.session, &object).await {
                Ok(refusal) => locations.push(Located { object, refusal }),
                Err(error) if self.unread.iter().any(|unread| unread.object == RELEASES_IN) => {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    self.note(&format!("{LOCATION}/{name}"), &format!("{error:#}"));
                }
                Err(error) => locations.push(Located { object, refusal: Some(format!("{error:#}")) }),
            }
        }
        Ok(locations)
    }

    fn note(&mut self, object: &str, reason: &str) {
        self.unread.push(Unread { object: object.to_owned(), reason: reason.to_owned() });
    }
}

/// What is wrong with the description of a location that needs no plugin; an error says why that is not known. One in a
/// directory is the server's to judge.
async fn refusal(session: &Session, object: &Value) -> Result<Option<String>> {
    let location: BackupStorageLocation = match serde_json::from_value(object.clone()) {
        Ok(location) => location,
        Err(error) => return Ok(Some(format!("it cannot be understood: {error}"))),
    };
    let provider = &location.spec.provider;
    if !is_built_in(provider) || provider.ends_with("fs") {
        return Ok(None);
    }
    let config = location_config(session, &location, &Given::default()).await?;
    Ok(velero_store::check::refusal(&config).await.map(|finding| finding.to_string()))
}

//! What is there to be removed, and what will stay.

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, ResourceExt};
use velero_api::labels;
use velero_api::v1::BackupStorageLocation;

use crate::install::{CLAIM, SERVER};
use crate::session::{Session, api_error};

/// The label of all that an installation makes.
pub(super) const SELECTOR: &str = "component=velero";

/// Whose namespace it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The installation made it.
    Made,
    /// It was there before.
    Foreign,
}

/// What is in the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// The namespace; none when it does not exist.
    pub(super) namespace: Option<Home>,
    /// Where backups lie.
    pub(super) locations: Vec<String>,
    /// The volume with backups.
    pub(super) volume: Option<String>,
    /// The namespace of another Velero, which needs the definitions.
    pub(super) other: Option<String>,
}

/// Looks around; a namespace without a Velero is refused.
pub(super) async fn look(session: &Session) -> Result<Found> {
    let client = session.cluster.client();
    let name = session.namespace();
    let servers: Api<Deployment> = Api::all(client.clone());
    let servers = servers.list(&ListParams::default().labels(SELECTOR)).await.map_err(api_error)?;
    let homes: Vec<String> =
        servers.items.iter().filter(|server| is_server(server)).filter_map(Deployment::namespace).collect();
    let other = homes.iter().find(|home| *home != name).cloned();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(namespace) = namespaces.get_metadata_opt(name).await.map_err(api_error)? else {
        return Ok(Found { other, ..Found::default() });
    };
    let home = if is_labelled(&namespace.metadata) { Home::Made } else { Home::Foreign };
    if home == Home::Foreign && !homes.iter().any(|home| home == name) {
        bail!("no Velero is installed in namespace {name:?}; choose its namespace with --namespace");
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), name);
    let claim = claims.get_opt(CLAIM).await.map_err(api_error)?;
    let volume = claim.and_then(|claim| claim.spec).and_then(|spec| spec.volume_name);
    Ok(Found { namespace: Some(home), locations: locations(session).await?, volume, other })
}

fn is_labelled(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(labels::COMPONENT)).is_some_and(|value| value == labels::COMPONENT_VELERO)
}

fn is_server(deployment: &Deployment) -> bool {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.is_some_and(|pod| pod.containers.iter().any(|container| container.name == SERVER))
}

/// Where the locations keep their backups, in words.
async fn locations(session: &Session) -> Result<Vec<String>> {
    let listed = match session.api::<BackupStorageLocation>().list(&ListParams::default()).await {
        Ok(listed) => listed.items,
        // Without their definition there are none.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(api_error(error)),
    };
    Ok(listed.iter().map(describe).collect())
}

fn describe(location: &BackupStorageLocation) -> String {
    let spec = &location.spec;
    let place = match spec.config.get("path") {
        Some(path) if spec.provider.ends_with("fs") => format!("directory {path}"),
        _ => format!("bucket {}", spec.object_storage.bucket),
    };
    let prefix = match spec.object_storage.prefix.as_str() {
        "" => String::new(),
        prefix => format!(", prefix {prefix}"),
    };
    format!("the backups of location {}: {} {place}{prefix}", location.name_any(), spec.provider)
}

impl Found {
    /// What will happen, before the question.
    pub(super) fn announcement(&self, namespace: &str) -> String {
        let removed = match self.namespace {
            Some(Home::Made) => format!("Namespace {namespace:?} goes with everything in it"),
            Some(Home::Foreign) => format!("What was installed in namespace {namespace:?} goes"),
            None => "The roles go".to_owned(),
        };
        let definitions = if self.other.is_some() { "" } else { ", and so do the custom resources of velero.io" };
        let left: String = self.left(namespace).iter().map(|line| format!("\n  {line}")).collect();
        let left = if left.is_empty() { left } else { format!(" These stay:{left}") };
        format!("{removed}{definitions}.{left}")
    }

    /// What stays, line by line.
    pub(super) fn left(&self, namespace: &str) -> Vec<String> {
        let mut lines = self.locations.clone();
        if let Some(volume) = &self.volume {
            lines.push(format!(
                "PersistentVolume {volume}: it holds backups, and a new installation in namespace {namespace:?} will \
                 find them"
            ));
        }
        if self.namespace == Some(Home::Foreign) {
            lines.push(format!("namespace {namespace:?}: it was not made by the installation"));
        }
        if let Some(other) = &self.other {
            lines.push(format!("the custom resource definitions: the Velero in namespace {other:?} needs them"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_named() {
        let found = Found {
            namespace: Some(Home::Foreign),
            locations: vec!["the backups of location default: aws bucket b".to_owned()],
            volume: Some("pv-1".to_owned()),
            other: Some("second".to_owned()),
        };
        let left = found.left("mine").join("\n");
        for expected in ["aws bucket b", "PersistentVolume pv-1", "namespace \"mine\"", "\"second\" needs them"] {
            assert!(left.contains(expected), "{expected}: {left}");
        }
        assert!(Found::default().left("velero").is_empty());
        let made = Found { namespace: Some(Home::Made), ..Found::default() };
        assert!(made.announcement("velero").contains("everything in it"));
    }
}

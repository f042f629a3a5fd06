//! The records of the vSphere plugin in the cluster.

use std::time::Duration;

use futures::TryStreamExt;
use serde_json::{Value, json};
use velero_api::metadata;
use velero_api::v1::Backup;
use velero_cluster::{Cluster, Error as ClusterError, ResourceType, types};
use velero_plugin::item::text;
use velero_plugin::{Error, Result};

use crate::claim::{self, BACKUP_LABEL};
use crate::progress::{self, Taken};

/// How long a snapshot may take; hosts wait for ten minutes.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(300);

const PAGE: u32 = 500;

/// The ConfigMap with the features of the vSphere plugin, and the one that turns uploads off.
const FEATURES: &str = "velero-vsphere-plugin-feature-states";
const LOCAL_MODE: &str = "local-mode";

/// The type of Snapshot records.
pub fn snapshots() -> ResourceType {
    ResourceType::new("backupdriver.cnsdp.vmware.com/v1alpha1", "Snapshot", "snapshots", true)
}

/// The type of Upload records.
pub fn uploads() -> ResourceType {
    ResourceType::new("datamover.cnsdp.vmware.com/v1alpha1", "Upload", "uploads", true)
}

fn repository_claims() -> ResourceType {
    let api_version = "backupdriver.cnsdp.vmware.com/v1alpha1";
    ResourceType::new(api_version, "BackupRepositoryClaim", "backuprepositoryclaims", true)
}

/// The records of one backup.
pub(crate) struct Records<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) backup: &'a Backup,
}

impl Records<'_> {
    /// The Snapshot record of a claim: the one that the vSphere plugin has made during this backup, or a new one.
    pub(crate) async fn snapshot_of(&self, claim: &Value) -> Result<Value> {
        if let Some(noted) = claim::noted_snapshot(claim, self.backup) {
            return Ok(noted);
        }
        let namespace = text(claim, "/metadata/namespace");
        let selector = format!("{BACKUP_LABEL}={}", self.backup_name());
        let listed = self.list(&snapshots(), namespace, Some(&selector)).await?;
        match listed.into_iter().find(|snapshot| claim::is_of(snapshot, claim, self.backup)) {
            Some(found) => Ok(found),
            None => self.create_snapshot(namespace, text(claim, "/metadata/name")).await,
        }
    }

    async fn create_snapshot(&self, namespace: &str, claim: &str) -> Result<Value> {
        let name = format!("snap-{}", uuid::Uuid::new_v4());
        let mut snapshot = json!({
            "apiVersion": "backupdriver.cnsdp.vmware.com/v1alpha1",
            "kind": "Snapshot",
            "metadata": {"name": name, "namespace": namespace, "labels": {(BACKUP_LABEL): self.backup_name()}},
            "spec": {
                "resourceHandle": {"apiGroup": "", "kind": "PersistentVolumeClaim", "name": claim},
                "backupRepository": self.repository(namespace, claim).await?,
            },
        });
        snapshot = self.cluster.create(&snapshots(), Some(namespace), &snapshot).await?;
        tracing::info!(namespace, name, claim, "Created a Snapshot record");
        // The backup driver begins with records whose phase is New, and the status is not taken on creation.
        snapshot["status"] = json!({"phase": "New"});
        match self.cluster.update_status(&snapshots(), Some(namespace), &snapshot).await {
            // The backup driver was faster.
            Err(ClusterError::Conflict(_)) => Ok(snapshot),
            outcome => Ok(outcome?),
        }
    }

    /// Waits until the snapshot of a record is taken. One that takes too long is cancelled.
    pub(crate) async fn wait_until_taken(&self, snapshot: &Value) -> Result<Value> {
        let (namespace, name) = (text(snapshot, "/metadata/namespace"), text(snapshot, "/metadata/name"));
        let settled = |state: Option<&Value>| state.is_none_or(|state| progress::taken(state) != Taken::NotYet);
        let kind = snapshots();
        let waiting = self.cluster.wait_until(kind.item(Some(namespace), name), SNAPSHOT_TIMEOUT, settled);
        let problem = match waiting.await {
            Ok(Some(settled)) => match progress::taken(&settled) {
                Taken::Never(problem) => problem,
                _ => return Ok(settled),
            },
            Ok(None) => "it is gone".to_owned(),
            Err(ClusterError::TimedOut { .. }) => {
                self.cancel_snapshot(namespace, name).await?;
                let seconds = SNAPSHOT_TIMEOUT.as_secs();
                format!("no snapshot after {seconds}s; see whether the backup driver of the vSphere plugin runs")
            }
            Err(error) => return Err(error.into()),
        };
        Err(Error::Failed(format!("Snapshot record {namespace}/{name}: {problem}")))
    }

    /// The Upload of a Snapshot record.
    pub(crate) async fn upload_of(&self, snapshot_id: &str) -> Result<Option<Value>> {
        let all = self.list(&uploads(), self.velero_namespace(), None).await?;
        Ok(all.into_iter().find(|upload| text(upload, "/spec/snapshotReference") == snapshot_id))
    }

    /// Asks for the end of an upload.
    pub(crate) async fn cancel_upload(&self, upload: &Value) -> Result<()> {
        let patch = json!({"spec": {"uploadCancel": true}});
        let name = text(upload, "/metadata/name");
        unless_gone(self.cluster.merge_patch(uploads().item(Some(self.velero_namespace()), name), &patch).await)
    }

    /// Asks for the end of a snapshot whose upload has not begun.
    pub(crate) async fn cancel_snapshot(&self, namespace: &str, name: &str) -> Result<()> {
        let patch = json!({"spec": {"snapshotCancel": true}});
        unless_gone(self.cluster.merge_patch(snapshots().item(Some(namespace), name), &patch).await)
    }

    /// The repository that snapshots of a namespace are uploaded to; none in local mode.
    async fn repository(&self, namespace: &str, claim: &str) -> Result<String> {
        let velero = self.velero_namespace();
        let features = self.cluster.get(types::CONFIG_MAPS.item(Some(velero), FEATURES)).await?.unwrap_or_default();
        if text(&features["data"], &format!("/{LOCAL_MODE}")) == "true" {
            return Ok(String::new());
        }
        let location = self.backup.spec.storage_location.as_str();
        let locations = ResourceType::new("velero.io/v1", "BackupStorageLocation", "backupstoragelocations", true);
        let location = self.cluster.get(locations.item(Some(velero), location)).await?.unwrap_or_default();
        let bucket = text(&location, "/spec/objectStorage/bucket");
        let claims = self.list(&repository_claims(), velero, None).await?;
        let found = claims.iter().find(|claim| serves(claim, namespace, bucket));
        let missing = || {
            Error::Failed(format!(
                "claim {namespace}/{claim}: no BackupRepositoryClaim in namespace {velero} gives namespace {namespace} \
                 the bucket {bucket:?}; install velero-plugin-for-vsphere, which makes it"
            ))
        };
        found.map(|claim| text(claim, "/backupRepository").to_owned()).ok_or_else(missing)
    }

    async fn list(&self, kind: &ResourceType, namespace: &str, selector: Option<&str>) -> Result<Vec<Value>> {
        let pages: Vec<_> = match self.cluster.list_pages(kind, Some(namespace), selector, PAGE).try_collect().await {
            Ok(pages) => pages,
            // The controllers of the vSphere plugin, or those of this cluster's supervisor, are not here.
            Err(ClusterError::NotFound(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let items = pages.iter().flat_map(|page: &velero_cluster::Page| &page.items);
        Ok(items.map(velero_cluster::RawItem::to_value).collect::<Result<_, _>>()?)
    }

    fn backup_name(&self) -> &str {
        metadata::name(self.backup)
    }

    fn velero_namespace(&self) -> &str {
        metadata::namespace(self.backup)
    }
}

/// Whether a claim of a repository is for a namespace and bucket, and has its repository. The name of the parameters is
/// misspelt where it is from.
fn serves(claim: &Value, namespace: &str, bucket: &str) -> bool {
    let namespaces = claim["allowedNamespaces"].as_array();
    let is_allowed = namespaces.is_some_and(|all| all.iter().any(|allowed| allowed == namespace));
    is_allowed && !text(claim, "/backupRepository").is_empty() && text(claim, "/repopsitoryParameters/bucket") == bucket
}

fn unless_gone(outcome: Result<Value, ClusterError>) -> Result<()> {
    match outcome {
        Err(ClusterError::NotFound(_)) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_for_its_namespaces_and_its_bucket() {
        let claim = |repository: &str| json!({"allowedNamespaces": ["shop"], "backupRepository": repository, "repopsitoryParameters": {"bucket": "b"}});
        for (repository, namespace, bucket, expected) in [
            ("br-1", "shop", "b", true),
            ("", "shop", "b", false),
            ("br-1", "other", "b", false),
            ("br-1", "shop", "c", false),
        ] {
            assert_eq!(serves(&claim(repository), namespace, bucket), expected, "{repository} {namespace} {bucket}");
        }
    }
}

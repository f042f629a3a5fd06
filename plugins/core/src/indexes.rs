//! Relations between objects that one can only find by looking at all of them.
//!
//! Each index lists its objects once a backup, when it is first asked, and keeps names only. A backup of everything
//! lists the whole cluster once; a backup of some namespaces lists each of them once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, OnceCell};
use velero_api::v1::Backup;
use velero_cluster::{Cluster, Discovery, ResourceType, types};
use velero_plugin::{Error, Result};

const PAGE_SIZE: u32 = 500;

/// Names by namespace and key.
type Names = HashMap<(String, String), Vec<String>>;

/// The running pods that mount a claim.
pub struct MountIndex {
    lists: NamespacedLists,
}

impl MountIndex {
    /// An index that is not filled yet.
    pub fn new(cluster: &Cluster) -> Self {
        Self { lists: NamespacedLists::new(cluster, types::PODS.clone()) }
    }

    /// The names of the running pods that mount a claim.
    pub async fn pods(&self, backup: &Backup, namespace: &str, claim: &str) -> Result<Vec<String>> {
        self.lists.find::<PodDocument>(backup, None, namespace, claim).await
    }
}

/// The claims that share a value of the label for volume groups.
pub struct ClaimGroupIndex {
    lists: NamespacedLists,
}

impl ClaimGroupIndex {
    /// An index that is not filled yet.
    pub fn new(cluster: &Cluster) -> Self {
        Self { lists: NamespacedLists::new(cluster, types::PERSISTENT_VOLUME_CLAIMS.clone()) }
    }

    /// The names of the claims of a group.
    pub async fn claims(&self, backup: &Backup, namespace: &str, group: &str) -> Result<Vec<String>> {
        let key = backup.spec.volume_group_snapshot_label_key.as_str();
        self.lists.find::<ClaimDocument>(backup, Some(key), namespace, group).await
    }
}

/// Lists of one type, each read once: of the whole cluster or of one namespace.
struct NamespacedLists {
    cluster: Cluster,
    resource_type: ResourceType,
    lists: Mutex<HashMap<Option<String>, Arc<OnceCell<Names>>>>,
}

impl NamespacedLists {
    fn new(cluster: &Cluster, resource_type: ResourceType) -> Self {
        Self { cluster: cluster.clone(), resource_type, lists: Mutex::default() }
    }

    async fn find<D: Document>(
        &self,
        backup: &Backup,
        label: Option<&str>,
        namespace: &str,
        key: &str,
    ) -> Result<Vec<String>> {
        let scope = (!takes_all_namespaces(backup)).then(|| namespace.to_owned());
        let list = Arc::clone(self.lists.lock().await.entry(scope.clone()).or_default());
        let names = list.get_or_try_init(|| self.read::<D>(scope.as_deref(), label)).await?;
        Ok(names.get(&(namespace.to_owned(), key.to_owned())).cloned().unwrap_or_default())
    }

    async fn read<D: Document>(&self, namespace: Option<&str>, label: Option<&str>) -> Result<Names> {
        let mut names = Names::new();
        let mut pages = self.cluster.list_pages(&self.resource_type, namespace, label, PAGE_SIZE).boxed();
        while let Some(page) = pages.try_next().await? {
            for item in &page.items {
                let document: D = parse(item)?;
                let namespace = item.namespace().unwrap_or_default();
                for key in document.keys(label) {
                    let found = names.entry((namespace.to_owned(), key)).or_default();
                    if found.last().is_none_or(|last| last != item.name()) {
                        found.push(item.name().to_owned());
                    }
                }
            }
        }
        Ok(names)
    }
}

/// The part of an object that an index reads.
trait Document: DeserializeOwned {
    /// What the object is found by.
    fn keys(self, label: Option<&str>) -> Vec<String>;
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodDocument {
    metadata: PodMetadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodMetadata {
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: String,
    volumes: Vec<Volume>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    persistent_volume_claim: Option<ClaimSource>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSource {
    claim_name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodStatus {
    phase: String,
}

impl Document for PodDocument {
    fn keys(self, _: Option<&str>) -> Vec<String> {
        let runs = self.status.phase == "Running"
            && !self.spec.node_name.is_empty()
            && self.metadata.deletion_timestamp.is_none();
        let claims = self.spec.volumes.into_iter().filter_map(|volume| volume.persistent_volume_claim);
        claims.filter(|_| runs).map(|claim| claim.claim_name).collect()
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClaimDocument {
    metadata: ClaimMetadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClaimMetadata {
    labels: HashMap<String, String>,
}

impl Document for ClaimDocument {
    fn keys(mut self, label: Option<&str>) -> Vec<String> {
        label.and_then(|key| self.metadata.labels.remove(key)).into_iter().collect()
    }
}

fn takes_all_namespaces(backup: &Backup) -> bool {
    let included = &backup.spec.included_namespaces;
    included.is_empty() || included.iter().any(|namespace| namespace == "*")
}

fn parse<D: DeserializeOwned>(item: &velero_cluster::RawItem) -> Result<D> {
    serde_json::from_slice(item.as_bytes()).map_err(|error| {
        let what = item.resource_type().item(item.namespace(), item.name());
        Error::Item(format!("cannot read {what}: {error}"))
    })
}

/// What is bound to a service account.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The cluster role bindings that name it.
    pub bindings: BTreeSet<String>,
    /// The cluster roles they refer to.
    pub roles: BTreeSet<String>,
}

/// The cluster role bindings of each service account.
pub struct BindingIndex {
    cluster: Cluster,
    resource_type: Option<ResourceType>,
    rights: OnceCell<HashMap<(String, String), Rights>>,
}

impl BindingIndex {
    /// An index that is not filled yet; it stays empty where the cluster has no RBAC.
    pub fn new(cluster: &Cluster, discovery: &Discovery) -> Self {
        let resource_type = discovery.resolve("clusterrolebindings.rbac.authorization.k8s.io").cloned();
        Self { cluster: cluster.clone(), resource_type, rights: OnceCell::new() }
    }

    /// What is bound to a service account, if anything is.
    pub async fn rights(&self, namespace: &str, name: &str) -> Result<Option<&Rights>> {
        let rights = self.rights.get_or_try_init(|| self.read()).await?;
        Ok(rights.get(&(namespace.to_owned(), name.to_owned())))
    }

    async fn read(&self) -> Result<HashMap<(String, String), Rights>> {
        let mut rights = HashMap::new();
        let Some(resource_type) = &self.resource_type else {
            return Ok(rights);
        };
        let mut pages = self.cluster.list_pages(resource_type, None, None, PAGE_SIZE).boxed();
        while let Some(page) = pages.try_next().await? {
            for item in &page.items {
                add_binding(&mut rights, item.name(), parse(item)?);
            }
        }
        Ok(rights)
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Binding {
    subjects: Option<Vec<Subject>>,
    role_ref: RoleReference,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Subject {
    kind: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RoleReference {
    name: String,
}

fn add_binding(rights: &mut HashMap<(String, String), Rights>, name: &str, binding: Binding) {
    let accounts = binding.subjects.into_iter().flatten().filter(|subject| subject.kind == "ServiceAccount");
    for account in accounts {
        let found = rights.entry((account.namespace, account.name)).or_default();
        found.bindings.insert(name.to_owned());
        found.roles.insert(binding.role_ref.name.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_running_pods_mount_claims() {
        let pod = |phase: &str, node: &str, deleted: bool| {
            let document = json!({
                "metadata": {"name": "web", "deletionTimestamp": deleted.then_some("2026-01-01T00:00:00Z")},
                "spec": {"nodeName": node, "volumes": [
                    {"name": "a", "emptyDir": {}},
                    {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
                ]},
                "status": {"phase": phase},
            });
            serde_json::from_value::<PodDocument>(document).unwrap().keys(None)
        };
        assert_eq!(pod("Running", "node-1", false), ["data"]);
        assert!(pod("Pending", "node-1", false).is_empty());
        assert!(pod("Running", "", false).is_empty());
        assert!(pod("Running", "node-1", true).is_empty());
    }

    #[test]
    fn a_binding_counts_for_each_service_account_it_names() {
        let binding = json!({
            "subjects": [
                {"kind": "ServiceAccount", "namespace": "shop", "name": "web"},
                {"kind": "ServiceAccount", "namespace": "bank", "name": "web"},
                {"kind": "User", "name": "web"},
            ],
            "roleRef": {"name": "viewer"},
        });
        let mut rights = HashMap::new();
        add_binding(&mut rights, "b1", serde_json::from_value(binding).unwrap());
        add_binding(&mut rights, "b2", serde_json::from_value(json!({"subjects": null, "roleRef": {}})).unwrap());
        assert_eq!(rights.len(), 2);
        let web = &rights[&("shop".to_owned(), "web".to_owned())];
        assert_eq!((web.bindings.len(), web.roles.contains("viewer")), (1, true));
    }
}

//! Velero's own objects in the server's namespace.
//!
//! Lists tolerate objects that cannot be read: one malformed object must never hide the others.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, SecretKeySelector};
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::{ListMeta, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use velero_api::metadata;
use velero_api::resource::VeleroResource;
use velero_cluster::{Cluster, Error as ClusterError};

use crate::runtime::error::{Error, Result};
use crate::runtime::named::Named;

/// How many objects a page of a list has.
pub(crate) const PAGE: u32 = 250;
/// How long a read may take with all its tries: an answer that falls silent half way has no other end.
const LONGEST_READ: Duration = Duration::from_secs(300);

/// A page of a list. Its objects stay texts until each has its turn: as values in memory they are many times as large.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<Box<RawValue>>>,
}

/// The objects of one namespace.
#[derive(Clone)]
pub(crate) struct Objects {
    cluster: Cluster,
    namespace: String,
}

impl Objects {
    pub(crate) fn new(cluster: Cluster, namespace: &str) -> Self {
        Self { cluster, namespace: namespace.to_owned() }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn api<K: VeleroResource>(&self) -> Api<K> {
        Api::namespaced(self.cluster.client().clone(), &self.namespace)
    }

    /// Reads an object; `None` when it does not exist.
    pub(crate) async fn get<K: VeleroResource>(&self, name: &str) -> Result<Option<K>> {
        let found = in_time(self.api::<K>().get_opt(name)).await;
        Ok(found.map_err(|error| failed::<K>("get", name, error))?)
    }

    /// All readable objects that carry the labels of a selector; an empty one means all.
    pub(crate) async fn list<K: VeleroResource>(&self, selector: &str) -> Result<Vec<K>> {
        let mut found = Vec::new();
        self.visit(selector, |object| found.push(object)).await?;
        Ok(found)
    }

    /// Shows all readable objects one by one, page by page, so that many of them need little memory.
    pub(crate) async fn visit<K: VeleroResource>(&self, selector: &str, mut visitor: impl FnMut(K)) -> Result<()> {
        let list = Request::new(K::url_path(&(), Some(&self.namespace)));
        let mut parameters = ListParams::default().labels(selector).limit(PAGE);
        loop {
            let page = self.page(&list, &parameters).await.map_err(|error| failed::<K>("list", "", error))?;
            page.items.into_iter().flatten().filter_map(|item| read::<K>(&item)).for_each(&mut visitor);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters.continue_token = Some(token),
                None => return Ok(()),
            }
        }
    }

    async fn page(&self, list: &Request, parameters: &ListParams) -> Result<Page, kube::Error> {
        let request = list.list(parameters).map_err(kube::Error::BuildRequest)?;
        in_time(self.cluster.client().request(request)).await
    }

    pub(crate) async fn create<K: VeleroResource>(&self, object: &K) -> Result<K> {
        let name = metadata::name(object);
        let created = self.api::<K>().create(&PostParams::default(), object).await;
        Ok(created.map_err(|error| failed::<K>("create", name, error))?)
    }

    /// Sends what differs between two states of an object; a conflict if it changed in between.
    pub(crate) async fn patch<K: VeleroResource>(&self, before: &K, after: &K) -> Result<K> {
        Ok(self.cluster.patch_changes_if_unchanged(before, after).await?)
    }

    /// Sends what differs between two states of an object, whatever else changed in it since; a conflict if it is
    /// another object of the same name.
    pub(crate) async fn force<K: VeleroResource>(&self, before: &K, after: &K) -> Result<K> {
        Ok(self.cluster.patch_changes(before, after).await?)
    }

    /// Sends what differs between two states of an object; a conflict if it changed since it was `found` so.
    pub(crate) async fn patch_since<K: VeleroResource>(&self, found: &K, before: &K, after: &K) -> Result<K> {
        Ok(self.cluster.patch_changes_since(found, before, after).await?)
    }

    /// Deletes an object, and never another one that has its name by now; one that is gone already is fine.
    pub(crate) async fn delete<K: VeleroResource>(&self, object: &K) -> Result<()> {
        let own = Preconditions { uid: Some(metadata::uid(object).to_owned()), resource_version: None };
        let parameters = DeleteParams::default().preconditions(own);
        match self.api::<K>().delete(metadata::name(object), &parameters).await {
            Ok(_) => Ok(()),
            Err(error) => match failed::<K>("delete", metadata::name(object), error) {
                error if error.is_not_found() || error.is_conflict() => Ok(()),
                error => Err(error.into()),
            },
        }
    }

    /// Reads one key of a Secret; `None` when the Secret or the key does not exist.
    async fn secret_value(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let api: Api<Secret> = Api::namespaced(self.cluster.client().clone(), &self.namespace);
        let secret = api.get_opt(name).await;
        let secret = secret.map_err(|error| ClusterError::from_kube(format!("get secret {name}"), error))?;
        Ok(secret.and_then(|secret| secret.data?.remove(key)).map(|value| value.0))
    }

    /// The value of a Secret that a field of an object refers to; an error that names both when there is none.
    pub(crate) async fn referred_secret<K: VeleroResource>(
        &self,
        object: &K,
        field: &str,
        wanted: &SecretKeySelector,
    ) -> Result<Vec<u8>> {
        let found = self.secret_value(&wanted.name, &wanted.key).await?;
        found.ok_or_else(|| {
            let SecretKeySelector { name: secret, key, .. } = wanted;
            let namespace = self.namespace();
            let problem = format!(
                "{field} refers to key {key:?} of secret {secret:?}, which does not exist in namespace {namespace:?}"
            );
            Error::unmet(K::KIND, metadata::name(object), problem)
        })
    }

    /// Reads a ConfigMap; `None` when it does not exist.
    pub(crate) async fn config_map(&self, name: &str) -> Result<Option<ConfigMap>> {
        let api: Api<ConfigMap> = Api::namespaced(self.cluster.client().clone(), &self.namespace);
        let found = api.get_opt(name).await;
        Ok(found.map_err(|error| ClusterError::from_kube(format!("get configmap {name}"), error))?)
    }
}

/// What a read answers, unless it takes too long.
async fn in_time<T>(read: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    let answer = tokio::time::timeout(LONGEST_READ, read).await;
    answer.unwrap_or_else(|late| Err(kube::Error::Service(late.into())))
}

/// Reads an object of a list; one that cannot be read is left out.
fn read<K: VeleroResource>(item: &RawValue) -> Option<K> {
    let found = serde_json::from_str(item.get());
    if let Err(error) = &found {
        let named = serde_json::from_str::<Named<K>>(item.get()).ok();
        let name = named.as_ref().map_or("", metadata::name);
        tracing::warn!(kind = K::KIND, name, %error, "An object cannot be read and is left out");
    }
    found.ok()
}

fn failed<K: VeleroResource>(verb: &str, name: &str, error: kube::Error) -> ClusterError {
    ClusterError::from_kube(format!("{verb} {} {name}", K::PLURAL).trim_end(), error)
}

#[cfg(test)]
mod tests {
    use velero_api::v1::Backup;

    use super::*;

    fn names(page: &str) -> Vec<String> {
        let page: Page = serde_json::from_str(page).unwrap();
        let backups = page.items.into_iter().flatten().filter_map(|item| read::<Backup>(&item));
        backups.map(|backup| metadata::name(&backup).to_owned()).collect()
    }

    #[test]
    fn an_object_that_cannot_be_read_hides_no_other() {
        let page = r#"{
            "apiVersion": "velero.io/v1", "kind": "BackupList", "metadata": {"continue": "", "resourceVersion": "7"},
            "items": [
                {"metadata": {"name": "a", "managedFields": [{"fieldsV1": {"f:spec": {}}}]}, "spec": {"ttl": "1h0m0s"}},
                {"metadata": {"name": "b"}, "spec": {"includedNamespaces": 7}},
                {"metadata": {"name": "c"}, "spec": {}, "status": {"phase": "Completed"}}
            ]
        }"#;
        assert_eq!(names(page), ["a", "c"]);
    }

    #[test]
    fn a_page_may_be_empty() {
        for page in [r#"{"metadata": {}, "items": []}"#, r#"{"metadata": {}, "items": null}"#, "{}"] {
            assert!(names(page).is_empty(), "{page}");
        }
    }
}

//! Velero's own objects in the server's namespace.
//!
//! Lists tolerate objects that cannot be read: one malformed object must never hide the others.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, SecretKeySelector};
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams, Preconditions};
use velero_api::metadata;
use velero_api::resource::VeleroResource;
use velero_cluster::{Cluster, Error as ClusterError};

use crate::runtime::error::{Error, Result};

/// How many objects a page of a list has.
const PAGE: u32 = 250;

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
        let found = self.api::<K>().get_opt(name).await;
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
        let client = self.cluster.client().clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, &self.namespace, &ApiResource::erase::<K>(&()));
        let mut parameters = ListParams::default().labels(selector).limit(PAGE);
        loop {
            let page = api.list(&parameters).await.map_err(|error| failed::<K>("list", "", error))?;
            for object in page.items {
                let name = object.name_any();
                match object.try_parse::<K>() {
                    Ok(object) => visitor(object),
                    Err(error) => {
                        tracing::warn!(kind = K::KIND, name, %error, "An object cannot be read and is left out")
                    }
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters.continue_token = Some(token),
                None => return Ok(()),
            }
        }
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

fn failed<K: VeleroResource>(verb: &str, name: &str, error: kube::Error) -> ClusterError {
    ClusterError::from_kube(format!("{verb} {} {name}", K::PLURAL).trim_end(), error)
}

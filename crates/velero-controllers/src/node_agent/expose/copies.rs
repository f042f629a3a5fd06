//! Secrets and ConfigMaps that a storage driver looks for beside a claim: copies for the time of a transfer.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use velero_cluster::{Error as ClusterError, list_all_metadata};

use crate::node_agent::agent::Agent;
use crate::node_agent::resources;
use crate::node_agent::transfer::Owner;
use crate::runtime::error::{Error, Result};

/// On a copy: the UID of the transfer it is for.
const COPY_OF: &str = "velero.io/backup-pvc-secret";

/// Copies what is named from a namespace to that of the transfer.
pub(crate) async fn make(
    agent: &Agent,
    owner: &Owner,
    from: &str,
    secrets: &[String],
    config_maps: &[String],
) -> Result<()> {
    for name in secrets {
        copy::<Secret>(agent, owner, from, name, |source| Secret {
            data: source.data,
            type_: source.type_,
            ..Secret::default()
        })
        .await?;
    }
    for name in config_maps {
        copy::<ConfigMap>(agent, owner, from, name, |source| ConfigMap {
            data: source.data,
            binary_data: source.binary_data,
            ..ConfigMap::default()
        })
        .await?;
    }
    Ok(())
}

async fn copy<K>(agent: &Agent, owner: &Owner, from: &str, name: &str, bare: impl FnOnce(K) -> K) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let source = resources::get(&Api::<K>::namespaced(agent.client(), from), name).await?;
    let kind = K::kind(&());
    let missing = || {
        Error::unmet(
            &kind,
            name,
            format!("it does not exist in namespace {from:?}, where the configuration of the node agents names it"),
        )
    };
    let mut copied = bare(source.ok_or_else(missing)?);
    copied.meta_mut().name = Some(name.to_owned());
    copied.meta_mut().labels = Some([(COPY_OF.to_owned(), owner.uid.clone())].into());
    let target: Api<K> = Api::namespaced(agent.client(), &owner.namespace);
    match target.create(&PostParams::default(), &copied).await {
        Ok(_) => Ok(()),
        Err(error) => match ClusterError::from_kube(format!("copy {kind} {name}"), error) {
            // Another transfer has it there already, or it is needed there anyway.
            error if error.is_already_exists() => Ok(()),
            error => Err(error.into()),
        },
    }
}

/// Removes the copies of a transfer.
pub(crate) async fn remove(agent: &Agent, owner: &Owner) -> Result<()> {
    remove_all::<Secret>(agent, owner).await?;
    remove_all::<ConfigMap>(agent, owner).await
}

async fn remove_all<K>(agent: &Agent, owner: &Owner) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(agent.client(), &owner.namespace);
    let failed = |verb: &str, error| ClusterError::from_kube(format!("{verb} {}", K::plural(&())), error);
    let own = ListParams::default().labels(&format!("{COPY_OF}={}", owner.uid));
    let found = list_all_metadata(&api, &own).await.map_err(|error| failed("list", error))?;
    for copied in found.items {
        match api.delete(&copied.name_any(), &DeleteParams::default()).await.map_err(|error| failed("delete", error)) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

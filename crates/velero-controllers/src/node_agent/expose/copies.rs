//! Secrets and ConfigMaps that a storage driver looks for beside a claim: copies for the time of a transfer.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use velero_cluster::{Error as ClusterError, list_all_metadata};

use crate::node_agent::agent::Agent;
use crate::node_agent::resources;
use crate::node_agent::transfer::Owner;
use crate::runtime::error::{Error, Result};

/// On a copy: the UID of the transfer it was made for.
const COPY_OF: &str = "velero.io/backup-pvc-secret";
/// What labels of a copy begin with that name the transfers which use it, by their UIDs.
const USED_BY: &str = "copies.velero.io/";

/// Copies what is named from a namespace to that of the transfer; whether all of it is there. What another transfer has there
/// with another content is waited for.
pub(crate) async fn make(
    agent: &Agent,
    owner: &Owner,
    from: &str,
    secrets: &[String],
    config_maps: &[String],
) -> Result<bool> {
    // In one order and none before the last: who holds a part never waits for who holds the rest.
    for name in in_order(secrets) {
        let bare = |source: Secret| Secret { data: source.data, type_: source.type_, ..Secret::default() };
        if !copy(agent, owner, from, name, bare).await? {
            return Ok(false);
        }
    }
    for name in in_order(config_maps) {
        let bare = |source: ConfigMap| ConfigMap {
            data: source.data,
            binary_data: source.binary_data,
            ..ConfigMap::default()
        };
        if !copy(agent, owner, from, name, bare).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Names in the order that all transfers keep to, whatever that of the configuration is.
fn in_order(names: &[String]) -> impl Iterator<Item = &String> {
    let mut names: Vec<&String> = names.iter().collect();
    names.sort_unstable();
    names.into_iter()
}

/// Makes a copy, or uses the one that is there; `bare` is an object without all but its content.
async fn copy<K>(agent: &Agent, owner: &Owner, from: &str, name: &str, bare: impl Fn(K) -> K) -> Result<bool>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + PartialEq
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
    let wanted = bare(source.ok_or_else(missing)?);
    let mut copied = wanted.clone();
    copied.meta_mut().name = Some(name.to_owned());
    let marks = [(COPY_OF.to_owned(), owner.uid.clone()), (used_by(&owner.uid), String::new())];
    copied.meta_mut().labels = Some(marks.into());
    copied.meta_mut().owner_references = Some(vec![reference(owner)]);
    let target: Api<K> = Api::namespaced(agent.client(), &owner.namespace);
    match target.create(&PostParams::default(), &copied).await {
        Ok(_) => return Ok(true),
        Err(error) => match ClusterError::from_kube(format!("copy {kind} {name}"), error) {
            error if error.is_already_exists() => {}
            error => return Err(error.into()),
        },
    }
    let Some(found) = resources::get(&target, name).await? else { return Ok(false) };
    match judge(found.labels(), bare(found.clone()) == wanted, &owner.uid) {
        Found::Usable => Ok(true),
        Found::Shared => join(&target, found.meta(), owner).await,
        Found::InUse => Ok(false),
        Found::Foreign => {
            let place = format!("{}/{name}", owner.namespace);
            let problem = format!(
                "it is not a copy and differs from that of namespace {from:?}, which is needed there for the time of \
                 the transfer; give one of the two another name"
            );
            Err(Error::unmet(&kind, &place, problem))
        }
    }
}

/// What is there under the name of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// It can be used as it is.
    Usable,
    /// It was made for another transfer, and has what this one needs too.
    Shared,
    /// Another transfer has it, with another content.
    InUse,
    /// It is no copy, and has another content.
    Foreign,
}

fn judge(labels: &BTreeMap<String, String>, is_same: bool, uid: &str) -> Found {
    let is_own = labels.contains_key(&used_by(uid)) || labels.get(COPY_OF).is_some_and(|owner| owner == uid);
    match (labels.contains_key(COPY_OF), is_same) {
        _ if is_own => Found::Usable,
        (true, true) => Found::Shared,
        (true, false) => Found::InUse,
        (false, true) => Found::Usable,
        (false, false) => Found::Foreign,
    }
}

fn used_by(uid: &str) -> String {
    format!("{USED_BY}{uid}")
}

/// The reference by which a copy goes with the last of those who use it, should no agent be left to let go of it.
fn reference(owner: &Owner) -> OwnerReference {
    OwnerReference {
        api_version: owner.api_version.clone(),
        kind: owner.kind.to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        // An object has one controller at most.
        ..OwnerReference::default()
    }
}

/// The owners of a copy but for one.
fn other_owners(copied: &ObjectMeta, uid: &str) -> Vec<OwnerReference> {
    copied.owner_references.iter().flatten().filter(|owner| owner.uid != uid).cloned().collect()
}

/// The change by which a copy is used by one more transfer. One that has no owner but users stays so: it must not go
/// while they need it.
fn joined(copied: &ObjectMeta, owner: &Owner) -> serde_json::Value {
    let mut metadata = json!({ "resourceVersion": copied.resource_version, "labels": { used_by(&owner.uid): "" } });
    let mut owners = other_owners(copied, &owner.uid);
    if !owners.is_empty() {
        owners.push(reference(owner));
        metadata["ownerReferences"] = json!(owners);
    }
    json!({ "metadata": metadata })
}

/// The change by which a copy is used by one transfer less.
fn left(copied: &ObjectMeta, uid: &str) -> serde_json::Value {
    let mut metadata = json!({ "resourceVersion": copied.resource_version, "labels": { used_by(uid): null } });
    if copied.owner_references.is_some() {
        metadata["ownerReferences"] = json!(other_owners(copied, uid));
    }
    json!({ "metadata": metadata })
}

/// Has a copy kept for this transfer too; false where it changed meanwhile, and is to be looked at again.
async fn join<K>(target: &Api<K>, found: &ObjectMeta, owner: &Owner) -> Result<bool>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let name = found.name.as_deref().unwrap_or_default();
    let patched = target.patch(name, &PatchParams::default(), &Patch::Merge(joined(found, owner))).await;
    match patched.map_err(|error| ClusterError::from_kube(format!("patch {} {name}", K::plural(&())), error)) {
        Ok(_) => Ok(true),
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the copies of a transfer, but for those that others use.
pub(crate) async fn remove(agent: &Agent, owner: &Owner) -> Result<()> {
    remove_all::<Secret>(agent, owner).await?;
    remove_all::<ConfigMap>(agent, owner).await
}

async fn remove_all<K>(agent: &Agent, owner: &Owner) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(agent.client(), &owner.namespace);
    for selector in [format!("{COPY_OF}={}", owner.uid), used_by(&owner.uid)] {
        let found = list_all_metadata(&api, &ListParams::default().labels(&selector)).await;
        let found = found.map_err(|error| ClusterError::from_kube(format!("list {}", K::plural(&())), error))?;
        for copied in found.items {
            let_go(&api, &copied.metadata, &owner.uid).await?;
        }
    }
    Ok(())
}

/// Removes a copy, or leaves it to the other transfers that use it. A change meanwhile is a conflict: it is looked at again.
async fn let_go<K>(api: &Api<K>, copied: &ObjectMeta, uid: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let (own, labels) = (used_by(uid), copied.labels.clone().unwrap_or_default());
    let (name, version) = (copied.name.as_deref().unwrap_or_default(), copied.resource_version.clone());
    let is_mine = labels.contains_key(&own);
    let gone = match is_used_by_others(&labels, &own) {
        false => {
            let exactly = Preconditions { uid: copied.uid.clone(), resource_version: version };
            api.delete(name, &DeleteParams::default().preconditions(exactly)).await.map(drop)
        }
        true if is_mine => api.patch(name, &PatchParams::default(), &Patch::Merge(left(copied, uid))).await.map(drop),
        true => Ok(()),
    };
    match gone.map_err(|error| ClusterError::from_kube(format!("let go of {} {name}", K::plural(&())), error)) {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

fn is_used_by_others(labels: &BTreeMap<String, String>, own: &str) -> bool {
    labels.keys().any(|key| key.starts_with(USED_BY) && key != own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_copy_is_shared_by_those_who_need_the_same_and_waited_for_by_others() {
        for (found, is_same, expected) in [
            (labels(&[(COPY_OF, "1"), ("copies.velero.io/1", "")]), true, Found::Usable),
            (labels(&[(COPY_OF, "1")]), false, Found::Usable),
            (labels(&[(COPY_OF, "2"), ("copies.velero.io/1", "")]), true, Found::Usable),
            (labels(&[(COPY_OF, "2"), ("copies.velero.io/2", "")]), true, Found::Shared),
            (labels(&[(COPY_OF, "2"), ("copies.velero.io/2", "")]), false, Found::InUse),
            (labels(&[("app", "mine")]), true, Found::Usable),
            (labels(&[]), false, Found::Foreign),
        ] {
            assert_eq!(judge(&found, is_same, "1"), expected, "{found:?} {is_same}");
        }
    }

    #[test]
    fn a_copy_is_owned_by_all_who_use_it() {
        let owner = |uid: &str| Owner {
            api_version: "velero.io/v2alpha1".to_owned(),
            kind: "DataUpload",
            namespace: "velero".to_owned(),
            name: format!("du-{uid}"),
            uid: uid.to_owned(),
        };
        let owners = |patch: &serde_json::Value| {
            let owners = patch["metadata"]["ownerReferences"].as_array().cloned()?;
            Some(owners.iter().map(|owner| owner["uid"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
        };
        let copied = |of: &[&str]| ObjectMeta {
            resource_version: Some("7".to_owned()),
            owner_references: (!of.is_empty()).then(|| of.iter().map(|uid| reference(&owner(uid))).collect()),
            ..ObjectMeta::default()
        };
        let patch = joined(&copied(&["1"]), &owner("2"));
        assert_eq!(owners(&patch).unwrap(), ["1", "2"]);
        assert_eq!(patch["metadata"]["resourceVersion"], "7", "a change meanwhile is a conflict");
        assert_eq!(patch["metadata"]["labels"], json!({ "copies.velero.io/2": "" }));
        assert!(patch["metadata"]["ownerReferences"][1].get("controller").is_none(), "there is one at most");
        assert_eq!(owners(&joined(&copied(&[]), &owner("2"))), None, "its users are not its owners");
        let patch = left(&copied(&["1", "2"]), "1");
        assert_eq!(owners(&patch).unwrap(), ["2"]);
        assert_eq!(patch["metadata"]["resourceVersion"], "7", "a change meanwhile is a conflict");
        assert_eq!(patch["metadata"]["labels"], json!({ "copies.velero.io/1": null }));
        assert_eq!(owners(&left(&copied(&[]), "1")), None);
    }

    #[test]
    fn a_copy_goes_with_the_last_who_uses_it() {
        let both = labels(&[(COPY_OF, "1"), ("copies.velero.io/1", ""), ("copies.velero.io/2", "")]);
        assert!(is_used_by_others(&both, &used_by("1")) && is_used_by_others(&both, &used_by("3")));
        let last = labels(&[(COPY_OF, "1"), ("copies.velero.io/2", "")]);
        assert!(!is_used_by_others(&last, &used_by("2")), "the one it was made for has let go");
        assert!(!is_used_by_others(&labels(&[(COPY_OF, "1")]), &used_by("1")));
    }
}

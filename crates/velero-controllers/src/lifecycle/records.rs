//! Removes what plugins keep of operations: ConfigMaps with the label `velero.io/resource-usage: OperationRecord` that are
//! owned by a Backup or Restore, once that has ended or is gone; and those with the value `DataUpload`, in which a restore
//! writes down where moved data is.
//!
//! It looks at what is there and not at what happens, so it does not matter how a backup ended, or which server saw it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use velero_api::labels;
use velero_api::metadata::uid;
use velero_api::v1::{Backup, Restore};
use velero_cluster::Error as ClusterError;

use crate::runtime::context::{Context, SharedContext};
use crate::runtime::error::{Result, describe};

/// The pause between two looks.
const PERIOD: Duration = Duration::from_secs(30);
/// How many records a page of a list has.
const PAGE: u32 = 500;
/// The UID of an owner that never was.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// Looks until the server ends.
pub(crate) async fn remove_ended(context: SharedContext) {
    let mut looks = tokio::time::interval(PERIOD);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            _ = looks.tick() => {}
        }
        if let Err(error) = look(&context).await {
            tracing::warn!(error = describe(&error), "Records of operations could not be looked through");
        }
    }
}

async fn look(context: &Context) -> Result<()> {
    let objects = &context.objects;
    let api: Api<ConfigMap> = Api::namespaced(objects.cluster().client().clone(), objects.namespace());
    let usages = [labels::RESOURCE_USAGE_OPERATION_RECORD, labels::RESOURCE_USAGE_DATA_UPLOAD_RESULT].join(",");
    let selector = format!("{} in ({usages})", labels::RESOURCE_USAGE);
    let mut parameters = ListParams::default().labels(&selector).limit(PAGE);
    // Many records have the same owner.
    let mut known = BTreeMap::new();
    loop {
        let page = api.list_metadata(&parameters).await;
        let page = page.map_err(|error| ClusterError::from_kube("list records of operations", error))?;
        for record in &page.items {
            let Some(owner) = owner_of(record.owner_references()).filter(|owner| owner.uid != NOBODY) else { continue };
            if !known.contains_key(&owner.uid) {
                let ended = has_ended(context, owner).await.unwrap_or_else(|error| {
                    // One that cannot be read must not keep the records of others.
                    tracing::warn!(owner = owner.name, error = describe(&error), "Records of operations are kept");
                    false
                });
                known.insert(owner.uid.clone(), ended);
            }
            if !known[&owner.uid] {
                continue;
            }
            let name = record.name_any();
            if let Err(error) = remove(&api, &name, record.meta().uid.clone()).await {
                tracing::warn!(name, error = describe(&error), "A record of an operation could not be removed");
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

/// The Backup or Restore among the owners of a record.
fn owner_of(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    let is_velero = |owner: &&OwnerReference| owner.api_version.starts_with("velero.io/");
    owners.iter().filter(is_velero).find(|owner| owner.kind == "Backup" || owner.kind == "Restore")
}

/// Whether the owner has ended, or is gone; one of the same name with another UID is another object.
async fn has_ended(context: &Context, owner: &OwnerReference) -> Result<bool> {
    let objects = &context.objects;
    Ok(match owner.kind.as_str() {
        "Backup" => objects
            .get::<Backup>(&owner.name)
            .await?
            .is_none_or(|backup| uid(&backup) != owner.uid || backup.status.phase().is_terminal()),
        _ => objects
            .get::<Restore>(&owner.name)
            .await?
            .is_none_or(|restore| uid(&restore) != owner.uid || restore.status.phase().is_terminal()),
    })
}

/// The server may delete nothing but its own kinds. So the record gets an owner that never was, and the garbage collector of
/// the cluster removes it.
async fn remove(api: &Api<ConfigMap>, name: &str, uid: Option<String>) -> Result<()> {
    let gone = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "name": "ended", "uid": NOBODY});
    let patch = json!({"metadata": {"uid": uid, "ownerReferences": [gone]}});
    match api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(error) => match ClusterError::from_kube(format!("patch configmap {name}"), error) {
            ClusterError::NotFound(_) => Ok(()),
            error => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_belongs_to_the_backup_or_restore_among_its_owners() {
        let owner = |api_version: &str, kind: &str| OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            ..OwnerReference::default()
        };
        let found = |owners: &[OwnerReference]| owner_of(owners).map(|owner| owner.kind.clone());
        assert_eq!(found(&[owner("v1", "Pod"), owner("velero.io/v1", "Backup")]).as_deref(), Some("Backup"));
        assert_eq!(found(&[owner("velero.io/v1", "Restore")]).as_deref(), Some("Restore"));
        assert_eq!(found(&[owner("example.com/v1", "Backup"), owner("velero.io/v1", "Schedule")]), None);
    }
}

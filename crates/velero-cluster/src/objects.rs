//! One object: reading and writing it, typed or not.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kube::api::{Api, DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use velero_api::metadata;

use crate::connect::Cluster;
use crate::error::{Error, Result};
use crate::item::RawItem;
use crate::item_ref::ItemRef;
use crate::merge_patch::{holds_merge_patch, merge_patch_diff};
use crate::resource_type::{ResourceType, path_segment};

/// How long to wait after each answer that does not come, until the object is looked at.
const PAUSES_OF_LOST_ANSWERS: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(2)];

/// A request as the `kube` crate builds it.
type Built = std::result::Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// Untyped access. The namespace is ignored for cluster-scoped types.
impl Cluster {
    /// Reads an object as bytes; `None` when it does not exist.
    pub async fn get_raw(&self, item: ItemRef<'_>) -> Result<Option<RawItem>> {
        let built = collection(item)?.get(&path_segment(item.name)?, &GetParams::default());
        match self.call("get", item, built).await {
            Ok(bytes) => RawItem::new(Arc::new(item.resource_type.clone()), bytes).map(Some),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads an object; `None` when it does not exist.
    pub async fn get(&self, item: ItemRef<'_>) -> Result<Option<Value>> {
        self.get_raw(item).await?.map(|item| item.to_value()).transpose()
    }

    /// Creates an object from JSON text; gives what the server made of it. Its fields belong to the field manager, or
    /// to this program when none is given.
    pub async fn create_raw(&self, item: ItemRef<'_>, body: Vec<u8>, field_manager: Option<&str>) -> Result<RawItem> {
        let parameters = PostParams { field_manager: field_manager.map(str::to_owned), ..PostParams::default() };
        let built = collection(item)?.create(&parameters, body);
        let bytes = self.call("create", item, built).await?;
        RawItem::new(Arc::new(item.resource_type.clone()), bytes)
    }

    /// Creates an object; gives what the server made of it. Its name may be left to the server (`generateName`).
    pub async fn create(&self, resource_type: &ResourceType, namespace: Option<&str>, object: &Value) -> Result<Value> {
        let item = resource_type.item(namespace, name_of(object));
        self.create_raw(item, encode("create", item, object)?, None).await?.to_value()
    }

    /// Replaces an object. With `metadata.resourceVersion` in it, a change made in between is a conflict.
    pub async fn update(&self, resource_type: &ResourceType, namespace: Option<&str>, object: &Value) -> Result<Value> {
        let item = resource_type.item(namespace, name_of(object));
        let body = encode("update", item, object)?;
        let built = collection(item)?.replace(&path_segment(item.name)?, &PostParams::default(), body);
        let bytes = self.call("update", item, built).await?;
        RawItem::new(Arc::new(resource_type.clone()), bytes)?.to_value()
    }

    /// Replaces the status of an object, for types that have a status subresource.
    pub async fn update_status(
        &self,
        resource_type: &ResourceType,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value> {
        let item = resource_type.item(namespace, name_of(object));
        let body = encode("update the status of", item, object)?;
        let name = path_segment(item.name)?;
        let built = collection(item)?.replace_subresource("status", &name, &PostParams::default(), body);
        let bytes = self.call("update the status of", item, built).await?;
        RawItem::new(Arc::new(resource_type.clone()), bytes)?.to_value()
    }

    /// Changes an object by a JSON merge patch.
    pub async fn merge_patch(&self, item: ItemRef<'_>, patch: &Value) -> Result<Value> {
        self.patch(item, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Asks the server whether it would take an object, without creating it.
    pub async fn try_create(
        &self,
        resource_type: &ResourceType,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<()> {
        let item = resource_type.item(namespace, name_of(object));
        let body = encode("create", item, object)?;
        let built = collection(item)?.create(&PostParams { dry_run: true, ..PostParams::default() }, body);
        self.call("create", item, built).await.map(drop)
    }

    /// Asks the server whether it would take a JSON merge patch, without changing the object.
    pub async fn try_merge_patch(&self, item: ItemRef<'_>, patch: &Value) -> Result<()> {
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        self.patch(item, &parameters, &Patch::Merge(patch)).await.map(drop)
    }

    /// Deletes an object; whether it existed.
    pub async fn delete(&self, item: ItemRef<'_>, parameters: &DeleteParams) -> Result<bool> {
        let built = collection(item)?.delete(&path_segment(item.name)?, parameters);
        match self.call("delete", item, built).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object if it is the one with this UID, and gives it so long to end; false when there is none such any more.
    pub async fn delete_own(&self, item: ItemRef<'_>, uid: &str, grace_seconds: u32) -> Result<bool> {
        let own = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let parameters = DeleteParams { grace_period_seconds: Some(grace_seconds), ..DeleteParams::default() };
        match self.delete(item, &parameters.preconditions(own)).await {
            Err(Error::Conflict(_)) => Ok(false),
            answer => answer,
        }
    }

    async fn patch<P: Serialize + Debug>(
        &self,
        item: ItemRef<'_>,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<Value> {
        let built = collection(item)?.patch(&path_segment(item.name)?, parameters, patch);
        let bytes = self.call("patch", item, built).await?;
        RawItem::new(Arc::new(item.resource_type.clone()), bytes)?.to_value()
    }

    async fn call(&self, verb: &str, item: ItemRef<'_>, built: Built) -> Result<Bytes> {
        let action = format!("{verb} {item}");
        match built {
            Ok(request) => self.fetch(&action, request, 0).await,
            Err(error) => Err(Error::BadRequest { action, message: error.to_string() }),
        }
    }
}

/// Typed access, for Velero's own kinds.
///
/// A change names the UID of the object it is meant for: one made again under the same name is another object, and the
/// change is a conflict. A change whose answer is lost is looked for in the object and, if it is not there, sent again.
impl Cluster {
    /// Sends the difference between two states of an object as a merge patch, so that fields this program does not
    /// know survive. Sends nothing when nothing differs. Velero's kinds keep their status in the main resource, so
    /// this writes spec, status and metadata alike.
    pub async fn patch_changes<K>(&self, original: &K, modified: &K) -> Result<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + PatchableObject,
    {
        self.send_changes(original, modified, None).await
    }

    /// Like [`Cluster::patch_changes`], but a conflict when the object has changed since `original` was read.
    pub async fn patch_changes_if_unchanged<K>(&self, original: &K, modified: &K) -> Result<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + PatchableObject,
    {
        self.patch_changes_since(original, original, modified).await
    }

    /// Like [`Cluster::patch_changes`], but a conflict when the object has changed since it was as in `found`, a later
    /// state than `original`.
    pub async fn patch_changes_since<K>(&self, found: &K, original: &K, modified: &K) -> Result<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + PatchableObject,
    {
        self.send_changes(original, modified, Some(json!(found.meta().resource_version))).await
    }

    async fn send_changes<K>(&self, original: &K, modified: &K, version: Option<Value>) -> Result<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + PatchableObject,
    {
        let meta = original.meta();
        let (namespace, name) = (metadata::namespace(original), metadata::name(original));
        let action = format!("patch {} {namespace}/{name}", K::plural(&()));
        let unreadable =
            |source: serde_json::Error| Error::BadRequest { action: action.clone(), message: source.to_string() };
        let before = serde_json::to_value(original).map_err(unreadable)?;
        let after = serde_json::to_value(modified).map_err(unreadable)?;
        let mut patch = merge_patch_diff(&before, &after);
        if patch == json!({}) {
            return Ok(modified.clone());
        }
        let changes = patch.clone();
        if let Some(version) = version {
            patch["metadata"]["resourceVersion"] = version;
        }
        if let Some(uid) = &meta.uid {
            patch["metadata"]["uid"] = json!(uid);
        }
        let api: Api<K> = Api::namespaced(self.client().clone(), namespace);
        for pause in PAUSES_OF_LOST_ANSWERS {
            let answer = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            let error = match answer.map_err(|error| refused(&action, error)) {
                Err(error) if error.is_unanswered() => error,
                answer => return answer,
            };
            tracing::debug!(%error, "It is not known whether a change was written");
            tokio::time::sleep(pause).await;
            let found = api.get_opt(name).await.map_err(|_| error)?;
            let written = found.filter(|found| {
                let same = found.meta().uid == meta.uid;
                same && serde_json::to_value(found).is_ok_and(|found| holds_merge_patch(&found, &changes))
            });
            if let Some(written) = written {
                return Ok(written);
            }
        }
        let answer = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        answer.map_err(|error| refused(&action, error))
    }
}

/// Why a change was refused. The server calls one that is meant for another object of the same name invalid.
fn refused(action: &str, error: kube::Error) -> Error {
    match Error::from_kube(action, error) {
        Error::Invalid(refusal) if refusal.message.contains("metadata.uid") => Error::Conflict(refusal),
        error => error,
    }
}

/// What a type must be able to do to be patched by its difference. Implemented for everything that can.
pub trait PatchableObject: Clone + Debug + Serialize + DeserializeOwned {}

impl<K: Clone + Debug + Serialize + DeserializeOwned> PatchableObject for K {}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Requests to the place where an item lives.
fn collection(item: ItemRef<'_>) -> Result<Request> {
    item.resource_type.home_path(item.namespace).map(Request::new)
}

fn encode(verb: &str, item: ItemRef<'_>, object: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec(object)
        .map_err(|error| Error::BadRequest { action: format!("{verb} {item}"), message: error.to_string() })
}

//! An object of which only the name is read: what a watch needs that has to say which objects change.
//!
//! Most of the metadata that the API server sends says who manages which field, and takes many times its size as values in
//! memory. It is read past.

use std::borrow::Cow;
use std::marker::PhantomData;

use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Deserializer};
use velero_api::resource::VeleroResource;

/// An object of a kind, by its name. Of its metadata there is that and the resource version, which a watch goes on from.
#[derive(Clone, Debug)]
pub(crate) struct Named<K> {
    metadata: ObjectMeta,
    kind: PhantomData<K>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    resource_version: Option<String>,
}

impl<'de, K> Deserialize<'de> for Named<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Identity { name, resource_version } = Document::deserialize(deserializer)?.metadata;
        Ok(Self { metadata: ObjectMeta { name, resource_version, ..ObjectMeta::default() }, kind: PhantomData })
    }
}

impl<K: VeleroResource> Resource for Named<K> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(dynamic_type: &()) -> Cow<'_, str> {
        K::kind(dynamic_type)
    }

    fn group(dynamic_type: &()) -> Cow<'_, str> {
        K::group(dynamic_type)
    }

    fn version(dynamic_type: &()) -> Cow<'_, str> {
        K::version(dynamic_type)
    }

    fn plural(dynamic_type: &()) -> Cow<'_, str> {
        K::plural(dynamic_type)
    }

    /// The API server is asked for metadata alone.
    fn metadata_api() -> bool {
        true
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::core::WatchEvent;
    use velero_api::v1::Backup;

    use super::*;

    const OBJECT: &str = r#"{
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            "name": "daily-1", "namespace": "velero", "uid": "u", "resourceVersion": "7",
            "labels": {"a": "b"}, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:ttl": {}}}}]
        }
    }"#;

    #[test]
    fn of_an_object_its_name_and_version_are_read_and_nothing_else() {
        let wanted = ObjectMeta {
            name: Some("daily-1".to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectMeta::default()
        };
        let listed: Named<Backup> = serde_json::from_str(OBJECT).unwrap();
        assert_eq!(*listed.meta(), wanted);
        let changed = format!(r#"{{"type": "MODIFIED", "object": {OBJECT}}}"#);
        let WatchEvent::Modified(changed) = serde_json::from_str::<WatchEvent<Named<Backup>>>(&changed).unwrap() else {
            panic!("another event")
        };
        assert_eq!(*changed.meta(), wanted);
    }

    #[test]
    fn the_api_server_is_asked_for_metadata_of_the_kind() {
        assert!(Named::<Backup>::metadata_api());
        assert_eq!(Named::<Backup>::url_path(&(), Some("velero")), Backup::url_path(&(), Some("velero")));
    }
}

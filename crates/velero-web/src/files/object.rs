//! One object as it was when it was backed up, out of the archive.

use std::time::Instant;

use serde_json::Value;
use velero_api::v1::DownloadTargetKind;
use velero_archive::{ArchiveReader, Error as ArchiveError, ItemPath};

use super::{FileProblem, Files, Unreadable, read, target};

/// How large an object may be to be shown.
const LARGEST: usize = 2 << 20;

/// Which object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectPath {
    of: Type,
    namespace: Option<String>,
    name: String,
}

/// The type of an object.
#[derive(Clone, Debug, PartialEq)]
enum Type {
    /// By what the list of a backup says of it.
    Kind {
        /// The kind without group and version, as in `Deployment`.
        kind: String,
        /// Group and version, as in `apps/v1` or `v1`.
        api_version: String,
    },
    /// By the name of the type, as in `deployments.apps`.
    Resource(String),
}

/// Why reading stopped.
enum Stop {
    Found(Box<Value>),
    Failed(Unreadable),
}

impl From<ArchiveError> for Stop {
    fn from(error: ArchiveError) -> Self {
        Self::Failed(error.into())
    }
}

impl ObjectPath {
    /// From a kind and a name of the list, as in `apps/v1/Deployment` and `shop/web`.
    pub(crate) fn parse(kind: &str, name: &str) -> Option<Self> {
        let (api_version, kind) = kind.rsplit_once('/')?;
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, name),
        };
        let complete = !kind.is_empty() && !api_version.is_empty() && !name.is_empty();
        let of = Type::Kind { kind: kind.to_owned(), api_version: api_version.to_owned() };
        complete.then(|| Self { of, namespace, name: name.to_owned() })
    }

    /// From a type, a namespace, which may be empty, and a name.
    pub(crate) fn of(resource: &str, namespace: &str, name: &str) -> Option<Self> {
        let namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
        let complete = !resource.is_empty() && !name.is_empty();
        complete.then(|| Self { of: Type::Resource(resource.to_owned()), namespace, name: name.to_owned() })
    }

    fn label(&self) -> String {
        let kind = match &self.of {
            Type::Kind { kind, .. } => kind,
            Type::Resource(resource) => resource,
        };
        let namespace = self.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{kind} {namespace}{}", self.name)
    }

    /// Reads the object out of the archive of a backup.
    pub(crate) async fn read(self, files: &dyn Files, backup: &str) -> Result<Value, FileProblem> {
        let label = self.label();
        let wanted = target(DownloadTargetKind::BackupContents, backup);
        let found = read(files, &wanted, move |reader, deadline| self.search(reader, deadline)).await?;
        found.ok_or_else(|| FileProblem::None(format!("{label} is not in backup {backup:?}")))
    }

    fn search(&self, reader: impl std::io::Read, deadline: Instant) -> Result<Option<Value>, Unreadable> {
        let outcome = ArchiveReader::new(reader).for_each(|entry| {
            if Instant::now() > deadline {
                let what = "the archive is so large that looking for one object takes too long";
                return Err(Stop::Failed(Unreadable::TooSlow(what)));
            }
            match self.is_at(entry.path).then(|| self.read_body(entry.body)) {
                Some(Ok(Some(object))) => Err(Stop::Found(Box::new(object))),
                Some(Err(problem)) => Err(Stop::Failed(problem)),
                Some(Ok(None)) | None => Ok(()),
            }
        });
        match outcome {
            Ok(_) => Ok(None),
            Err(Stop::Found(object)) => Ok(Some(*object)),
            Err(Stop::Failed(problem)) => Err(problem),
        }
    }

    /// Whether an entry may be the object: a type is in the path by another name than its kind.
    fn is_at(&self, path: &str) -> bool {
        let Some(item) = ItemPath::parse(path) else { return false };
        let is_of_type = match &self.of {
            Type::Kind { .. } => true,
            Type::Resource(resource) => item.group_resource == *resource,
        };
        is_of_type && item.version.is_none() && item.name == self.name && item.namespace == self.namespace.as_deref()
    }

    fn read_body(&self, body: &[u8]) -> Result<Option<Value>, Unreadable> {
        if body.len() > LARGEST {
            return Err(Unreadable::ObjectTooLarge { bytes: body.len() });
        }
        let object: Value = serde_json::from_slice(body)?;
        let is_it = match &self.of {
            Type::Kind { kind, api_version } => {
                object["kind"] == kind.as_str() && object["apiVersion"] == api_version.as_str()
            }
            Type::Resource(_) => true,
        };
        Ok(is_it.then_some(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_known_by_what_the_list_says_of_it() {
        let web = ObjectPath::parse("apps/v1/Deployment", "shop/web").unwrap();
        assert!(web.is_at("resources/deployments.apps/namespaces/shop/web.json"));
        assert!(!web.is_at("resources/deployments.apps/v1-preferredversion/namespaces/shop/web.json"), "a copy");
        assert!(!web.is_at("resources/deployments.apps/namespaces/other/web.json"));
        let volume = ObjectPath::parse("v1/PersistentVolume", "pv-1").unwrap();
        assert!(volume.is_at("resources/persistentvolumes/cluster/pv-1.json"));
        for (kind, name) in [("Pod", "a/b"), ("v1/", "a"), ("v1/Pod", ""), ("", "")] {
            assert_eq!(ObjectPath::parse(kind, name), None, "{kind} {name}");
        }
        let by_type = ObjectPath::of("deployments.apps", "shop", "web").unwrap();
        assert!(by_type.is_at("resources/deployments.apps/namespaces/shop/web.json"));
        assert!(!by_type.is_at("resources/statefulsets.apps/namespaces/shop/web.json"));
        assert!(
            ObjectPath::of("persistentvolumes", "", "pv-1")
                .unwrap()
                .is_at("resources/persistentvolumes/cluster/pv-1.json")
        );
        assert_eq!((ObjectPath::of("", "a", "b"), ObjectPath::of("pods", "a", "")), (None, None));
    }

    #[test]
    fn two_types_may_have_objects_of_the_same_name() {
        let web = ObjectPath::parse("apps/v1/Deployment", "shop/web").unwrap();
        let body = |kind: &str| format!(r#"{{"apiVersion":"apps/v1","kind":"{kind}"}}"#).into_bytes();
        assert!(web.read_body(&body("Deployment")).unwrap().is_some());
        assert!(web.read_body(&body("StatefulSet")).unwrap().is_none());
        assert!(web.read_body(b"<html>").is_err());
    }
}

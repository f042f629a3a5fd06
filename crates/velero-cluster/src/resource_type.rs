//! One type of object that the API server serves.

use kube::core::ApiResource;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use velero_api::records::ResourceIdentifier;

use crate::error::{Error, Result};
use crate::item_ref::ItemRef;

/// What must be escaped in a path segment; `:` stays readable because RBAC names are full of it.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// A type must offer these verbs to be backed up and restored.
const BACKUP_VERBS: [&str; 4] = ["list", "create", "get", "delete"];

/// A type of object as the API server serves it, in one version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourceType {
    /// API group; empty for the core group.
    pub group: String,
    /// Version within the group, for example `v1`.
    pub version: String,
    /// Kind, for example `Deployment`.
    pub kind: String,
    /// Plural name as in paths, for example `deployments`.
    pub plural: String,
    /// Singular name, for example `deployment`.
    pub singular: String,
    /// Short names, for example `deploy`.
    pub short_names: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with it, for example `list`.
    pub verbs: Vec<String>,
    /// Whether this is the version the server prefers for this type.
    pub preferred: bool,
}

impl ResourceType {
    /// A type known beforehand, for callers that need no discovery.
    pub fn new(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            namespaced,
            verbs: Vec::new(),
            preferred: true,
        }
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `pods` or `deployments.apps`.
    pub fn group_resource(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Whether the server offers the verb for this type.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|offered| offered == verb)
    }

    /// Whether its objects can be listed, read, created and deleted.
    pub fn can_be_backed_up(&self) -> bool {
        BACKUP_VERBS.iter().all(|verb| self.supports(verb))
    }

    /// The same type in the words of the `kube` crate.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version: self.api_version(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }

    /// An object of this type as records refer to it; the namespace of a cluster-scoped one is empty.
    pub fn identifier(&self, namespace: &str, name: &str) -> ResourceIdentifier {
        ResourceIdentifier::new(&self.group, &self.plural, namespace, name)
    }

    /// One item of this type.
    pub fn item<'a>(&'a self, namespace: Option<&'a str>, name: &'a str) -> ItemRef<'a> {
        ItemRef::new(self, namespace, name)
    }

    /// Path of all objects, of one namespace or of the whole cluster. A cluster-scoped type ignores the namespace.
    pub(crate) fn collection_path(&self, namespace: Option<&str>) -> Result<String> {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Ok(format!("{root}/namespaces/{}/{}", path_segment(namespace)?, self.plural)),
            None => Ok(format!("{root}/{}", self.plural)),
        }
    }

    /// Path of the collection an object of this type lives in; a namespaced type needs the namespace.
    pub(crate) fn home_path(&self, namespace: Option<&str>) -> Result<String> {
        if self.namespaced && namespace.is_none() {
            return Err(Error::BadRequest {
                action: format!("address one of {}", self.group_resource()),
                message: "the type is namespaced; give a namespace".to_owned(),
            });
        }
        self.collection_path(namespace)
    }
}

/// Escapes a name for use as one segment of a path, so that a hostile name cannot reach another path.
pub(crate) fn path_segment(name: &str) -> Result<String> {
    if matches!(name, "" | "." | "..") {
        return Err(Error::BadRequest {
            action: format!("address the object named {name:?}"),
            message: "this is not a name Kubernetes accepts".to_owned(),
        });
    }
    Ok(utf8_percent_encode(name, SEGMENT).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_group_and_scope() {
        let pods = ResourceType::new("v1", "Pod", "pods", true);
        let roles = ResourceType::new("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false);
        assert_eq!(pods.collection_path(None).unwrap(), "/api/v1/pods");
        assert_eq!(pods.home_path(Some("shop")).unwrap(), "/api/v1/namespaces/shop/pods");
        assert_eq!(roles.home_path(Some("ignored")).unwrap(), "/apis/rbac.authorization.k8s.io/v1/clusterroles");
        assert!(pods.home_path(None).is_err());
    }

    #[test]
    fn names_cannot_leave_their_path_segment() {
        assert_eq!(path_segment("system:node").unwrap(), "system:node");
        assert_eq!(path_segment("a b?c#d").unwrap(), "a%20b%3Fc%23d");
        assert_eq!(path_segment("../secrets/x").unwrap(), "..%2Fsecrets%2Fx");
        assert!(path_segment("..").is_err());
        assert!(path_segment("").is_err());
    }

    #[test]
    fn names_for_people_include_the_group() {
        let deployments = ResourceType::new("apps/v1", "Deployment", "deployments", true);
        assert_eq!(deployments.group_resource(), "deployments.apps");
        assert_eq!(deployments.api_version(), "apps/v1");
    }
}

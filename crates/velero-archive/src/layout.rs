//! Paths inside the tarball, and the way back from a path to the item it names.

use std::fmt;

use crate::{Error, Result};

/// The path of the entry that says which format the archive has.
pub const VERSION_PATH: &str = "metadata/version";
/// The format this code writes.
pub const FORMAT_VERSION: &str = "1.1.0";
/// The folder below which items live.
pub const RESOURCES: &str = "resources";

const CLUSTER: &str = "cluster";
const NAMESPACES: &str = "namespaces";
const PREFERRED_SUFFIX: &str = "-preferredversion";

/// The folder that holds the items of one API version of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionDirectory<'a> {
    /// The API version, such as `v1`.
    pub version: &'a str,
    /// Whether the cluster preferred this version at backup time.
    pub preferred: bool,
}

impl<'a> VersionDirectory<'a> {
    fn parse(directory: &'a str) -> Self {
        match directory.strip_suffix(PREFERRED_SUFFIX) {
            Some(version) => Self { version, preferred: true },
            None => Self { version: directory, preferred: false },
        }
    }
}

impl fmt::Display for VersionDirectory<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.version)?;
        if self.preferred { formatter.write_str(PREFERRED_SUFFIX) } else { Ok(()) }
    }
}

/// The path of one item; its `Display` form is what stands in the tarball.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemPath<'a> {
    /// Resource and group, such as `deployments.apps` or `pods`.
    pub group_resource: &'a str,
    /// The version folder; `None` for the copy readers use by default.
    pub version: Option<VersionDirectory<'a>>,
    /// The namespace; `None` for a cluster-scoped item.
    pub namespace: Option<&'a str>,
    /// The item's name.
    pub name: &'a str,
}

impl<'a> ItemPath<'a> {
    /// Reads a path back; `None` when it does not name an item.
    pub fn parse(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix(RESOURCES)?.strip_prefix('/')?;
        let (group_resource, rest) = rest.split_once('/')?;
        let (directory, after) = rest.split_once('/')?;
        let (version, scope, rest) = match directory {
            CLUSTER | NAMESPACES => (None, directory, after),
            version => {
                let (scope, rest) = after.split_once('/')?;
                (Some(VersionDirectory::parse(version)), scope, rest)
            }
        };
        let (namespace, file) = match scope {
            CLUSTER => (None, rest),
            NAMESPACES => rest.split_once('/').map(|(namespace, file)| (Some(namespace), file))?,
            _ => return None,
        };
        let name = file.strip_suffix(".json")?;
        let complete = !name.is_empty() && !name.contains('/') && namespace != Some("") && !group_resource.is_empty();
        complete.then_some(Self { group_resource, version, namespace, name })
    }

    /// The paths an item is written to, given its version and whether the cluster prefers that version.
    ///
    /// A preferred version has two copies, the first without a version folder; any other has one.
    pub fn copies(self, version: &'a str, preferred: bool) -> impl Iterator<Item = Self> {
        let plain = preferred.then_some(Self { version: None, ..self });
        let versioned = Self { version: Some(VersionDirectory { version, preferred }), ..self };
        plain.into_iter().chain([versioned])
    }
}

impl fmt::Display for ItemPath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{RESOURCES}/{}/", self.group_resource)?;
        if let Some(version) = self.version {
            write!(formatter, "{version}/")?;
        }
        match self.namespace {
            Some(namespace) => write!(formatter, "{NAMESPACES}/{namespace}/{}.json", self.name),
            None => write!(formatter, "{CLUSTER}/{}.json", self.name),
        }
    }
}

/// Refuses a path that is absolute, climbs out, or has empty parts.
pub fn check_path(path: &str) -> Result<()> {
    let refuse = |reason| Err(Error::UnsafePath { path: path.to_owned(), reason });
    if path.starts_with('/') {
        return refuse("it is absolute");
    }
    if path.contains('\0') {
        return refuse("it contains a null byte");
    }
    for part in path.split('/') {
        match part {
            "" => return refuse("it has an empty part"),
            "." | ".." => return refuse("it has a relative part"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pod() -> ItemPath<'static> {
        ItemPath { group_resource: "pods", version: None, namespace: Some("web"), name: "a" }
    }

    #[test]
    fn a_preferred_version_is_written_twice_and_another_once() {
        let preferred: Vec<_> = pod().copies("v1", true).map(|path| path.to_string()).collect();
        assert_eq!(
            preferred,
            ["resources/pods/namespaces/web/a.json", "resources/pods/v1-preferredversion/namespaces/web/a.json"]
        );
        let other: Vec<_> = pod().copies("v1beta1", false).map(|path| path.to_string()).collect();
        assert_eq!(other, ["resources/pods/v1beta1/namespaces/web/a.json"]);
    }

    #[test]
    fn a_namespace_object_is_cluster_scoped() {
        let path = ItemPath { group_resource: "namespaces", version: None, namespace: None, name: "web" };
        assert_eq!(path.to_string(), "resources/namespaces/cluster/web.json");
        assert_eq!(ItemPath::parse("resources/namespaces/cluster/web.json"), Some(path));
    }

    #[test]
    fn a_path_that_names_no_item_is_not_parsed() {
        for path in [
            "metadata/version",
            "resources/pods",
            "resources/pods/readme.txt",
            "resources/pods/cluster/a.yaml",
            "resources/pods/cluster/.json",
            "resources/pods/cluster/deep/a.json",
            "resources/pods/namespaces/a.json",
            "resources/pods/namespaces//a.json",
            "resources/pods/v1/elsewhere/a.json",
            "resources//cluster/a.json",
        ] {
            assert_eq!(ItemPath::parse(path), None, "{path}");
        }
    }

    #[test]
    fn unsafe_paths_are_refused() {
        for path in ["/etc/passwd", "../a", "a/../b", "a//b", "a/./b", "", "a/", "a\0b"] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
        check_path("resources/roles.rbac.authorization.k8s.io/cluster/system:node.json").unwrap();
    }

    proptest! {
        #[test]
        fn every_item_path_reads_back_as_itself(
            resource in "[a-z]{1,12}(\\.[a-z]{1,8}){0,3}",
            version in proptest::option::of(("v[1-9](beta[1-9])?", any::<bool>())),
            namespace in proptest::option::of("[a-z0-9-]{1,20}"),
            name in "[a-zA-Z0-9:._-]{1,30}",
        ) {
            let path = ItemPath {
                group_resource: &resource,
                version: version.as_ref().map(|(version, preferred)| VersionDirectory { version, preferred: *preferred }),
                namespace: namespace.as_deref(),
                name: &name,
            };
            let text = path.to_string();
            prop_assert_eq!(ItemPath::parse(&text), Some(path));
        }
    }
}

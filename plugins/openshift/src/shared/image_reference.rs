//! Images of the internal registry have another address, and maybe another namespace, where they are restored.

use std::collections::BTreeMap;

use serde_json::Value;
use velero_api::v1::Restore;
use velero_plugin::item::{annotation, elements_mut, text};

use crate::names::annotations;

/// From the registry of the backup to that of the restore.
pub(crate) struct RegistryMove<'a> {
    old: String,
    new: String,
    namespaces: &'a BTreeMap<String, String>,
}

impl<'a> RegistryMove<'a> {
    /// What the common actions wrote on an item; `None` when one of the clusters has no registry.
    pub(crate) fn of(item: &Value, restore: &'a Restore) -> Option<Self> {
        let old = annotation(item, annotations::BACKUP_REGISTRY_HOSTNAME).unwrap_or_default().to_owned();
        let new = annotation(item, annotations::RESTORE_REGISTRY_HOSTNAME).unwrap_or_default().to_owned();
        let namespaces = &restore.spec.namespace_mapping;
        (!old.is_empty() && !new.is_empty()).then_some(Self { old, new, namespaces })
    }

    /// The new name of an image; `None` when it is not one of the old registry.
    ///
    /// The images of namespace `openshift` are those of the cluster itself and have another digest in each: they are
    /// named without it.
    pub(crate) fn rewrite(&self, image: &str) -> Option<String> {
        let (_, path) = image.split_once('/').filter(|(registry, _)| *registry == self.old)?;
        let new = &self.new;
        let Some((namespace, tail)) = path.split_once('/') else { return Some(format!("{new}/{path}")) };
        if let Some((name, _digest)) = path.split_once('@').filter(|_| namespace == "openshift") {
            return Some(format!("{new}/{name}"));
        }
        let namespace = self.namespaces.get(namespace).map_or(namespace, String::as_str);
        Some(format!("{new}/{namespace}/{tail}"))
    }
}

/// Renames the images of the containers of a pod, or of what makes pods; `pod_spec` says where.
pub(crate) fn rewrite_containers(item: &mut Value, pod_spec: &str, restore: &Restore) {
    let Some(registry_move) = RegistryMove::of(item, restore) else { return };
    for containers in ["containers", "initContainers"] {
        for container in elements_mut(item, &format!("{pod_spec}/{containers}")) {
            if let Some(name) = registry_move.rewrite(text(container, "/image")) {
                container["image"] = name.into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::mapping;

    #[test]
    fn images_of_the_old_registry_move_to_the_new_one() {
        let namespaces = BTreeMap::from([("dog", "puppy"), ("openshift", "other")]);
        let namespaces = namespaces.into_iter().map(|(old, new)| (old.to_owned(), new.to_owned())).collect();
        let registry_move = RegistryMove { old: "foo".to_owned(), new: "bar".to_owned(), namespaces: &namespaces };
        for (image, expected) in [
            ("foo/dog/x", Some("bar/puppy/x")),
            ("foo/dog/x@sha256:1", Some("bar/puppy/x@sha256:1")),
            ("foo/cat", Some("bar/cat")),
            ("foo/cat/y", Some("bar/cat/y")),
            ("foo/cat/y/z:1", Some("bar/cat/y/z:1")),
            ("boo/cat", None),
            ("foo/openshift/ruby@sha256:1", Some("bar/openshift/ruby")),
            ("foo/openshift/ruby:2.7", Some("bar/other/ruby:2.7")),
            ("foo:5000/a/b", None),
            ("nginx", None),
            ("", None),
        ] {
            assert_eq!(registry_move.rewrite(image).as_deref(), expected, "{image}");
        }
    }

    #[test]
    fn containers_stay_as_they_are_when_one_cluster_has_no_registry() {
        for (old, new, expected) in
            [("foo", "bar", "bar/puppy/x"), ("", "bar", "foo/dog/x"), ("foo", "", "foo/dog/x"), ("f", "b", "foo/dog/x")]
        {
            let hostnames = json!({
                "openshift.io/backup-registry-hostname": old, "openshift.io/restore-registry-hostname": new,
            });
            let mut item = json!({"metadata": {"annotations": hostnames}, "spec": {
                "containers": [{"image": "foo/dog/x"}, {"name": "no image"}],
                "initContainers": [{"image": "foo/dog/x"}],
                "ephemeralContainers": [{"image": "foo/dog/x"}],
            }});
            rewrite_containers(&mut item, "/spec", &mapping(&json!({"dog": "puppy"})));
            assert_eq!(item["spec"]["containers"], json!([{"image": expected}, {"name": "no image"}]), "{old} {new}");
            assert_eq!(item["spec"]["initContainers"][0]["image"], expected, "{old} {new}");
            assert_eq!(item["spec"]["ephemeralContainers"][0]["image"], "foo/dog/x", "{old} {new}");
        }
    }
}

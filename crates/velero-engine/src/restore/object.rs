//! What is taken off an object on its way out of the backup, and what is put on.

use serde_json::Value;
use velero_api::{annotations, labels};
use velero_plugin::item::{annotation, object_mut, remove, remove_annotation, set_label, text};
pub(super) use velero_rules::difference::{strip, take_managed_fields};
use velero_rules::includes_excludes::IncludesExcludes;

const MIRROR_POD: &str = "kubernetes.io/config.mirror";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Marks an object with the restore and the backup it comes from.
pub(super) fn add_labels(object: &mut Value, restore: &str, backup: &str) {
    set_label(object, labels::BACKUP_NAME, &labels::valid_value(backup));
    set_label(object, labels::RESTORE_NAME, &labels::valid_value(restore));
}

/// Puts an object into a namespace.
pub(super) fn set_namespace(object: &mut Value, namespace: &str) {
    if let Some(metadata) = object_mut(object, "/metadata") {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
}

/// Whether the object is the picture of a pod that the kubelet runs from a file.
pub(super) fn is_mirror_pod(resource: &str, object: &Value) -> bool {
    resource == "pods" && annotation(object, MIRROR_POD).is_some_and(|value| !value.is_empty())
}

/// Takes off what ties a volume and a claim together, so that they can be bound anew.
pub(crate) fn reset_binding(object: &mut Value) {
    remove(object, "/spec/claimRef", "uid");
    remove(object, "/spec/claimRef", "resourceVersion");
    remove_annotation(object, BIND_COMPLETED);
    remove_annotation(object, BOUND_BY_CONTROLLER);
}

/// Whether the status of an object is restored: what its own annotation says, else what the restore says.
pub(super) fn restores_status(object: &Value, resource: &str, types: Option<&IncludesExcludes>) -> bool {
    let by_type = types.is_some_and(|types| types.should_include(resource));
    match annotation(object, annotations::RESTORE_STATUS).map(|value| value.trim().to_lowercase()).as_deref() {
        Some("true") => true,
        Some("false") => false,
        _ => by_type,
    }
}

/// Who owned the fields of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owners {
    /// Nobody is recorded.
    None,
    /// One manager; an object created in its name belongs to it.
    One(String),
    /// Several, or one by server-side apply: they must be written back.
    Several,
}

/// Finds out who owned the fields. Owners of the status do not count: the status is made anew.
pub(super) fn owners(managed_fields: &[Value]) -> Owners {
    let mut of_object = managed_fields.iter().filter(|entry| text(entry, "/subresource").is_empty());
    match (of_object.next(), of_object.next()) {
        (None, _) => Owners::None,
        (Some(entry), None) if text(entry, "/operation") == "Update" && !text(entry, "/manager").is_empty() => {
            Owners::One(text(entry, "/manager").to_owned())
        }
        _ => Owners::Several,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_name_restore_and_backup_and_fit() {
        let mut object = json!({"metadata": {"name": "a", "labels": null}});
        add_labels(&mut object, "r", &"b".repeat(100));
        assert_eq!(object["metadata"]["labels"]["velero.io/restore-name"], "r");
        assert_eq!(object["metadata"]["labels"]["velero.io/backup-name"].as_str().unwrap().len(), 63);
    }

    #[test]
    fn the_annotation_of_an_object_decides_about_its_status_before_the_restore_does() {
        let types = IncludesExcludes::new(&["pods"], &[]);
        for (annotation, types, expected) in [
            (None, None, false),
            (None, Some(&types), true),
            (Some("false"), Some(&types), false),
            (Some(" True "), None, true),
            (Some("maybe"), Some(&types), true),
        ] {
            let object = match annotation {
                Some(value) => json!({"metadata": {"annotations": {"velero.io/restore-status": value}}}),
                None => json!({"metadata": {}}),
            };
            assert_eq!(restores_status(&object, "pods", types), expected, "{annotation:?}");
        }
    }

    #[test]
    fn a_single_manager_can_be_named_at_creation() {
        let entry = |manager: &str, operation: &str, subresource: &str| json!({"manager": manager, "operation": operation, "subresource": subresource});
        let update = entry("kubectl", "Update", "");
        let status = entry("kubelet", "Update", "status");
        assert_eq!(owners(&[]), Owners::None);
        assert_eq!(owners(std::slice::from_ref(&status)), Owners::None);
        assert_eq!(owners(&[update.clone(), status]), Owners::One("kubectl".to_owned()));
        assert_eq!(owners(&[update.clone(), update]), Owners::Several);
        assert_eq!(owners(&[entry("argo", "Apply", "")]), Owners::Several);
    }

    #[test]
    fn a_binding_is_undone_on_both_sides() {
        let mut volume = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes", "a": "b"}},
            "spec": {"claimRef": {"name": "data", "uid": "1", "resourceVersion": "2"}}});
        reset_binding(&mut volume);
        let expected = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"claimRef": {"name": "data"}}});
        assert_eq!(volume, expected);
    }
}

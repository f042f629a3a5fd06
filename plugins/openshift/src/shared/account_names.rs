//! Names of users and groups that hold the namespace of service accounts.

use std::collections::BTreeMap;

use serde_json::Value;
use velero_api::v1::Restore;
use velero_plugin::item::{elements_mut, text, texts_mut};

use crate::compat::Compat;
use crate::settings::Settings;

/// `system:serviceaccount:<namespace>[:<name>]` with the namespace mapped; `None` when there is nothing to map.
pub(crate) fn mapped_user(user: &str, namespaces: &BTreeMap<String, String>) -> Option<String> {
    mapped(user, "serviceaccount", 3, namespaces)
}

/// `system:serviceaccounts:<namespace>` with the namespace mapped.
fn mapped_group(group: &str, namespaces: &BTreeMap<String, String>, settings: &Settings) -> Option<String> {
    let least = if settings.compat(Compat::FourPartGroups) { 4 } else { 3 };
    mapped(group, "serviceaccounts", least, namespaces)
}

fn mapped(name: &str, kind: &str, least: usize, namespaces: &BTreeMap<String, String>) -> Option<String> {
    let mut parts: Vec<_> = name.split(':').collect();
    if parts.len() < least || parts[1] != kind {
        return None;
    }
    parts[2] = namespaces.get(parts[2])?;
    Some(parts.join(":"))
}

/// Follows the namespace mapping in a role binding or cluster role binding of OpenShift.
pub(crate) fn map_binding(item: &mut Value, restore: &Restore, settings: &Settings) {
    let namespaces = &restore.spec.namespace_mapping;
    let map_namespace = |reference: &mut Value| {
        if let Some(new) = namespaces.get(text(reference, "/namespace")) {
            reference["namespace"] = new.as_str().into();
        }
    };
    item.get_mut("roleRef").into_iter().for_each(map_namespace);
    for subject in elements_mut(item, "/subjects") {
        map_namespace(subject);
        if let Some(name) = mapped_group(text(subject, "/name"), namespaces, settings) {
            subject["name"] = name.into();
        }
    }
    for user in texts_mut(item, "/userNames") {
        *user = mapped_user(user, namespaces).unwrap_or_else(|| std::mem::take(user));
    }
    for group in texts_mut(item, "/groupNames") {
        *group = mapped_group(group, namespaces, settings).unwrap_or_else(|| std::mem::take(group));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::compat;

    #[test]
    fn the_namespace_in_a_name_is_mapped() {
        let namespaces = BTreeMap::from([("old".to_owned(), "new".to_owned())]);
        for (name, user, group) in [
            ("system:serviceaccount:old:web", Some("system:serviceaccount:new:web"), None),
            ("system:serviceaccount:old", Some("system:serviceaccount:new"), None),
            ("system:serviceaccount:other:web", None, None),
            ("system:serviceaccounts:old", None, Some("system:serviceaccounts:new")),
            ("system:serviceaccounts:other", None, None),
            ("system:serviceaccounts", None, None),
            ("old", None, None),
            ("", None, None),
        ] {
            assert_eq!(mapped_user(name, &namespaces).as_deref(), user, "{name}");
            assert_eq!(mapped_group(name, &namespaces, &Settings::default()).as_deref(), group, "{name}");
        }
        let four = compat(&[Compat::FourPartGroups]);
        assert_eq!(mapped_group("system:serviceaccounts:old", &namespaces, &four), None);
        assert!(mapped_group("system:serviceaccounts:old:x", &namespaces, &four).is_some());
    }
}

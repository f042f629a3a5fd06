//! What every object has, as those ask for it who take "there is none" and "it is empty" as the same.
//!
//! Objects that come from the API server have a name and a UID; only those made in memory may be without.

use kube::core::Resource;

/// The name of an object; empty when it has none yet.
pub fn name<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

/// The namespace of an object; empty when it is in none.
pub fn namespace<K: Resource>(object: &K) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

/// The UID of an object; empty when the API server has not given it one.
pub fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// Which object it is, for messages: its namespace and name.
pub fn title<K: Resource>(object: &K) -> String {
    format!("{}/{}", namespace(object), name(object))
}

/// The value of a label; empty when there is none.
pub fn label<'a, K: Resource>(object: &'a K, key: &str) -> &'a str {
    object.meta().labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

/// The value of an annotation; empty when there is none.
pub fn annotation<'a, K: Resource>(object: &'a K, key: &str) -> &'a str {
    object.meta().annotations.as_ref().and_then(|annotations| annotations.get(key)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::v1::Backup;

    #[test]
    fn what_an_object_has_is_given_and_what_it_has_not_is_empty() {
        let entries = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        let mut backup = Backup::new("velero", "nightly", Default::default());
        backup.metadata.uid = Some("u".to_owned());
        (backup.metadata.labels, backup.metadata.annotations) = (entries.clone(), entries);
        assert_eq!((name(&backup), namespace(&backup), uid(&backup)), ("nightly", "velero", "u"));
        assert_eq!(title(&backup), "velero/nightly");
        assert_eq!((label(&backup, "a"), annotation(&backup, "a")), ("b", "b"));
        assert_eq!((label(&backup, "c"), annotation(&backup, "c")), ("", ""));
        let bare = Backup::default();
        assert_eq!((name(&bare), namespace(&bare), uid(&bare), label(&bare, "a")), ("", "", "", ""));
    }
}

//! What is read of an object for lists: its name and its row. The object itself is gone as soon as it is read, so that a page
//! of the first list is a page of rows.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kept::{Kept, Row};

/// An object as lists show it. Of its metadata there is the name, and the resource version, which a watch goes on from.
#[derive(Clone, Debug)]
pub(crate) struct Shown<R> {
    metadata: ObjectMeta,
    /// None where lists do not show it.
    row: Option<R>,
    /// Whether it can be read.
    is_readable: bool,
}

impl<R: Row> Shown<R> {
    /// Puts it where its kind is kept. One that cannot be read hinders nobody: lists name it, and its own page says what is
    /// wrong with it.
    pub(crate) fn put_into(self, kept: &mut Kept<R>) {
        let name = self.metadata.name.unwrap_or_default();
        match self.is_readable {
            true => kept.put(name, self.row),
            false => kept.put_unreadable(name),
        }
    }

    /// What it is called.
    pub(crate) fn into_name(self) -> String {
        self.metadata.name.unwrap_or_default()
    }
}

impl<'de, R: Row> Deserialize<'de> for Shown<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // Who manages which field is no part of a row, and more than all the rest.
            metadata.remove("managedFields");
        }
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let (name, resource_version) = (text("name"), text("resourceVersion"));
        let typed = serde_json::from_value::<R::Kind>(object);
        let typed = typed
            .inspect_err(|error| tracing::debug!(name = name.as_deref(), %error, "The page cannot read an object"));
        let (row, is_readable) = (typed.as_ref().ok().and_then(R::of), typed.is_ok());
        Ok(Self { metadata: ObjectMeta { name, resource_version, ..ObjectMeta::default() }, row, is_readable })
    }
}

impl<R: Row> Resource for Shown<R> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(dynamic_type: &()) -> Cow<'_, str> {
        R::Kind::kind(dynamic_type)
    }

    fn group(dynamic_type: &()) -> Cow<'_, str> {
        R::Kind::group(dynamic_type)
    }

    fn version(dynamic_type: &()) -> Cow<'_, str> {
        R::Kind::version(dynamic_type)
    }

    fn plural(dynamic_type: &()) -> Cow<'_, str> {
        R::Kind::plural(dynamic_type)
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
    use velero_api::v1::Backup;

    use super::*;
    use crate::rows::BackupRow;

    fn read(text: &str) -> Shown<BackupRow> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn of_an_object_its_name_its_version_and_its_row_are_kept() {
        let shown = read(
            r#"{"metadata": {"name": "daily-1", "resourceVersion": "7", "labels": {"a": "b"},
                "managedFields": [{"fieldsV1": {"f:spec": {}}}]}, "status": {"phase": "Completed"}}"#,
        );
        let kept = ObjectMeta {
            name: Some("daily-1".to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectMeta::default()
        };
        assert_eq!(*shown.meta(), kept);
        assert_eq!(&*shown.row.unwrap().phase, "Completed");
        assert_eq!(Shown::<BackupRow>::url_path(&(), Some("velero")), Backup::url_path(&(), Some("velero")));
    }

    #[test]
    fn an_object_that_cannot_be_read_has_a_name_and_no_row() {
        let shown = read(r#"{"metadata": {"name": "daily-1"}, "spec": {"includedNamespaces": 7}}"#);
        assert!(shown.row.is_none() && !shown.is_readable);
        assert_eq!(shown.into_name(), "daily-1");
    }
}

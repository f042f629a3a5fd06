//! What all kinds of `velero.io` have in common.

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

/// A kind of `velero.io`. None of them has a status subresource: the status is written with an
/// ordinary update or patch of the object.
pub trait VeleroResource:
    kube::core::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
    + Clone
    + Default
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The type of `spec`.
    type Spec: JsonSchema;
    /// The type of `status`.
    type Status: JsonSchema;

    /// The kind, as in `Backup`.
    const KIND: &'static str;
    /// The version of the group, as in `v1`.
    const VERSION: &'static str;
    /// The name in URLs, as in `backups`.
    const PLURAL: &'static str;
    /// The names `kubectl` also accepts.
    const SHORT_NAMES: &'static [&'static str];
    /// The columns of `kubectl get`.
    const COLUMNS: &'static [PrinterColumn];
    /// One sentence on what the kind is for.
    const DESCRIPTION: &'static str;

    /// What is wanted.
    fn spec(&self) -> &Self::Spec;
    /// What has been observed.
    fn status(&self) -> &Self::Status;
    /// What has been observed, to be changed.
    fn status_mut(&mut self) -> &mut Self::Status;

    /// The `apiVersion` of the kind.
    fn api_version_text() -> String {
        format!("{}/{}", crate::GROUP, Self::VERSION)
    }
}

/// One column of `kubectl get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrinterColumn {
    /// The heading.
    pub name: &'static str,
    /// The JSON path of the value.
    pub json_path: &'static str,
    /// The type of the value: `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// The format of the value, where it has one.
    pub format: Option<&'static str>,
    /// Columns above zero show only in wide output.
    pub priority: i32,
}

impl PrinterColumn {
    /// When the object was created.
    pub(crate) const AGE: Self = Self::date("Age", ".metadata.creationTimestamp");

    pub(crate) const fn text(name: &'static str, json_path: &'static str) -> Self {
        Self::of("string", name, json_path)
    }

    pub(crate) const fn date(name: &'static str, json_path: &'static str) -> Self {
        Self::of("date", name, json_path)
    }

    pub(crate) const fn flag(name: &'static str, json_path: &'static str) -> Self {
        Self::of("boolean", name, json_path)
    }

    pub(crate) const fn number(name: &'static str, json_path: &'static str) -> Self {
        Self::of("integer", name, json_path)
    }

    pub(crate) const fn bytes(name: &'static str, json_path: &'static str) -> Self {
        let column = Self::of("integer", name, json_path);
        Self { format: Some("int64"), ..column }
    }

    pub(crate) const fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    const fn of(kind: &'static str, name: &'static str, json_path: &'static str) -> Self {
        Self { name, json_path, kind, format: None, priority: 0 }
    }
}

/// A text that is not one of the values an enum knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {type_name}, use one of {}", known.join(", "))]
pub struct UnknownValue {
    /// The enum.
    pub type_name: &'static str,
    /// What was given.
    pub text: String,
    /// What would be accepted.
    pub known: &'static [&'static str],
}

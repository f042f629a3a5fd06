//! An object as JSON or YAML, with the fields in the order Velero's users see them in.

use std::fmt;

use anyhow::Result;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Number;
use velero_api::resource::VeleroResource;

use super::yaml;
use crate::session::Listed;

/// The order of the fields of an object's metadata.
const METADATA: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const MANAGED_FIELDS: &[&str] =
    &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
const OWNER_REFERENCE: &[&str] = &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
const OBJECT: &[&str] = &["kind", "apiVersion", "metadata", "spec", "status"];
const SELECTOR: &[&str] = &["matchLabels", "matchExpressions"];
const SECRET_KEY: &[&str] = &["name", "key", "optional"];
const REFERENCE: &[&str] = &["apiGroup", "kind", "name"];

/// JSON that keeps the order of fields.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Document {
    /// Null.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Self>),
    /// Fields in their order.
    Fields(Vec<(String, Self)>),
}

impl Document {
    /// Anything that can be JSON, in the order it serialises in.
    pub(crate) fn of_value(value: &impl Serialize) -> Result<Self> {
        Ok(serde_json::from_str(&serde_json::to_string(value)?)?)
    }

    /// One object, in the order of the API.
    pub(crate) fn of_object<K: VeleroResource>(object: &K) -> Result<Self> {
        let mut document = Self::of_value(object)?;
        if let Self::Fields(fields) = &mut document {
            for (name, value) in fields.iter_mut() {
                if let (Self::Fields(metadata), "metadata") = (&mut *value, name.as_str()) {
                    complete(metadata, "creationTimestamp");
                    arrange(metadata, METADATA);
                }
                arrange_children(value);
            }
            arrange(fields, OBJECT);
        }
        Ok(document)
    }

    /// A list of objects, with the kind of a list.
    pub(crate) fn of_list<K: VeleroResource>(listed: &Listed<K>) -> Result<Self> {
        let version =
            listed.resource_version.iter().map(|version| ("resourceVersion".to_owned(), Self::Text(version.clone())));
        let items = listed.items.iter().map(Self::of_object).collect::<Result<_>>()?;
        Ok(Self::Fields(vec![
            ("kind".to_owned(), Self::Text(format!("{}List", K::KIND))),
            ("apiVersion".to_owned(), Self::Text(K::api_version_text())),
            ("metadata".to_owned(), Self::Fields(version.collect())),
            ("items".to_owned(), Self::List(items)),
        ]))
    }

    /// Indented JSON; Go escapes what HTML could misread.
    pub(crate) fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self)?;
        let escapes =
            [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
        Ok(escapes.iter().fold(text, |text, (character, escape)| text.replace(*character, escape)))
    }

    /// YAML with sorted fields.
    pub(crate) fn to_yaml(&self) -> String {
        yaml::render(&self.sorted())
    }

    fn sorted(&self) -> Self {
        match self {
            Self::List(items) => Self::List(items.iter().map(Self::sorted).collect()),
            Self::Fields(fields) => {
                let mut fields: Vec<_> = fields.iter().map(|(name, value)| (name.clone(), value.sorted())).collect();
                fields.sort_by(|left, right| left.0.cmp(&right.0));
                Self::Fields(fields)
            }
            scalar => scalar.clone(),
        }
    }
}

/// Go types write some fields even when they are not set.
fn complete(fields: &mut Vec<(String, Document)>, name: &str) {
    if !fields.iter().any(|(known, _)| known == name) {
        fields.push((name.to_owned(), Document::Null));
    }
}

/// Arranges, at any depth, the types whose Rust form has its fields in another order.
fn arrange_children(document: &mut Document) {
    match document {
        Document::List(items) => items.iter_mut().for_each(arrange_children),
        Document::Fields(fields) => {
            for (name, value) in fields {
                let order = match name.as_str() {
                    "managedFields" => MANAGED_FIELDS,
                    "ownerReferences" => OWNER_REFERENCE,
                    "labelSelector" | "orLabelSelectors" => SELECTOR,
                    "credential" | "caCertRef" => SECRET_KEY,
                    "resourcePolicy" | "resourceModifier" => {
                        if let Document::Fields(reference) = value {
                            complete(reference, "apiGroup");
                        }
                        REFERENCE
                    }
                    "fieldsV1" => continue,
                    _ => &[],
                };
                arrange_each(value, order);
                arrange_children(value);
            }
        }
        _ => {}
    }
}

fn arrange_each(document: &mut Document, order: &[&str]) {
    match document {
        Document::List(items) => items.iter_mut().for_each(|item| arrange_each(item, order)),
        Document::Fields(fields) if !order.is_empty() => arrange(fields, order),
        _ => {}
    }
}

fn arrange(fields: &mut [(String, Document)], order: &[&str]) {
    fields.sort_by_key(|(name, _)| order.iter().position(|known| known == name).unwrap_or(order.len()));
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => value.serialize(serializer),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Fields(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                fields.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Document, E> {
        Ok(Document::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Document, E> {
        Ok(Document::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Document, E> {
        Ok(Document::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Document, E> {
        Ok(Document::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Document, E> {
        Ok(Number::from_f64(value).map_or(Document::Null, Document::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Document, E> {
        Ok(Document::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Document, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Document::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Document, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = access.next_entry()? {
            fields.push(field);
        }
        Ok(Document::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{Backup, BackupSpec};

    use super::*;

    #[test]
    fn an_object_shows_its_fields_in_the_order_of_the_api() {
        let spec = BackupSpec { included_namespaces: vec!["a&b".to_owned()], ..BackupSpec::default() };
        let json = Document::of_object(&Backup::new("velero", "b1", spec)).unwrap().to_json().unwrap();
        let expected = r#"{
  "kind": "Backup",
  "apiVersion": "velero.io/v1",
  "metadata": {
    "name": "b1",
    "namespace": "velero",
    "creationTimestamp": null
  },
  "spec": {
    "metadata": {},
    "includedNamespaces": [
      "a\u0026b"
    ],
    "ttl": "0s","#;
        assert!(json.starts_with(expected), "{json}");
    }
}

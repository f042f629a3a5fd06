//! One object as the bytes the API server sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::resource_type::ResourceType;

/// An object that keeps the server's bytes. Only its name, its namespace and where its metadata lie are known up front;
/// everything else is parsed when asked for.
///
/// The bytes are a slice of the page they came in: an item keeps its page in memory. [`RawItem::detach`] ends that.
#[derive(Debug, Clone)]
pub struct RawItem {
    resource_type: Arc<ResourceType>,
    bytes: Bytes,
    metadata: Range<usize>,
    name: Box<str>,
    namespace: Option<Box<str>>,
    type_fields: TypeFields,
}

/// Whether the bytes hold `apiVersion` and `kind`: items of a list of a built-in type hold neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeFields {
    Both,
    Neither,
    /// One is there, or one is empty: nothing the API server sends, but other servers may.
    Odd,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    api_version: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Identity<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
}

impl RawItem {
    /// Takes the bytes of one JSON object.
    pub fn new(resource_type: Arc<ResourceType>, bytes: Bytes) -> Result<Self> {
        let unreadable = |error: serde_json::Error| unreadable(&resource_type, "an object", error);
        // Of what is passed over, the parser looks at brackets and quotes alone.
        let text = str::from_utf8(&bytes).map_err(|error| unreadable(serde::de::Error::custom(error)))?;
        let head: Head<'_> = serde_json::from_str(fields(text).map_err(unreadable)?).map_err(unreadable)?;
        let metadata = head.metadata.map_or("{}", RawValue::get);
        let identity: Identity<'_> = serde_json::from_str(fields(metadata).map_err(unreadable)?).map_err(unreadable)?;
        let name = identity.name.unwrap_or_default().0.into();
        let namespace = identity.namespace.filter(|text| !text.0.is_empty()).map(|text| text.0.into());
        let type_fields = type_fields(&head);
        let metadata = head.metadata.map_or(0..0, |raw| position(&bytes, raw.get()));
        Ok(Self { resource_type, metadata, name, namespace, type_fields, bytes })
    }

    /// The type the item was read as.
    pub fn resource_type(&self) -> &Arc<ResourceType> {
        &self.resource_type
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Namespace of the object; none for a cluster-scoped one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The bytes exactly as they came; they may lack `apiVersion` and `kind`.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Parses the metadata, borrowing from the item.
    pub fn metadata(&self) -> Result<Metadata<'_>> {
        match &self.bytes[self.metadata.clone()] {
            [] => Ok(Metadata::default()),
            bytes => serde_json::from_slice(bytes).map_err(|error| self.unreadable(error)),
        }
    }

    /// Appends the object with `apiVersion` and `kind` to `buffer`.
    pub fn write_to(&self, buffer: &mut Vec<u8>) -> Result<()> {
        match self.type_fields {
            TypeFields::Both => buffer.extend_from_slice(&self.bytes),
            TypeFields::Neither => self.splice_type_fields(buffer),
            TypeFields::Odd => {
                let value = self.to_value()?;
                serde_json::to_writer(buffer, &value).map_err(|error| self.unreadable(error))?;
            }
        }
        Ok(())
    }

    /// The object with `apiVersion` and `kind`, parsed.
    pub fn to_value(&self) -> Result<Value> {
        let mut value: Value = serde_json::from_slice(&self.bytes).map_err(|error| self.unreadable(error))?;
        if self.type_fields != TypeFields::Both
            && let Some(object) = value.as_object_mut()
        {
            object.insert("apiVersion".to_owned(), self.resource_type.api_version().into());
            object.insert("kind".to_owned(), self.resource_type.kind.clone().into());
        }
        Ok(value)
    }

    /// The same item in memory of its own, for one that outlives its page.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self { bytes: Bytes::copy_from_slice(&self.bytes), ..self.clone() }
    }

    fn splice_type_fields(&self, buffer: &mut Vec<u8>) {
        // Versions and kinds are plain ASCII names: they need no escapes.
        let head =
            format!(r#"{{"apiVersion":"{}","kind":"{}""#, self.resource_type.api_version(), self.resource_type.kind);
        let rest = self.bytes.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
        buffer.extend_from_slice(head.as_bytes());
        if !rest.trim_ascii_start().starts_with(b"}") {
            buffer.push(b',');
        }
        buffer.extend_from_slice(rest);
    }

    fn unreadable(&self, error: serde_json::Error) -> Error {
        unreadable(&self.resource_type, &format!("{:?}", self.name), error)
    }
}

/// The parts of an object's metadata that decisions are made on.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata<'a> {
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    labels: Option<BTreeMap<Text<'a>, Text<'a>>>,
    /// Left unparsed: annotations can be large and few are ever asked for.
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

impl Metadata<'_> {
    /// UID; empty when the object has none.
    pub fn uid(&self) -> &str {
        self.uid.as_ref().map_or("", Text::as_str)
    }

    /// Resource version; empty when the object has none.
    pub fn resource_version(&self) -> &str {
        self.resource_version.as_ref().map_or("", Text::as_str)
    }

    /// When deletion was asked for, for an object that is going away.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.deletion_timestamp.as_ref().map(Text::as_str)
    }

    /// All labels in order of their keys.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(Text::as_str)
    }

    /// Value of one annotation.
    pub fn annotation(&self, key: &str) -> Option<String> {
        let annotations: BTreeMap<Text<'_>, Text<'_>> = serde_json::from_str(self.annotations?.get()).ok()?;
        annotations.get(key).map(|value| value.as_str().to_owned())
    }
}

/// A string that borrows from the page unless it holds escapes. (Inside `Option` and maps, a plain `Cow` never borrows.)
#[derive(Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Text<'_> {
    fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

fn type_fields(head: &Head<'_>) -> TypeFields {
    let filled = |field: Option<&RawValue>| field.is_some_and(|raw| !matches!(raw.get(), "null" | "\"\""));
    match (head.api_version, head.kind) {
        (None, None) => TypeFields::Neither,
        (api_version, kind) if filled(api_version) && filled(kind) => TypeFields::Both,
        _ => TypeFields::Odd,
    }
}

/// Where a part that was borrowed from `whole` lies in it.
fn position(whole: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// The text of a JSON object. Serde would take a list for one too, its fields in their order.
fn fields(text: &str) -> serde_json::Result<&str> {
    match text.trim_start().starts_with('{') {
        true => Ok(text),
        false => Err(serde::de::Error::custom("it is no JSON object")),
    }
}

fn unreadable(resource_type: &ResourceType, what: &str, error: serde_json::Error) -> Error {
    Error::Unreadable { action: format!("read {what} of {}", resource_type.group_resource()), source: error.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(text: &'static str) -> RawItem {
        let resource_type = Arc::new(ResourceType::new("apps/v1", "Deployment", "deployments", true));
        RawItem::new(resource_type, Bytes::from_static(text.as_bytes())).unwrap()
    }

    /// The object with `apiVersion` and `kind` as JSON text.
    fn written(text: &'static str) -> Vec<u8> {
        let mut written = Vec::new();
        item(text).write_to(&mut written).unwrap();
        written
    }

    #[test]
    fn what_is_no_text_or_no_object_is_no_item() {
        let kind = Arc::new(ResourceType::new("v1", "ConfigMap", "configmaps", true));
        for bytes in [
            &b"{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"\xbe\x93\"}}"[..],
            b"[{\"name\":\"a\"},\"v1\",\"ConfigMap\"]",
            b"{\"metadata\":[\"a\",\"shop\"]}",
            b"null",
        ] {
            let error = RawItem::new(Arc::clone(&kind), Bytes::from_static(bytes)).unwrap_err().to_string();
            assert!(error.contains("configmaps"), "{error}");
        }
    }

    #[test]
    fn missing_type_fields_are_spliced_in_front() {
        for (text, expected) in [
            (
                r#"{"metadata":{"name":"web"},"spec":{}}"#,
                r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{}}"#,
            ),
            ("{}", r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#),
            (" { } ", r#"{"apiVersion":"apps/v1","kind":"Deployment" } "#),
        ] {
            assert_eq!(String::from_utf8(written(text)).unwrap(), expected);
        }
    }

    #[test]
    fn present_type_fields_are_left_alone() {
        let text = r#"{"metadata":{"name":"web"},"kind":"Odd","apiVersion":"old/v1"}"#;
        assert_eq!(written(text), text.as_bytes());
        assert_eq!(item(text).to_value().unwrap()["apiVersion"], "old/v1");
    }

    #[test]
    fn half_present_type_fields_are_completed_without_duplicates() {
        for text in [
            r#"{"kind":"Deployment","metadata":{"name":"web"}}"#,
            r#"{"kind":null,"apiVersion":"","metadata":{"name":"web"}}"#,
        ] {
            let written = written(text);
            let expected = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
            assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), expected);
            assert_eq!(String::from_utf8(written).unwrap().matches("kind").count(), 1);
        }
    }

    #[test]
    fn a_kind_deeper_in_the_object_does_not_count() {
        let nested = item(r#"{"spec":{"kind":"X","apiVersion":"y"},"metadata":{"name":"web"}}"#);
        assert_eq!(nested.to_value().unwrap()["kind"], "Deployment");
    }

    #[test]
    fn bytes_survive_untouched() {
        let text = "{\"metadata\":{\"name\":\"web\"},\"data\":{\"html\":\"\\u003cb\\u003e\",\"n\":123456789012345678901234567890}}";
        assert!(String::from_utf8(written(text)).unwrap().ends_with(&text[1..]));
    }

    #[test]
    fn metadata_are_read_where_they_are() {
        let item = item(concat!(
            r#"{"spec":{"metadata":{"name":"wrong"}},"metadata":{"name":"web","namespace":"shop","uid":"u-1","#,
            r#""labels":{"app":"web","quoted":"a\"b"},"annotations":{"note":"x","long":"\n"},"#,
            r#""creationTimestamp":null,"deletionTimestamp":"2026-01-01T00:00:00Z"}}"#
        ));
        assert_eq!((item.name(), item.namespace()), ("web", Some("shop")));
        let metadata = item.metadata().unwrap();
        assert_eq!(metadata.uid(), "u-1");
        assert_eq!(metadata.label("app"), Some("web"));
        assert_eq!(metadata.label("quoted"), Some("a\"b"));
        assert_eq!(metadata.labels().count(), 2);
        assert_eq!(metadata.annotation("long").as_deref(), Some("\n"));
        assert!(metadata.annotation("note").is_some() && metadata.annotation("app").is_none());
        assert_eq!(metadata.deletion_timestamp(), Some("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn null_labels_and_missing_metadata_are_no_labels() {
        assert_eq!(item(r#"{"metadata":{"name":"web","labels":null}}"#).metadata().unwrap().labels().count(), 0);
        assert_eq!(item("{}").metadata().unwrap().uid(), "");
        assert_eq!(item(r#"{"metadata":null}"#).name(), "");
    }

    #[test]
    fn what_is_not_an_object_is_refused_with_the_type() {
        let resource_type = Arc::new(ResourceType::new("apps/v1", "Deployment", "deployments", true));
        let error = RawItem::new(resource_type, Bytes::from_static(b"[1]")).unwrap_err().to_string();
        assert!(error.contains("deployments.apps"), "{error}");
    }

    #[test]
    fn a_detached_item_lives_in_memory_of_its_own() {
        let page = Bytes::from(br#"xxxx{"metadata":{"name":"web"}}"#.to_vec());
        let resource_type = Arc::new(ResourceType::new("v1", "Pod", "pods", true));
        let item = RawItem::new(resource_type, page.slice(4..)).unwrap();
        let detached = item.detach();
        assert_eq!(detached.as_bytes(), item.as_bytes());
        assert_ne!(detached.as_bytes().as_ptr(), item.as_bytes().as_ptr());
        assert_eq!(item.as_bytes().as_ptr(), page[4..].as_ptr());
        assert_eq!(detached.metadata().unwrap().uid(), "");
    }
}

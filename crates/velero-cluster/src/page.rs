//! One page of a list, split into items without copying them.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::item::RawItem;
use crate::resource_type::ResourceType;

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// The items in the server's order.
    pub items: Vec<RawItem>,
    /// How many items follow on later pages, when the server says so.
    pub remaining: Option<u64>,
    /// Resource version of the list.
    pub resource_version: String,
    /// The list had to start over: this page holds all items, those of earlier pages included.
    pub restarted: bool,
    /// Size of the page as it came, in bytes.
    pub size: usize,
    pub(crate) continue_token: Option<String>,
}

#[derive(Deserialize)]
struct ListDocument<'a> {
    metadata: Option<ListMetadata>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_token: String,
    remaining_item_count: Option<u64>,
}

impl Page {
    /// Splits the bytes of a list document.
    pub(crate) fn parse(resource_type: &Arc<ResourceType>, bytes: &Bytes) -> Result<Self> {
        let document: ListDocument<'_> = serde_json::from_slice(bytes).map_err(|error| Error::Unreadable {
            action: format!("list {}", resource_type.group_resource()),
            source: error.into(),
        })?;
        let metadata = document.metadata.unwrap_or_default();
        let raw_items = document.items.unwrap_or_default();
        let items = raw_items
            .into_iter()
            .map(|raw| RawItem::new(Arc::clone(resource_type), bytes.slice_ref(raw.get().as_bytes())))
            .collect::<Result<_>>()?;
        Ok(Self {
            items,
            remaining: metadata.remaining_item_count,
            resource_version: metadata.resource_version,
            restarted: false,
            size: bytes.len(),
            continue_token: Some(metadata.continue_token).filter(|token| !token.is_empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Page> {
        let resource_type = Arc::new(ResourceType::new("v1", "ConfigMap", "configmaps", true));
        Page::parse(&resource_type, &Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn a_list_of_a_built_in_type_is_split_into_its_bytes() {
        let page = parse(concat!(
            r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"next","remainingItemCount":3},"#,
            r#""items":[{"metadata":{"name":"a","namespace":"x"},"data":{"k":"]}\""}},{"metadata":{"name":"b"}}]}"#
        ))
        .unwrap();
        assert_eq!(page.items.len(), 2);
        assert_eq!(&page.items[0].as_bytes()[..], br#"{"metadata":{"name":"a","namespace":"x"},"data":{"k":"]}\""}}"#);
        assert_eq!((page.items[1].name(), page.items[1].namespace()), ("b", None));
        assert_eq!(page.remaining, Some(3));
        assert_eq!(page.resource_version, "7");
        assert_eq!(page.continue_token.as_deref(), Some("next"));
    }

    #[test]
    fn a_list_of_custom_resources_has_its_metadata_last() {
        let page = parse(r#"{"apiVersion":"v1","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}],"kind":"L","metadata":{"continue":"","resourceVersion":"9"}}"#).unwrap();
        assert_eq!(page.items[0].name(), "a");
        assert_eq!(page.continue_token, None);
        assert_eq!(page.resource_version, "9");
    }

    #[test]
    fn items_share_the_memory_of_the_page() {
        let bytes = Bytes::from(br#"{"items":[{"metadata":{"name":"a"}}]}"#.to_vec());
        let page = Page::parse(&Arc::new(ResourceType::new("v1", "Pod", "pods", true)), &bytes).unwrap();
        assert_eq!(page.items[0].as_bytes().as_ptr(), bytes[10..].as_ptr());
    }

    #[test]
    fn a_list_without_items_is_empty() {
        for text in [r#"{"items":null}"#, r#"{"metadata":null}"#, r#"{"items":[]}"#] {
            assert!(parse(text).unwrap().items.is_empty(), "{text}");
        }
    }

    #[test]
    fn a_truncated_list_is_an_error_that_names_the_type() {
        let error = parse(r#"{"items":[{"metadata":{"#).unwrap_err().to_string();
        assert!(error.contains("configmaps"), "{error}");
    }
}

//! Names, labels and age of all objects of a type, page by page: lists of any length take the memory of a page.
//!
//! The API server sends all metadata, annotations and managed fields among them, which are most of it. They are passed over
//! where they lie: as values they would take many times the memory of their text.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Resource};
use serde::Deserialize;

use crate::list::next_limit;
use crate::pages::Position;

/// Pages are kept near this size: fewer objects are asked for after a page that was larger.
const PAGE_BYTES: usize = 512 << 10;
/// How many objects the first page has, and how many a page has at most.
const FIRST_PAGE_ITEMS: u32 = 250;
const PAGE_ITEMS: u32 = 500;

/// The little of an object's metadata that is kept of lists.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListedMetadata {
    /// Its name.
    pub name: String,
    /// Its namespace; empty where it is in none.
    pub namespace: String,
    /// Its labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// When it was made.
    pub creation_timestamp: Option<Time>,
}

impl ListedMetadata {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataPage {
    /// The objects in the server's order.
    pub items: Vec<ListedMetadata>,
    /// The list had to start over: this page holds all objects, those of earlier pages included.
    pub restarted: bool,
}

/// A list of all objects of a type, in all namespaces.
pub struct MetadataPages {
    client: Client,
    request: Request,
    /// Nothing behind the last page.
    position: Option<Position>,
}

impl MetadataPages {
    /// Lists a type. Nothing is asked for yet.
    pub fn of<K: Resource<DynamicType = ()>>(client: &Client) -> Self {
        let position = Position::new(&ListParams::default(), FIRST_PAGE_ITEMS);
        Self { client: client.clone(), request: Request::new(K::url_path(&(), None)), position: Some(position) }
    }

    /// The next page; nothing behind the last one, and after an error.
    pub async fn next_page(&mut self) -> Result<Option<MetadataPage>, kube::Error> {
        let Some(mut position) = self.position.take() else { return Ok(None) };
        let mut restarted = false;
        loop {
            let request = self.request.list_metadata(&position.next).map_err(kube::Error::BuildRequest)?;
            match self.client.request_text(request).await {
                Ok(text) => {
                    let (items, token) = read(&text).map_err(kube::Error::SerdeError)?;
                    let next = |limit| next_limit(PAGE_ITEMS, limit, items.len(), text.len(), PAGE_BYTES);
                    position.next.limit = position.next.limit.map(next);
                    self.position = position.advance(token).then_some(position);
                    return Ok(Some(MetadataPage { items, restarted }));
                }
                Err(error) => {
                    position.restart(error)?;
                    restarted = true;
                }
            }
        }
    }
}

/// What is kept of all objects of a type, in all namespaces: of what is listed a page is in memory at a time.
pub async fn list_metadata_kept<K, F>(
    client: &Client,
    mut keep: impl FnMut(ListedMetadata) -> Option<F>,
) -> Result<Vec<F>, kube::Error>
where
    K: Resource<DynamicType = ()>,
{
    let (mut pages, mut kept) = (MetadataPages::of::<K>(client), Vec::new());
    while let Some(page) = pages.next_page().await? {
        if page.restarted {
            kept.clear();
        }
        kept.extend(page.items.into_iter().filter_map(&mut keep));
    }
    Ok(kept)
}

#[derive(Deserialize)]
struct Document {
    metadata: Option<Head>,
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metadata: ListedMetadata,
}

/// The objects of a page, and the token that leads to the next one.
fn read(text: &str) -> serde_json::Result<(Vec<ListedMetadata>, Option<String>)> {
    let document: Document = serde_json::from_str(text)?;
    let items = document.items.unwrap_or_default().into_iter().map(|item| item.metadata).collect();
    Ok((items, document.metadata.and_then(|head| head.token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_age_are_read_and_the_rest_is_passed_over() {
        let text = concat!(
            r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","#,
            r#""metadata":{"resourceVersion":"7","continue":"next","remainingItemCount":3},"items":["#,
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"data","namespace":"shop","#,
            r#""uid":"u","creationTimestamp":"2026-11-01T03:00:00Z","labels":{"app":"web"},"annotations":{"a":"]}\""},"#,
            r#""managedFields":[{"manager":"m","fieldsV1":{"f:metadata":{"f:labels":{".":{}}}}}]}},"#,
            r#"{"metadata":{"name":"bare","creationTimestamp":null,"labels":null}},{}]}"#
        );
        let (items, token) = read(text).unwrap();
        assert_eq!(token.as_deref(), Some("next"));
        let [data, bare, nothing] = items.as_slice() else { panic!("{items:?}") };
        assert_eq!((data.namespace.as_str(), data.name.as_str(), data.label("app")), ("shop", "data", Some("web")));
        assert_eq!(data.creation_timestamp, Some(Time("2026-11-01T03:00:00Z".parse().unwrap())));
        assert_eq!((bare.name.as_str(), bare.label("app"), bare.creation_timestamp.as_ref()), ("bare", None, None));
        assert_eq!(nothing, &ListedMetadata::default());
    }

    #[test]
    fn a_list_may_be_empty_and_what_is_no_list_is_an_error() {
        for text in [r#"{"items":null}"#, r#"{"metadata":{}}"#, r#"{"items":[]}"#] {
            assert_eq!(read(text).unwrap(), (Vec::new(), None), "{text}");
        }
        for text in ["", "[1]", r#"{"items":[{"metadata":"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}

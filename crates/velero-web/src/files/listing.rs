//! The objects of a backup or restore that a search finds, a page at a time: the list may name a million.

use std::fmt;
use std::io::{BufReader, Read};

use flate2::read::MultiGzDecoder;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use velero_api::v1::DownloadTargetKind;

use super::{FileProblem, Files, read, target};

/// How many objects a page has.
pub(crate) const OBJECTS: usize = 100;

/// An object that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// Its kind with group and version, as in `apps/v1/Deployment`.
    pub(crate) kind: String,
    /// Its namespace and name, as in `shop/web`; what a restore did with it stands behind it.
    pub(crate) name: String,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Listing {
    pub(crate) found: Vec<Found>,
    /// How many match.
    pub(crate) matched: usize,
    /// How many there are.
    pub(crate) total: usize,
}

impl Listing {
    /// Reads a page of the objects of a backup or restore.
    pub(crate) async fn read(
        files: &dyn Files,
        kind: DownloadTargetKind,
        name: &str,
        search: &str,
        page: usize,
    ) -> Result<Self, FileProblem> {
        let search = search.to_lowercase();
        read(files, &target(kind, name), move |reader, _| {
            select(MultiGzDecoder::new(reader), &search, page).map_err(|error| error.to_string())
        })
        .await
    }
}

fn select(reader: impl Read, search: &str, page: usize) -> serde_json::Result<Listing> {
    let mut listing = Listing::default();
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::with_capacity(64 << 10, reader));
    let kinds = Kinds { listing: &mut listing, search, first: page.saturating_mul(OBJECTS) };
    kinds.deserialize(&mut deserializer)?;
    Ok(listing)
}

/// Reads the document and keeps a page of it.
struct Kinds<'a> {
    listing: &'a mut Listing,
    search: &'a str,
    first: usize,
}

impl<'de> DeserializeSeed<'de> for Kinds<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Kinds<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects by their kind")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(kind) = map.next_key::<String>()? {
            map.next_value_seed(Names { kind: &kind, listing: self.listing, search: self.search, first: self.first })?;
        }
        Ok(())
    }
}

/// Reads the names of a kind.
struct Names<'a> {
    kind: &'a str,
    listing: &'a mut Listing,
    search: &'a str,
    first: usize,
}

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of names")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<(), A::Error> {
        let whole_kind = self.kind.to_lowercase().contains(self.search);
        while let Some(name) = names.next_element::<String>()? {
            self.listing.total += 1;
            if !whole_kind && !name.to_lowercase().contains(self.search) {
                continue;
            }
            self.listing.matched += 1;
            if self.listing.matched > self.first && self.listing.found.len() < OBJECTS {
                self.listing.found.push(Found { kind: self.kind.to_owned(), name });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_kind_or_name() {
        let text = r#"{"apps/v1/Deployment":["shop/web","shop/api"],"v1/Pod":["shop/web-1"],"v1/Secret":null}"#;
        let names = |search: &str| -> Vec<String> {
            select(text.as_bytes(), search, 0).unwrap().found.into_iter().map(|found| found.name).collect()
        };
        assert_eq!(names(""), ["shop/web", "shop/api", "shop/web-1"]);
        assert_eq!(names("web"), ["shop/web", "shop/web-1"]);
        assert_eq!(names("pod"), ["shop/web-1"]);
        let counts = select(text.as_bytes(), "web", 0).unwrap();
        assert_eq!((counts.matched, counts.total), (2, 3));
    }

    #[test]
    fn a_list_of_any_length_is_shown_a_page_at_a_time() {
        let names: Vec<String> = (0..OBJECTS + 1).map(|number| format!("n/{number}")).collect();
        let text = serde_json::json!({ "v1/Pod": names }).to_string();
        let page = |page| select(text.as_bytes(), "", page).unwrap();
        assert_eq!((page(0).found.len(), page(1).found.len(), page(9).found.len()), (OBJECTS, 1, 0));
        assert_eq!(page(9).matched, OBJECTS + 1);
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        assert!(select(&b"{\"v1/Pod\":[1]}"[..], "", 0).is_err());
        assert!(select(&b"[]"[..], "", 0).is_err());
        assert_eq!(select(&b"null"[..], "", 0).unwrap(), Listing::default());
    }
}

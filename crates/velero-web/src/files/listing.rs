//! The objects of a backup or restore that a search finds, a page at a time: the list may name a million.

use std::fmt;
use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use velero_api::v1::DownloadTargetKind;
use velero_archive::gzjson;

use super::{FileProblem, Files, Unreadable, read, target};

/// How many objects a page has.
pub(crate) const OBJECTS: usize = 100;
/// How large a list may be once it is decompressed: as large as the server itself reads one. A name may be as long as the list is.
const LARGEST: u64 = gzjson::DEFAULT_LIMIT;

/// An object that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// Its kind with group and version, as in `apps/v1/Deployment`.
    pub(crate) kind: String,
    /// Its namespace and name, as in `shop/web`; what a restore did with it stands behind it.
    pub(crate) name: String,
}

/// What is looked for, in letters of any size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Search {
    /// A part of a kind or of a name; empty finds everything.
    Part(String),
    /// An object: a part of its kind, its namespace and a part of its name, as far as they are not empty.
    Object { kind: String, namespace: String, name: String },
}

impl Search {
    /// Whether all objects of a kind are found, or none; nothing where their names decide.
    fn finds_kind(&self, kind: &str) -> Option<bool> {
        let is_in = |part: &str| kind.to_lowercase().contains(&part.to_lowercase());
        match self {
            Self::Part(part) => is_in(part).then_some(true),
            Self::Object { kind: wanted, .. } => (!singulars(wanted).any(|wanted| is_in(&wanted))).then_some(false),
        }
    }

    fn finds_name(&self, found: &str) -> bool {
        match self {
            Self::Part(part) => found.to_lowercase().contains(&part.to_lowercase()),
            Self::Object { namespace, name, .. } => {
                let (in_namespace, found) = found.split_once('/').unwrap_or(("", found));
                let in_place = namespace.is_empty() || in_namespace == namespace.to_lowercase();
                in_place && found.to_lowercase().contains(&name.to_lowercase())
            }
        }
    }
}

/// What people may mean who write the name of a type where its kind is wanted: `policies` means `policy`.
fn singulars(word: &str) -> impl Iterator<Item = String> {
    let of_ies = word.strip_suffix("ies").map(|start| format!("{start}y"));
    let shorter =
        [word.strip_suffix("es"), word.strip_suffix('s')].into_iter().flatten().filter(|rest| !rest.is_empty());
    [word.to_owned()].into_iter().chain(of_ies).chain(shorter.map(str::to_owned)).collect::<Vec<_>>().into_iter()
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
        search: Search,
        page: usize,
    ) -> Result<Self, FileProblem> {
        read(files, &target(kind, name), move |reader, _| {
            select(MultiGzDecoder::new(reader).take(LARGEST), &search, page)
        })
        .await
    }
}

fn select(reader: io::Take<impl Read>, search: &Search, page: usize) -> Result<Listing, Unreadable> {
    let mut listing = Listing::default();
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let kinds = Kinds { listing: &mut listing, search, first: page.saturating_mul(OBJECTS) };
    let read = kinds.deserialize(&mut serde_json::Deserializer::from_reader(&mut reader));
    match read {
        Ok(()) => Ok(listing),
        Err(_) if reader.get_ref().limit() == 0 => Err(Unreadable::TooLong { mebibytes: LARGEST >> 20 }),
        Err(error) => Err(error.into()),
    }
}

/// Reads the document and keeps a page of it.
struct Kinds<'a> {
    listing: &'a mut Listing,
    search: &'a Search,
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
    search: &'a Search,
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
        let of_kind = self.search.finds_kind(self.kind);
        while let Some(name) = names.next_element::<String>()? {
            self.listing.total += 1;
            if !of_kind.unwrap_or_else(|| self.search.finds_name(&name)) {
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

    fn select(text: &[u8], search: &Search, page: usize) -> Result<Listing, Unreadable> {
        super::select(text.take(LARGEST), search, page)
    }

    #[test]
    fn objects_are_found_by_kind_or_name() {
        let text = r#"{"apps/v1/Deployment":["shop/web","shop/api"],"v1/Pod":["shop/web-1"],"v1/Secret":null}"#;
        let names = |search: &str| -> Vec<String> {
            let search = Search::Part(search.to_owned());
            select(text.as_bytes(), &search, 0).unwrap().found.into_iter().map(|found| found.name).collect()
        };
        assert_eq!(names(""), ["shop/web", "shop/api", "shop/web-1"]);
        assert_eq!(names("web"), ["shop/web", "shop/web-1"]);
        assert_eq!(names("pod"), ["shop/web-1"]);
        let counts = select(text.as_bytes(), &Search::Part("WEB".to_owned()), 0).unwrap();
        assert_eq!((counts.matched, counts.total), (2, 3));
    }

    #[test]
    fn an_object_is_found_by_what_is_known_of_it() {
        let text = r#"{"apps/v1/Deployment":["shop/web","yard/web"],"networking.k8s.io/v1/NetworkPolicy":["shop/web"],
            "v1/Namespace":["shop"],"v1/Service":["shop/Web-1"]}"#;
        let count = |kind: &str, namespace: &str, name: &str| {
            let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
            select(text.as_bytes(), &Search::Object { kind, namespace, name }, 0).unwrap().matched
        };
        for (kind, namespace, name, expected) in [
            ("", "", "web", 4),
            ("", "shop", "WEB", 3),
            ("deployment", "", "web", 2),
            ("Deployments", "yard", "web", 1),
            ("apps/v1/Deployment", "", "", 2),
            ("networkpolicies", "", "", 1),
            ("services", "shop", "", 1),
            ("namespaces", "", "shop", 1),
            ("pods", "", "web", 0),
            ("", "sho", "web", 0),
            ("s", "", "web", 4),
        ] {
            assert_eq!(count(kind, namespace, name), expected, "{kind} {namespace} {name}");
        }
    }

    #[test]
    fn a_list_of_any_length_is_shown_a_page_at_a_time() {
        let names: Vec<String> = (0..OBJECTS + 1).map(|number| format!("n/{number}")).collect();
        let text = serde_json::json!({ "v1/Pod": names }).to_string();
        let page = |page| select(text.as_bytes(), &Search::Part(String::new()), page).unwrap();
        assert_eq!((page(0).found.len(), page(1).found.len(), page(9).found.len()), (OBJECTS, 1, 0));
        assert_eq!(page(9).matched, OBJECTS + 1);
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        let all = Search::Part(String::new());
        assert!(select(b"{\"v1/Pod\":[1]}", &all, 0).is_err());
        assert!(select(b"[]", &all, 0).is_err());
        assert_eq!(select(b"null", &all, 0).unwrap(), Listing::default());
        let endless = b"{\"v1/Pod\":[\"".as_slice().chain(io::repeat(b'x')).take(1 << 20);
        let problem = super::select(endless, &all, 0).unwrap_err().to_string();
        assert!(problem.contains("more than 128 MiB"), "{problem}");
    }
}

//! What two sides hold, object by object, in little memory: names and fingerprints. A side is a backup or the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use serde::Deserialize;
use serde_json::Value;
use velero_rules::difference;

/// How many bytes the names and fingerprints of all objects may take.
const MOST_BYTES: usize = 32 << 20;
/// What an object takes beside its name.
const BESIDE_NAME: usize = 64;
/// How many differences a page has.
pub(crate) const PAGE: usize = 100;

/// One of two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    One,
    Other,
}

/// How an object differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Difference {
    /// In whichever way.
    #[default]
    Any,
    /// It is on the first side alone.
    OnlyOne,
    /// It is on the second side alone.
    OnlyOther,
    /// Both have it, and it is not the same.
    Both,
}

/// An object by its type, namespace and name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Object<'a> {
    /// Type and group, as in `deployments.apps`.
    pub(crate) resource: &'a str,
    /// Empty for what belongs to no namespace.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Object<'_> {
    /// As objects are searched for, sorted and kept: names have no slashes.
    fn key(&self) -> String {
        format!("{}/{}/{}", self.resource, self.namespace, self.name)
    }
}

/// The objects are too many to be compared at once.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("there are too many objects to compare them at once: look for a type, a namespace or a part of a name")]
pub(crate) struct TooMany;

/// What two sides hold.
pub(crate) struct Comparison {
    /// Which objects count: a part of `type/namespace/name`, in small letters.
    search: String,
    hash: RandomState,
    /// The fingerprints of both sides; zero where it is not there.
    objects: BTreeMap<Box<str>, [u64; 2]>,
    bytes: usize,
    /// API version and kind of each type that the first side has.
    types: BTreeMap<String, (String, String)>,
    /// The namespaces that the first side has.
    namespaces: BTreeSet<String>,
}

/// How many objects are where.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) only_one: usize,
    pub(crate) only_other: usize,
    pub(crate) different: usize,
    pub(crate) equal: usize,
}

impl Counts {
    /// How many differ in that way.
    pub(crate) fn of(&self, difference: Difference) -> usize {
        match difference {
            Difference::Any => self.only_one + self.only_other + self.different,
            Difference::OnlyOne => self.only_one,
            Difference::OnlyOther => self.only_other,
            Difference::Both => self.different,
        }
    }
}

impl Comparison {
    /// Compares the objects that a search finds.
    pub(crate) fn new(search: &str) -> Self {
        Self {
            search: search.trim().to_lowercase(),
            hash: RandomState::new(),
            objects: BTreeMap::new(),
            bytes: 0,
            types: BTreeMap::new(),
            namespaces: BTreeSet::new(),
        }
    }

    /// Whether an object counts. Of the first side all must be asked for: its namespaces are those of the comparison.
    pub(crate) fn is_wanted(&mut self, side: Side, object: Object<'_>) -> bool {
        if side == Side::One {
            let namespace = if object.resource == "namespaces" { object.name } else { object.namespace };
            if !namespace.is_empty() && !self.namespaces.contains(namespace) {
                self.bytes += namespace.len() + BESIDE_NAME;
                self.namespaces.insert(namespace.to_owned());
            }
        }
        self.search.is_empty() || object.key().to_lowercase().contains(&self.search)
    }

    /// Takes note of what a side holds.
    pub(crate) fn add(&mut self, side: Side, object: Object<'_>, mut content: Value) -> Result<(), TooMany> {
        if side == Side::One && !self.types.contains_key(object.resource) {
            let text = |field: &str| content[field].as_str().unwrap_or_default().to_owned();
            self.types.insert(object.resource.to_owned(), (text("apiVersion"), text("kind")));
        }
        difference::reduce(&mut content);
        let fingerprint = self.hash.hash_one(&content).max(1);
        let key = object.key();
        match self.objects.get_mut(key.as_str()) {
            Some(both) => both[side as usize] = fingerprint,
            None => {
                self.bytes += key.len() + BESIDE_NAME;
                if self.bytes > MOST_BYTES {
                    return Err(TooMany);
                }
                let both = if side == Side::One { [fingerprint, 0] } else { [0, fingerprint] };
                self.objects.insert(key.into(), both);
            }
        }
        Ok(())
    }

    /// Whether one of the sides is known to hold an object.
    pub(crate) fn holds(&self, object: Object<'_>) -> bool {
        self.objects.contains_key(object.key().as_str())
    }

    /// The types of the first side, each with its API version and kind.
    pub(crate) fn types(&self) -> Vec<(String, (String, String))> {
        self.types.iter().map(|(resource, kind)| (resource.clone(), kind.clone())).collect()
    }

    /// The namespaces of the first side.
    pub(crate) fn namespaces(&self) -> &BTreeSet<String> {
        &self.namespaces
    }

    /// Leaves out the objects of a type, in one namespace or everywhere, that cannot be compared; says how many.
    pub(crate) fn forget(&mut self, resource: &str, namespace: Option<&str>) -> usize {
        let start = namespace.map_or_else(|| format!("{resource}/"), |namespace| format!("{resource}/{namespace}/"));
        let before = self.objects.len();
        self.objects.retain(|key, _| !key.starts_with(&start));
        before - self.objects.len()
    }

    /// How many objects are where.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for both in self.objects.values() {
            let place = match of(*both) {
                Some(Difference::OnlyOne) => &mut counts.only_one,
                Some(Difference::OnlyOther) => &mut counts.only_other,
                Some(_) => &mut counts.different,
                None => &mut counts.equal,
            };
            *place += 1;
        }
        counts
    }

    /// A page of the objects that differ in the wanted way, sorted by type, namespace and name.
    pub(crate) fn page(&self, wanted: Difference, page: usize) -> Vec<(Difference, Object<'_>)> {
        let found = self.objects.iter().filter_map(|(key, both)| Some((of(*both)?, parse(key)?)));
        let found = found.filter(|(difference, _)| wanted == Difference::Any || wanted == *difference);
        found.skip(page.saturating_mul(PAGE)).take(PAGE).collect()
    }
}

fn of(both: [u64; 2]) -> Option<Difference> {
    match both {
        [one, other] if one == other => None,
        [_, 0] => Some(Difference::OnlyOne),
        [0, _] => Some(Difference::OnlyOther),
        _ => Some(Difference::Both),
    }
}

fn parse(key: &str) -> Option<Object<'_>> {
    let mut parts = key.splitn(3, '/');
    Some(Object { resource: parts.next()?, namespace: parts.next()?, name: parts.next()? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object<'a>(resource: &'a str, namespace: &'a str, name: &'a str) -> Object<'a> {
        Object { resource, namespace, name }
    }

    fn map(value: &str, version: &str) -> Value {
        let metadata = json!({"name": "a", "uid": version, "resourceVersion": version, "managedFields": [version]});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": value}, "status": version})
    }

    fn compared() -> Comparison {
        let mut comparison = Comparison::new("");
        for (side, name, value) in [
            (Side::One, "same", "1"),
            (Side::One, "changed", "1"),
            (Side::One, "gone", "1"),
            (Side::Other, "same", "1"),
            (Side::Other, "changed", "2"),
            (Side::Other, "new", "1"),
        ] {
            let object = object("configmaps", "shop", name);
            assert!(comparison.is_wanted(side, object));
            comparison.add(side, object, map(value, &format!("{side:?}"))).unwrap();
        }
        comparison
    }

    #[test]
    fn objects_differ_by_what_people_write_and_not_by_what_clusters_give() {
        let comparison = compared();
        let expected = Counts { only_one: 1, only_other: 1, different: 1, equal: 1 };
        assert_eq!(comparison.counts(), expected);
        let of = |name| object("configmaps", "shop", name);
        let all = vec![
            (Difference::Both, of("changed")),
            (Difference::OnlyOne, of("gone")),
            (Difference::OnlyOther, of("new")),
        ];
        assert_eq!(comparison.page(Difference::Any, 0), all);
        assert_eq!(comparison.page(Difference::OnlyOther, 0), all[2..]);
        assert!(comparison.page(Difference::Any, usize::MAX).is_empty());
        assert_eq!(comparison.types(), [("configmaps".to_owned(), ("v1".to_owned(), "ConfigMap".to_owned()))]);
        assert_eq!(comparison.namespaces().iter().collect::<Vec<_>>(), ["shop"]);
    }

    #[test]
    fn what_cannot_be_compared_is_no_difference() {
        let mut comparison = compared();
        assert_eq!(comparison.forget("configmaps", Some("other")), 0);
        assert_eq!(comparison.forget("config", None), 0, "another type whose name begins so");
        assert_eq!(comparison.forget("configmaps", Some("shop")), 4);
        assert_eq!(comparison.counts(), Counts::default());
    }

    #[test]
    fn a_search_finds_types_namespaces_and_names() {
        for (search, expected) in
            [("", true), (" CONFIGMAPS/shop ", true), ("web", true), ("deployments", false), ("shop/web", true)]
        {
            let found = Comparison::new(search).is_wanted(Side::One, object("configmaps", "shop", "web"));
            assert_eq!(found, expected, "{search}");
        }
    }

    #[test]
    fn memory_is_bounded_whatever_the_names_are() {
        let mut comparison = Comparison::new("");
        let long = "n".repeat(200);
        let mut taken = 0;
        let full = (0..1_000_000).find_map(|number| {
            let name = format!("{long}-{number}");
            taken = number;
            comparison.add(Side::Other, object("pods", "shop", &name), json!({})).err()
        });
        assert_eq!(full, Some(TooMany));
        assert!((100_000..150_000).contains(&taken), "{taken}");
        let known = format!("{long}-0");
        assert_eq!(comparison.add(Side::One, object("pods", "shop", &known), json!({})), Ok(()), "it is there already");
    }
}

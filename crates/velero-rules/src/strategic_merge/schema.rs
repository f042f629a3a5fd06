//! What a type says about merging its fields.

use super::table::{KINDS, OBJECT_META};

/// The groups of custom resources that Velero knows itself; their lists are replaced as a whole.
const KNOWN_CUSTOM_GROUPS: [&str; 2] = ["velero.io", "snapshot.storage.k8s.io"];

/// The fields of a type that are not merged in the default way.
#[derive(Debug)]
pub(super) struct Type(pub(super) &'static [Field]);

/// One such field.
#[derive(Debug)]
pub(super) struct Field {
    name: &'static str,
    pub(super) strategy: Strategy,
    /// The type of the object, or of the elements of the list.
    pub(super) of: &'static Type,
}

/// How a field is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Objects are merged, lists are replaced.
    Default,
    /// The value is replaced, also if it is an object.
    Replace,
    /// Elements of the list are merged when they have the same value under this key.
    ByKey(&'static str),
    /// The list is a set of plain values.
    Set,
}

impl Strategy {
    /// Says whether a list keeps the elements that a patch does not name.
    pub(super) fn merges_lists(self) -> bool {
        matches!(self, Self::ByKey(_) | Self::Set)
    }
}

/// A type of which nothing is known but that it is merged in the default way.
pub(super) static PLAIN: Type = Type(&[]);

static CUSTOM: Type = Type(&[object("metadata", &OBJECT_META)]);

static PLAIN_FIELD: Field = Field { name: "", strategy: Strategy::Default, of: &PLAIN };

pub(super) const fn object(name: &'static str, of: &'static Type) -> Field {
    Field { name, strategy: Strategy::Default, of }
}

pub(super) const fn list(name: &'static str, key: &'static str, of: &'static Type) -> Field {
    Field { name, strategy: Strategy::ByKey(key), of }
}

pub(super) const fn set(name: &'static str) -> Field {
    Field { name, strategy: Strategy::Set, of: &PLAIN }
}

pub(super) const fn replaced(name: &'static str) -> Field {
    Field { name, strategy: Strategy::Replace, of: &PLAIN }
}

impl Type {
    /// Gives what is known of a kind; none if it is unknown.
    pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if KNOWN_CUSTOM_GROUPS.contains(&group) {
            return Some(&CUSTOM);
        }
        let found = KINDS.binary_search_by(|(version, name, _)| (*version, *name).cmp(&(api_version, kind)));
        found.ok().map(|index| KINDS[index].2)
    }

    /// Gives what is known of a field.
    pub(super) fn field(&self, name: &str) -> &Field {
        self.0.iter().find(|field| field.name == name).unwrap_or(&PLAIN_FIELD)
    }
}

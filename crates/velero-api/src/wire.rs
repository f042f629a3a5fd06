//! Small serde helpers that make our JSON equal to what Go's `omitempty` produces.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Fields that were read but are not known to this version; they are written back unchanged.
pub type UnknownFields = BTreeMap<String, serde_json::Value>;

/// Reads an explicit `null` as the default value, as Go does.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether a number is left out of the JSON.
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Whether a flag is left out of the JSON.
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Writes an empty list or map as `null`, as Go does with one that was never filled.
pub(crate) fn empty_as_null<T, S>(collection: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Serialize,
    for<'a> &'a T: IntoIterator,
    S: Serializer,
{
    let filled = collection.into_iter().next().map(|_| collection);
    filled.serialize(serializer)
}

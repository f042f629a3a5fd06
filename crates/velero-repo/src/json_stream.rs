//! Kopia's JSON streams, `{"stream":"…","entries":[…],…}`, entry by entry: a directory of a million files is one of them.

use std::io::{self, BufReader, Read};
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::object::ObjectReader;
use crate::{Error, Result};

/// Reads a stream of a kind and shows its entries; `what` is for messages.
pub(crate) fn read<T: DeserializeOwned>(
    mut object: ObjectReader<'_>,
    what: &str,
    kind: &str,
    visit: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let outcome = read_from(&mut object, what, kind, visit);
    // The reader knows better than the parser why bytes are missing.
    object.take_failure().map_or(outcome, Err)
}

/// The same for any bytes.
pub(crate) fn read_from<T: DeserializeOwned>(
    bytes: impl Read,
    what: &str,
    kind: &str,
    mut visit: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let mut refused = None;
    let mut take =
        |entry| visit(entry).map_err(|error| refused = Some(error)).map_err(|()| io::Error::other("refused"));
    let stream = Stream { kind, take: &mut take, entry: PhantomData };
    let mut parser = serde_json::Deserializer::from_reader(BufReader::with_capacity(32 << 10, bytes));
    let parsed = stream.deserialize(&mut parser).and_then(|()| parser.end());
    match (refused, parsed) {
        (Some(error), _) => Err(error),
        (None, parsed) => parsed.map_err(|error| Error::malformed(what, error)),
    }
}

struct Stream<'a, T> {
    kind: &'a str,
    take: &'a mut dyn FnMut(T) -> io::Result<()>,
    entry: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Stream<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Stream<'_, T> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "a stream {:?}", self.kind)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut known, mut seen) = (self.kind.is_empty(), false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "stream" => {
                    let kind: String = map.next_value()?;
                    if kind != self.kind {
                        return Err(serde::de::Error::custom(format!(
                            "it is a stream {kind:?} and not {:?}",
                            self.kind
                        )));
                    }
                    known = true;
                }
                "entries" if known && !seen => {
                    map.next_value_seed(Rows { take: &mut *self.take, entry: PhantomData })?;
                    seen = true;
                }
                "entries" => {
                    return Err(serde::de::Error::custom("entries come twice, or before the kind of the stream"));
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if known && seen { Ok(()) } else { Err(serde::de::Error::custom("it has no entries")) }
    }
}

struct Rows<'a, T> {
    take: &'a mut dyn FnMut(T) -> io::Result<()>,
    entry: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Rows<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Rows<'_, T> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of entries or null")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(entry) = rows.next_element::<T>()? {
            (self.take)(entry).map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }
}

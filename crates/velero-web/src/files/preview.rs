//! What a restore would do, a page at a time: the report may tell of hundreds of thousands of objects and their differences.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use velero_api::records::Results;
use velero_api::v1::DownloadTargetKind;
use velero_archive::gzjson;
use velero_engine::restore::{ItemPreview, PreviewAction};

use super::{FileProblem, Files, Unreadable, read, target};

/// How many objects a page has.
const ITEMS: usize = 100;
/// How large a report may be once it is decompressed.
const LARGEST: u64 = gzjson::DEFAULT_LIMIT;

/// A page of what the server has found out.
#[derive(Debug, Default)]
pub(crate) struct Preview {
    pub(crate) shown: Vec<ItemPreview>,
    /// Whether there are more behind them.
    pub(crate) more: bool,
    pub(crate) warnings: Results,
    pub(crate) errors: Results,
    counts: BTreeMap<PreviewAction, usize>,
}

impl Preview {
    /// Reads a page of the report of a dry run.
    pub(crate) async fn read(files: &dyn Files, name: &str, page: usize) -> Result<Self, FileProblem> {
        read(files, &target(DownloadTargetKind::RestoreResults, name), move |reader, _| {
            select(MultiGzDecoder::new(reader).take(LARGEST), page)
        })
        .await
    }

    /// To how many objects, of all, that would happen.
    pub(crate) fn count(&self, action: PreviewAction) -> usize {
        self.counts.get(&action).copied().unwrap_or_default()
    }
}

fn select(reader: io::Take<impl Read>, page: usize) -> Result<Preview, Unreadable> {
    let mut preview = Preview::default();
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let report = Report { preview: &mut preview, first: page.saturating_mul(ITEMS) };
    let read = report.deserialize(&mut serde_json::Deserializer::from_reader(&mut reader));
    match read {
        Ok(()) => Ok(preview),
        Err(_) if reader.get_ref().limit() == 0 => Err(Unreadable::TooLong { mebibytes: LARGEST >> 20 }),
        Err(error) => Err(error.into()),
    }
}

/// Reads the report and keeps a page of it.
struct Report<'a> {
    preview: &'a mut Preview,
    first: usize,
}

impl<'de> DeserializeSeed<'de> for Report<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Report<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("what a restore would do")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "items" => map.next_value_seed(Items { preview: self.preview, first: self.first })?,
                "warnings" => self.preview.warnings = map.next_value::<Option<Results>>()?.unwrap_or_default(),
                "errors" => self.preview.errors = map.next_value::<Option<Results>>()?.unwrap_or_default(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads the objects.
struct Items<'a> {
    preview: &'a mut Preview,
    first: usize,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(item) = items.next_element::<ItemPreview>()? {
            *self.preview.counts.entry(item.action).or_default() += 1;
            if number >= self.first {
                match self.preview.shown.len() < ITEMS {
                    true => self.preview.shown.push(item),
                    false => self.preview.more = true,
                }
            }
            number += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(count: usize, page: usize) -> Preview {
        let item = |number: usize| {
            let action = if number.is_multiple_of(2) { "create" } else { "skip" };
            json!({"action": action, "apiVersion": "v1", "kind": "ConfigMap", "resource": "configmaps", "name": number.to_string()})
        };
        let items: Vec<_> = (0..count).map(item).collect();
        let report = json!({"backup": "b", "items": items, "warnings": {"velero": ["look"]}, "errors": {}}).to_string();
        select(report.as_bytes().take(LARGEST), page).unwrap()
    }

    #[test]
    fn a_report_of_any_length_is_shown_a_page_at_a_time_and_all_is_counted() {
        for (number, shown, more) in [(0, ITEMS, true), (1, ITEMS, false), (2, 0, false), (usize::MAX, 0, false)] {
            let preview = page(2 * ITEMS, number);
            assert_eq!((preview.shown.len(), preview.more), (shown, more), "page {number}");
            let counts = [PreviewAction::Create, PreviewAction::Skip, PreviewAction::Fail];
            assert_eq!(counts.map(|action| preview.count(action)), [ITEMS, ITEMS, 0]);
        }
        let second = page(ITEMS + 1, 1);
        assert_eq!(
            (second.shown[0].name.as_str(), second.warnings.velero.as_slice()),
            ("100", &["look".to_owned()][..])
        );
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        let read = |text: &'static str| select(text.as_bytes().take(LARGEST), 0);
        assert!(read("[]").is_err() && read("{\"items\":[1]}").is_err() && read("{\"items\":[").is_err());
        assert!(read("{\"items\":null}").unwrap().shown.is_empty());
        let endless = b"{\"backup\":\"".as_slice().chain(io::repeat(b'x')).take(1 << 20);
        assert!(select(endless, 0).unwrap_err().to_string().contains("more than 128 MiB"));
    }
}

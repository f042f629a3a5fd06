//! All objects of a backup, one after the other, for a comparison: of each its fingerprint stays.

use std::io::Read;
use std::time::Instant;

use velero_api::v1::DownloadTargetKind;
use velero_archive::{ArchiveReader, Entry, ItemPath};

use super::{FileProblem, Files, Unreadable, read_until, target};
use crate::comparison::{Comparison, Object, Side};

/// Takes what a backup holds into a comparison, and gives that back.
pub(crate) async fn take_contents(
    files: &dyn Files,
    backup: &str,
    comparison: Comparison,
    side: Side,
    deadline: Instant,
) -> Result<Comparison, FileProblem> {
    let wanted = target(DownloadTargetKind::BackupContents, backup);
    read_until(deadline, files, &wanted, move |reader, deadline| take_all(reader, comparison, side, deadline)).await
}

fn take_all(
    reader: impl Read,
    mut comparison: Comparison,
    side: Side,
    deadline: Instant,
) -> Result<Comparison, Unreadable> {
    let read = ArchiveReader::new(reader).for_each(|entry| {
        if Instant::now() > deadline {
            let text = "it takes too long: look for a type, a namespace or a part of a name";
            return Err(Unreadable::TooSlow(text));
        }
        take(entry, &mut comparison, side)
    });
    read.map(|_| comparison)
}

/// Takes one object. Of an object in several versions the copy counts that restores use.
fn take(entry: Entry<'_>, comparison: &mut Comparison, side: Side) -> Result<(), Unreadable> {
    let Some(item) = ItemPath::parse(entry.path).filter(|item| item.version.is_none()) else { return Ok(()) };
    let namespace = item.namespace.unwrap_or_default();
    let object = Object { resource: item.group_resource, namespace, name: item.name };
    if !comparison.is_wanted(side, object) {
        return Ok(());
    }
    let content = serde_json::from_slice(entry.body);
    let content = content.map_err(|problem| Unreadable::Entry { path: entry.path.to_owned(), problem })?;
    Ok(comparison.add(side, object, content)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use velero_archive::ArchiveWriter;

    use super::*;
    use crate::comparison::Counts;

    fn archive(items: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Vec::new(), 0).unwrap();
        for (path, body) in items {
            writer.append(path, body.as_bytes()).unwrap();
        }
        writer.finish().unwrap()
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1"}}"#;
    const PATH: &str = "resources/configmaps/namespaces/shop/a.json";
    const COPY: &str = "resources/configmaps/v1-preferredversion/namespaces/shop/a.json";

    #[test]
    fn an_archive_is_compared_object_by_object_whatever_its_order() {
        let one = archive(&[(PATH, MAP), (COPY, MAP), ("resources/namespaces/cluster/shop.json", "{}")]);
        let changed = MAP.replace('1', "2");
        let other = archive(&[("resources/namespaces/cluster/shop.json", "{}"), (PATH, &changed)]);
        let comparison = take_all(&one[..], Comparison::new(""), Side::One, later()).unwrap();
        let comparison = take_all(&other[..], comparison, Side::Other, later()).unwrap();
        let expected = Counts { different: 1, equal: 1, ..Counts::default() };
        assert_eq!(comparison.counts(), expected, "the copy in a folder of its version is no object of its own");
        assert_eq!(comparison.namespaces().len(), 1);
    }

    #[test]
    fn what_cannot_be_read_and_what_takes_too_long_says_so() {
        let broken = archive(&[(PATH, "<html>")]);
        let problem = take_all(&broken[..], Comparison::new(""), Side::One, later()).err().unwrap().to_string();
        assert!(problem.contains(PATH), "{problem}");
        let good = archive(&[(PATH, MAP)]);
        assert!(take_all(&good[..good.len() - 9], Comparison::new(""), Side::One, later()).is_err(), "cut short");
        let late = Instant::now() - Duration::from_secs(1);
        let problem = take_all(&good[..], Comparison::new(""), Side::One, late).err().unwrap().to_string();
        assert!(problem.contains("takes too long"), "{problem}");
    }
}

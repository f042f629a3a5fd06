//! Making a finalized tarball: the entries of another, in order, with some bodies replaced and some added.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use crate::limits::Limits;
use crate::reader::{ArchiveReader, Summary};
use crate::writer::{ArchiveWriter, DEFAULT_LEVEL};
use crate::{Error, Result};

/// Copies an archive from `input` to `output` with the bodies of `changes` in place of the old ones.
///
/// Paths of `changes` that the archive does not have are appended in path order. Replaced and appended entries carry
/// the time `modified`; all others keep theirs. The summary describes what was read.
pub fn rewrite<R: Read, W: Write>(
    input: R,
    output: W,
    mut changes: BTreeMap<String, Vec<u8>>,
    modified: u64,
    limits: Limits,
) -> Result<(Summary, W)> {
    let mut writer = ArchiveWriter::without_version(output, modified, DEFAULT_LEVEL, limits);
    let summary = ArchiveReader::new(input).with_limits(limits).for_each::<Error, _>(|entry| {
        match changes.remove(entry.path) {
            Some(body) => writer.append(entry.path, &body),
            None => writer.append_modified(entry.path, entry.body, entry.modified),
        }
    })?;
    for (path, body) in &changes {
        writer.append(path, body)?;
    }
    Ok((summary, writer.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Vec::new(), 1).unwrap();
        for (path, body) in entries {
            writer.append(path, body.as_bytes()).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn changed_bodies_take_the_place_of_the_old_and_new_paths_come_last() {
        let original = archive(&[("resources/a/cluster/1.json", "one"), ("resources/a/cluster/2.json", "two")]);
        let changes = BTreeMap::from([
            ("resources/a/cluster/1.json".to_owned(), b"changed".to_vec()),
            ("resources/a/cluster/0.json".to_owned(), b"new".to_vec()),
        ]);
        let (summary, bytes) = rewrite(original.as_slice(), Vec::new(), changes, 9, Limits::default()).unwrap();
        assert_eq!(summary.entries, 3);
        let mut found = Vec::new();
        ArchiveReader::new(bytes.as_slice())
            .for_each::<Error, _>(|entry| {
                found.push((entry.path.to_owned(), String::from_utf8_lossy(entry.body).into_owned(), entry.modified));
                Ok(())
            })
            .unwrap();
        let expected = [
            ("metadata/version", "1.1.0\n", 1),
            ("resources/a/cluster/1.json", "changed", 9),
            ("resources/a/cluster/2.json", "two", 1),
            ("resources/a/cluster/0.json", "new", 9),
        ];
        let found: Vec<_> = found.iter().map(|(path, body, time)| (path.as_str(), body.as_str(), *time)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_damaged_archive_is_not_rewritten() {
        let original = archive(&[("resources/a/cluster/1.json", "one")]);
        let cut = &original[..original.len() - 9];
        let result = rewrite(cut, Vec::new(), BTreeMap::new(), 9, Limits::default());
        assert!(matches!(result, Err(Error::Damaged(_))));
    }
}

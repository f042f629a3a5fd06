//! Directories whose writer means harm: a clear error with the path, and nothing outside the target.

use velero_repo::clock::system_clock;
use velero_repo::directory::{self, DirectoryEntry, EntryKind, Mode, Summary};
use velero_repo::restore::{Counters, RestoreOptions, restore_into_folder};
use velero_repo::verify::{VerifyOptions, verify_snapshot};
use velero_repo::writer::ContentWriter;
use velero_repo::{ContentId, ObjectId, Repository};

use crate::sample::{self, Sample};

fn entry(name: &str, kind: EntryKind, size: u64, content: ContentId) -> DirectoryEntry {
    DirectoryEntry {
        name: name.to_owned(),
        kind,
        mode: Mode(0o755),
        size,
        mtime: jiff::Timestamp::UNIX_EPOCH,
        uid: 0,
        gid: 0,
        object: ObjectId::direct(content),
        summary: None,
    }
}

/// Saves a directory and a snapshot with it as folder `below`. Returns the root and the id of the snapshot.
fn save(repository: &Repository, entries: &[DirectoryEntry]) -> (DirectoryEntry, String) {
    let writer = ContentWriter::new(repository, system_clock()).unwrap();
    let write = |entries: &[DirectoryEntry]| {
        let bytes = directory::write(entries, &Summary::default());
        writer.write(Some('k'), &bytes, false).unwrap()
    };
    let below = entry("below", EntryKind::Directory, 0, write(entries));
    let root = entry("root", EntryKind::Directory, 0, write(&[below]));
    let data = serde_json::json!({
        "source": {"host": "default", "userName": "default", "path": "hostile"},
        "startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:00:00Z", "rootEntry": root,
    });
    let labels = [("type".to_owned(), "snapshot".to_owned())].into();
    let id = writer.put_manifest(labels, &data).unwrap();
    writer.flush().unwrap();
    (root, id)
}

#[test]
fn hostile_directories_are_refused_with_the_path_and_touch_nothing_outside() {
    let sample = Sample::basic();
    let repository = sample.open().unwrap();
    let writer = ContentWriter::new(&repository, system_clock()).unwrap();
    let file = writer.write(None, b"evil", false).unwrap();
    let link = writer.write(None, b"..", false).unwrap();
    let empty = writer.write(Some('k'), &directory::write(&[], &Summary::default()), false).unwrap();
    writer.flush().unwrap();
    let evil = |name: &str, size: u64| entry(name, EntryKind::File, size, file);
    let missing = entry("gone", EntryKind::File, 4, ContentId::data([7; 16]));
    let cases: Vec<(&str, Vec<DirectoryEntry>, &str)> = vec![
        ("..", vec![evil("..", 4)], "lead out"),
        (".", vec![evil(".", 4)], "lead out"),
        ("/evil", vec![evil("/evil", 4)], "slash"),
        ("../evil", vec![evil("../evil", 4)], "slash"),
        ("a/../../evil", vec![evil("a/../../evil", 4)], "slash"),
        ("no name", vec![evil("", 4)], "no name"),
        ("a\0b", vec![evil("a\0b", 4)], "zero byte"),
        ("..", vec![entry("..", EntryKind::Directory, 0, empty)], "lead out"),
        ("twice", vec![evil("twice", 4), evil("twice", 4)], "two entries"),
        (
            "a link and then a folder of its name",
            vec![entry("twice", EntryKind::Symlink, 2, link), entry("twice", EntryKind::Directory, 0, empty)],
            "two entries",
        ),
        ("long", vec![evil("long", 5)], "tells of 5 bytes"),
        ("short", vec![evil("short", 3)], "tells of 3 bytes"),
        ("huge", vec![evil("huge", u64::MAX)], "bytes"),
        ("gone", vec![missing], "in no index"),
        ("no directory", vec![entry("dir", EntryKind::Directory, 0, file)], "understood"),
    ];
    for (what, entries, word) in cases {
        let (root, id) = save(&repository, &entries);
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().join("one/two");
        let options = RestoreOptions { parallel: 2, ..RestoreOptions::default() };
        let outcome = restore_into_folder(&repository, &root, &target, &options, &Counters::default());
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("below"), "{what}: {error}");
        let strays: Vec<_> =
            sample::paths(outside.path()).into_iter().filter(|path| !path.starts_with(&target)).collect();
        assert_eq!(strays, [outside.path().join("one")], "{what}");
        assert!(!std::path::Path::new("/evil").exists());
        let report =
            verify_snapshot(sample.store(), repository.format().clone(), &id, &VerifyOptions::default()).unwrap();
        assert!(report.problems.iter().any(|problem| problem.to_string().contains("below")), "{what}: {report:?}");
    }
}

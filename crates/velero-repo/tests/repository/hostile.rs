//! Bits that flip and blobs that end early: an error that names the blob or file, no panic, and never wrong bytes.

use std::path::Path;

use velero_repo::directory::EntryKind;
use velero_repo::format::Format;
use velero_repo::restore::{Counters, RestoreOptions, restore_into_folder};
use velero_repo::{Repository, Result};

use crate::sample::{self, Sample, hash};

/// Restores every tree of a sample; an error, or the hashes of all files as they must be.
fn restore_all(sample: &Sample, format: &Format) -> Result<()> {
    let repository = Repository::open_with(sample.store(), format.clone())?;
    for (id, expected) in sample.expected.iter().filter(|(_, expected)| !expected.is_block_volume()) {
        let target = tempfile::tempdir().unwrap();
        let root = repository.snapshot(id)?.root()?.clone();
        restore_into_folder(&repository, &root, target.path(), &RestoreOptions::default(), &Counters::default())?;
        for entry in expected.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
            let found = std::fs::read(target.path().join(&entry.path)).unwrap();
            assert_eq!(Some(hash(&found)), entry.sha256, "wrong bytes in {}", entry.path);
        }
    }
    Ok(())
}

/// Numbers that are the same in every run.
fn scattered(seed: u64) -> impl Iterator<Item = usize> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some((state >> 16) as usize)
    })
}

fn is_of_the_data(path: &Path) -> bool {
    let text = path.to_string_lossy();
    path.is_file() && ["/p/", "/q/", "/x/"].iter().any(|folder| text.contains(folder))
}

#[test]
fn flipped_bits_and_early_ends_are_errors_or_change_nothing() {
    let sample = Sample::basic();
    let format = sample.open().unwrap().format().clone();
    let (mut errors, mut harmless) = (0, 0);
    for (number, path) in sample::paths(&sample.path()).into_iter().filter(|path| is_of_the_data(path)).enumerate() {
        let whole = std::fs::read(&path).unwrap();
        for (round, position) in scattered(number as u64 + 1).take(8).enumerate() {
            let position = position % whole.len();
            let mut changed = whole.clone();
            if round.is_multiple_of(4) {
                changed.truncate(position)
            } else {
                changed[position] ^= 1 << (round % 8)
            }
            std::fs::write(&path, changed).unwrap();
            match restore_all(&sample, &format) {
                Ok(()) => harmless += 1,
                Err(error) => {
                    errors += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        }
        std::fs::write(&path, whole).unwrap();
    }
    assert!(errors > 50, "{errors} errors, {harmless} without effect (padding, tails of packs, forgotten data)");
    restore_all(&sample, &format).unwrap();
}

#[test]
fn a_changed_format_blob_never_opens() {
    let sample = Sample::basic();
    let path = sample.path().join("kopia.repository.f");
    let whole = std::fs::read(&path).unwrap();
    for position in scattered(7).take(6).map(|number| number % whole.len()) {
        std::fs::write(&path, &whole[..position]).unwrap();
        assert!(sample.open().is_err(), "cut at {position}");
    }
    let text = String::from_utf8(whole).unwrap();
    let inner = text.find("encryptedBlockFormat").unwrap() + 40;
    let mut flipped = text.into_bytes();
    flipped[inner] = if flipped[inner] == b'A' { b'B' } else { b'A' };
    std::fs::write(&path, flipped).unwrap();
    assert!(sample.open().is_err());
}

#[test]
fn a_pack_that_is_gone_is_named() {
    let sample = Sample::basic();
    let format = sample.open().unwrap().format().clone();
    let packs: Vec<_> = sample::paths(&sample.path().join("p")).into_iter().filter(|path| path.is_file()).collect();
    for pack in packs {
        let whole = std::fs::read(&pack).unwrap();
        std::fs::remove_file(&pack).unwrap();
        if let Err(error) = restore_all(&sample, &format) {
            assert!(error.to_string().contains("does not exist"), "{error}");
        }
        std::fs::write(&pack, whole).unwrap();
    }
}

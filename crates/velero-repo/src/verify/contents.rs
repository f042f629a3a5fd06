//! Every content: in the packs, and where the index says it is.

use std::collections::HashSet;

use bytes::Bytes;

use super::VerifyOptions;
use super::report::{Place, VerifyReport, ends_the_check};
use crate::bitmap::Bitmap;
use crate::content_id::ContentId;
use crate::crypto::Sealer;
use crate::index::{ContentEntry, Index, IndexBytes, RawIndex};
use crate::pack::Postamble;
use crate::repository::open_content;
use crate::store::{BlobInfo, BlobStore};
use crate::{Error, Repository, Result, parallel};

/// How many contents are put into the order of packs at once.
const WINDOW: usize = 16 << 10;

/// What was found in one pack.
struct CheckedPack {
    /// Where in the index its good contents are.
    good: Vec<u32>,
    problems: Vec<Error>,
    contents: u64,
    bytes: u64,
}

/// Reads all packs and checks every content in them. Returns the contents of the index that cannot be read.
pub(super) fn check_packs(
    repository: &Repository,
    packs: &[BlobInfo],
    options: &VerifyOptions,
    report: &mut VerifyReport,
) -> Result<Bitmap> {
    let index = repository.index().index.clone();
    let named: HashSet<&str> = index.packs().iter().map(|name| &**name).collect();
    let mut good = Bitmap::new(index.len());
    options.counters.expect(packs.iter().map(|pack| pack.size).sum());
    let check = |pack: &BlobInfo| {
        if options.cancel.is_cancelled() {
            return Err(Error::Canceled);
        }
        let found = check_pack(repository, &index, pack);
        options.counters.read(pack.size);
        found
    };
    parallel::for_each(options.parallel, packs, check, |found| {
        for position in found.good {
            good.insert(position);
        }
        found.problems.into_iter().for_each(|problem| report.error(problem));
        report.checked.packs += 1;
        report.checked.contents += found.contents;
        report.checked.bytes += found.bytes;
        Ok(())
    })?;
    for pack in packs.iter().filter(|pack| !named.contains(pack.id.as_str())) {
        report.unreferenced.packs += 1;
        report.unreferenced.pack_bytes += pack.size;
    }
    check_others(repository, |position| !good.contains(position), options, report, false)
}

fn check_pack(repository: &Repository, index: &Index, pack: &BlobInfo) -> Result<CheckedPack> {
    let mut found = CheckedPack { good: Vec::new(), problems: Vec::new(), contents: 0, bytes: 0 };
    let sealer = &repository.format().sealer;
    let whole = match repository.store().get(&pack.id) {
        Ok(whole) => whole,
        // Maintenance removed it; if an index still names it, that is found there.
        Err(error) if error.is_blob_not_found() => return Ok(found),
        Err(error) => return Err(error),
    };
    let local = match local_index(sealer, &pack.id, &whole) {
        Ok(local) => local,
        Err(error) => {
            found.problems.push(error);
            return Ok(found);
        }
    };
    for entry in local.entries() {
        let entry = entry?;
        // The word that a content of another pack is deleted is written down here as well.
        if local.pack_name(entry.pack) != pack.id {
            continue;
        }
        found.contents += 1;
        found.bytes += u64::from(entry.packed_length);
        let start = entry.offset as usize;
        let sealed = start.checked_add(entry.packed_length as usize).and_then(|end| whole.get(start..end));
        let outcome = sealed
            .ok_or_else(|| damaged(entry.id, &pack.id, "it lies beyond the end of the pack"))
            .and_then(|sealed| open_content(sealer, &entry, &pack.id, sealed.into()));
        match outcome {
            Ok(_) => found.good.extend(position_of_same(index, &entry, &pack.id)?),
            Err(error) => found.problems.push(error),
        }
    }
    Ok(found)
}

fn damaged(content: ContentId, pack: &str, problem: &str) -> Error {
    Error::DamagedContent { content: content.to_string(), pack: pack.to_owned(), problem: problem.to_owned() }
}

/// Where the index has the same place for a content.
fn position_of_same(index: &Index, entry: &ContentEntry, pack: &str) -> Result<Option<u32>> {
    let found = index.find_at(entry.id)?.filter(|(_, found)| {
        let place = |entry: &ContentEntry| {
            (entry.offset, entry.packed_length, entry.original_length, entry.compression, entry.key_id)
        };
        index.pack_name(found.pack) == pack && place(found) == place(entry)
    });
    Ok(found.map(|(position, _)| position))
}

/// The index at the end of a pack.
pub(super) fn local_index(sealer: &Sealer, pack: &str, tail: &Bytes) -> Result<RawIndex> {
    local_index_in(sealer, pack, tail, tail.len() as u64)
}

/// The same from the last bytes of a pack that is so long.
pub(super) fn local_index_in(sealer: &Sealer, pack: &str, tail: &[u8], length: u64) -> Result<RawIndex> {
    let wrong = |problem: &str| Error::damaged_blob(pack, problem);
    let postamble = Postamble::parse(tail).ok_or_else(|| wrong("its end is damaged or missing"))?;
    let before = length - tail.len() as u64;
    let start = postamble.offset.checked_sub(before).and_then(|start| usize::try_from(start).ok());
    let end = start.zip(usize::try_from(postamble.length).ok()).and_then(|(start, length)| start.checked_add(length));
    let sealed = start.zip(end).and_then(|(start, end)| tail.get(start..end));
    let mut sealed = sealed.ok_or_else(|| wrong("its own index is not where its end says"))?.to_vec();
    let plain = sealer.open_in_place(&postamble.vector, &mut sealed);
    let plain = plain.map_err(|error| Error::damaged_blob(pack, format!("its own index: {error}")))?;
    if sealer.hash(plain) != postamble.vector {
        return Err(wrong("its own index has another hash than its end says"));
    }
    RawIndex::open(IndexBytes::Memory(plain.to_vec().into()), pack)
}

/// The end of a pack that holds its own index, read with as few bytes as possible.
pub(super) fn read_local_index(store: &dyn BlobStore, sealer: &Sealer, pack: &BlobInfo) -> Result<RawIndex> {
    const FIRST: u64 = 8 << 10;
    let read = |from: u64| store.get_range(&pack.id, from, usize::try_from(pack.size - from).unwrap_or(usize::MAX));
    let tail = read(pack.size.saturating_sub(FIRST))?;
    let starts = Postamble::parse(&tail).map(|postamble| postamble.offset.min(pack.size));
    let missing = starts.filter(|start| *start < pack.size.saturating_sub(FIRST));
    let tail = missing.map_or(Ok(tail), read)?;
    local_index_in(sealer, &pack.id, &tail, pack.size)
}

/// Reads contents that a snapshot needs. Returns those that cannot be read.
pub(super) fn check_needed(
    repository: &Repository,
    needed: &Bitmap,
    options: &VerifyOptions,
    report: &mut VerifyReport,
) -> Result<Bitmap> {
    let mut bytes = 0;
    for (position, entry) in repository.index().index.entries().enumerate() {
        bytes += if needed.contains(position as u32) { u64::from(entry?.packed_length) } else { 0 };
    }
    options.counters.expect(bytes);
    check_others(repository, |position| needed.contains(position), options, report, true)
}

/// Reads the contents at some positions, one by one. Returns those that cannot be read.
fn check_others(
    repository: &Repository,
    wanted: impl Fn(u32) -> bool,
    options: &VerifyOptions,
    report: &mut VerifyReport,
    counts: bool,
) -> Result<Bitmap> {
    let index = repository.index().index.clone();
    let mut bad = Bitmap::new(index.len());
    let mut gone = HashSet::new();
    let mut entries = index.entries().enumerate();
    loop {
        let window = next_window(&mut entries, &wanted)?;
        if window.is_empty() {
            return Ok(bad);
        }
        let check = |(position, entry): &(u32, ContentEntry)| {
            if options.cancel.is_cancelled() {
                return Err(Error::Canceled);
            }
            match repository.content_of(&index, entry) {
                Err(error) if ends_the_check(&error) => Err(error),
                outcome => Ok((*position, *entry, outcome.err())),
            }
        };
        parallel::for_each(options.parallel, &window, check, |(position, entry, problem)| {
            if counts {
                options.counters.read(u64::from(entry.packed_length));
                report.checked.contents += 1;
                report.checked.bytes += u64::from(entry.packed_length);
            }
            if let Some(problem) = problem {
                bad.insert(position);
                tell_unreadable(report, &mut gone, &entry, index.pack_name(entry.pack), problem);
            }
            Ok(())
        })?;
    }
}

/// The next contents at wanted positions, in the order of packs; none when there are no more.
fn next_window(
    entries: &mut impl Iterator<Item = (usize, Result<ContentEntry>)>,
    wanted: &impl Fn(u32) -> bool,
) -> Result<Vec<(u32, ContentEntry)>> {
    let mut window: Vec<(u32, ContentEntry)> = Vec::new();
    for (position, entry) in entries {
        let entry = entry?;
        if wanted(position as u32) {
            window.push((position as u32, entry));
        }
        if window.len() >= WINDOW {
            break;
        }
    }
    window.sort_unstable_by_key(|(_, entry)| (entry.pack, entry.offset));
    Ok(window)
}

/// Reports a content that cannot be read; of a pack that is gone that is told once.
fn tell_unreadable(
    report: &mut VerifyReport,
    gone: &mut HashSet<String>,
    entry: &ContentEntry,
    pack: &str,
    problem: Error,
) {
    match problem {
        Error::BlobNotFound { .. } if gone.insert(pack.to_owned()) => {
            report.add(Place::Blob(pack.to_owned()), "it does not exist and the index names it");
        }
        Error::BlobNotFound { .. } => {}
        Error::DamagedContent { problem, .. } | Error::DamagedBlob { problem, .. } => {
            report.add(Place::Content { content: entry.id.to_string(), pack: pack.to_owned() }, problem);
        }
        other => report.error(other),
    }
}

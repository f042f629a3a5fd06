//! Every blob that is no pack.

use std::collections::HashSet;

use super::report::VerifyReport;
use crate::epoch::{MARKER_CONTENT, WATERMARK_CONTENT};
use crate::format::{BLOB_CONFIG_BLOB, REPOSITORY_BLOB};
use crate::maintenance::{SCHEDULE_BLOB, Schedule};
use crate::repository::{INITIALISED_BLOB, open_checked_index, repository_state};
use crate::store::{BlobInfo, list_all};
use crate::{Error, Repository, Result, blob_name};

/// Checks them, and returns the packs.
pub(super) fn check(repository: &Repository, report: &mut VerifyReport) -> Result<Vec<BlobInfo>> {
    let loaded = repository.index();
    let read: HashSet<&str> = loaded.epochs.complete_index_set().into_iter().map(|blob| blob.id.as_str()).collect();
    let mut packs = Vec::new();
    for blob in list_all(repository.store().as_ref(), "")? {
        if blob.id.starts_with(['p', 'q']) && blob_name::session_in(&blob.id).is_some() {
            packs.push(blob);
            continue;
        }
        // Those were read when the repository was opened.
        if read.contains(blob.id.as_str()) || blob.id == BLOB_CONFIG_BLOB {
            report.checked.blobs += 1;
            continue;
        }
        match check_one(repository, &blob) {
            Some(outcome) => {
                report.checked.blobs += 1;
                // One that vanished was compacted or ended meanwhile.
                report.note(outcome.or_else(|error| if error.is_blob_not_found() { Ok(()) } else { Err(error) }))?;
            }
            None => report.unreferenced.unknown_blobs += 1,
        }
    }
    Ok(packs)
}

/// Checks a blob by the kind its name says; `None` when that is not known.
fn check_one(repository: &Repository, blob: &BlobInfo) -> Option<Result<()>> {
    let (store, format) = (repository.store().as_ref(), repository.format());
    let name = blob.id.as_str();
    let get = || store.get(name);
    let is = |expected: &[u8]| {
        let found = get()?;
        if found == expected { Ok(()) } else { Err(Error::damaged_blob(name, "it does not say what such blobs say")) }
    };
    Some(match name {
        REPOSITORY_BLOB => get().and_then(|content| format.check(&content)),
        INITIALISED_BLOB => repository_state(store).map(|_| ()),
        SCHEDULE_BLOB => get().and_then(|content| Schedule::open(&content, format).map(|_| ())),
        _ => match name.get(..2)? {
            "xe" => is(MARKER_CONTENT),
            "xw" => is(WATERMARK_CONTENT),
            "xn" | "xs" | "xr" => open_checked_index(store, &format.sealer, blob).map(|_| ()),
            "_l" => get().and_then(|content| check_sealed(repository, name, content.into())),
            start if start.starts_with('s') && blob_name::session_in(name).is_some() => {
                get().and_then(|content| check_sealed(repository, name, content.into()))
            }
            _ => return None,
        },
    })
}

/// Whether a blob opens to the bytes its name stands for.
fn check_sealed(repository: &Repository, name: &str, mut content: Vec<u8>) -> Result<()> {
    let sealer = &repository.format().sealer;
    let vector = blob_name::hash_in(name).ok_or_else(|| Error::damaged_blob(name, "its name has no hash"))?;
    let plain = sealer.open_in_place(&vector, &mut content).map_err(|error| Error::damaged_blob(name, error))?;
    if sealer.hash(plain) == vector {
        Ok(())
    } else {
        Err(Error::damaged_blob(name, "its bytes are not those its name stands for"))
    }
}

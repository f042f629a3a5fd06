//! Forgetting snapshots.

use crate::clock::Clock;
use crate::manifest::{Manifest, SNAPSHOT};
use crate::writer::ContentWriter;
use crate::{Repository, Result};

/// Forgets snapshots, all at once, and says how many there were. Maintenance removes their data later.
pub fn forget(repository: &Repository, ids: &[String], clock: &Clock) -> Result<usize> {
    // They may have been saved by another client since the index was loaded.
    repository.refresh()?;
    let writer = ContentWriter::new(repository, clock.clone())?;
    let wanted = |manifest: &Manifest| manifest.has_labels(&[("type", SNAPSHOT)]) && ids.contains(&manifest.id);
    let count = writer.delete_manifests(&wanted)?;
    writer.flush()?;
    Ok(count)
}

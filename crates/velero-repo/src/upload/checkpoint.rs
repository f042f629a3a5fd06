//! What a long backup writes now and then: garbage collection finds living data only through manifests.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use super::tree::Folder;
use crate::Result;
use crate::clock::has_passed;
use crate::lock;
use crate::manifest::{Labels, Snapshot};
use crate::writer::ContentWriter;

/// How often, in seconds.
const EVERY: i64 = 45 * 60;
/// Why such a snapshot is not complete.
const WHY: &str = "checkpoint";

/// Writes checkpoints of one backup.
pub(super) struct Checkpoints<'a> {
    root: &'a Arc<Folder>,
    labels: Labels,
    /// The snapshot without root and pins.
    snapshot: Snapshot,
    last: Mutex<Timestamp>,
    written: &'a Mutex<Vec<String>>,
}

impl<'a> Checkpoints<'a> {
    /// Ids of checkpoints are added to `written`.
    pub(super) fn new(
        root: &'a Arc<Folder>,
        labels: Labels,
        snapshot: Snapshot,
        written: &'a Mutex<Vec<String>>,
    ) -> Self {
        let last = Mutex::new(snapshot.start_time);
        Self { root, labels, snapshot, last, written }
    }

    /// Writes one when it is time; the one before goes with it.
    pub(super) fn write_if_due(&self, writer: &ContentWriter<'_>) -> Result<()> {
        // Another hand may be at it.
        let Ok(mut last) = self.last.try_lock() else { return Ok(()) };
        let now = writer.now();
        if !has_passed(*last, now, EVERY) {
            return Ok(());
        }
        let root_entry = Some(self.root.so_far(writer, WHY)?);
        let snapshot = Snapshot { end_time: now, incomplete: WHY.to_owned(), root_entry, ..self.snapshot.clone() };
        let mut written = lock(self.written);
        for before in written.iter() {
            writer.delete_manifest(before)?;
        }
        written.push(writer.put_manifest(self.labels.clone(), &snapshot)?);
        writer.flush()?;
        *last = writer.now();
        Ok(())
    }
}

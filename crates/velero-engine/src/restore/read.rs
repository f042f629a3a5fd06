//! Reading the archive: once, in a thread of its own, to its very end.

use std::io::Read;
use std::path::PathBuf;

use velero_archive::{ArchiveReader, ItemPath, Limits};

use super::RestoreError;
use super::contents::{Collector, Contents, NewItem, Version};
use super::selection::Selection;

/// How much an archive may hold, and where it is kept when it is too large for memory.
pub(super) struct Room {
    pub limits: Limits,
    pub scratch: PathBuf,
}

/// Reads an archive. Nothing of it is used unless all of it was intact.
pub(super) async fn contents<R: Read + Send + 'static>(
    archive: R,
    room: Room,
    all_versions: bool,
    selection: Selection,
) -> Result<(Contents, Selection), RestoreError> {
    let reading = tokio::task::spawn_blocking(move || {
        let contents = collect(archive, &room, all_versions, &selection)?;
        Ok((contents, selection))
    });
    reading.await.unwrap_or(Err(RestoreError::Interrupted))
}

fn collect<R: Read>(
    archive: R,
    room: &Room,
    all_versions: bool,
    selection: &Selection,
) -> Result<Contents, RestoreError> {
    let mut collector = Collector::new(room.limits.compressed_size, &room.scratch);
    ArchiveReader::new(archive).with_limits(room.limits).for_each(|entry| -> Result<(), RestoreError> {
        let Some(path) = ItemPath::parse(entry.path) else {
            return Ok(());
        };
        if path.version.is_some() && !all_versions {
            return Ok(());
        }
        let (selected, completed) = selection.look_at(path.group_resource, path.namespace, entry.body);
        let version =
            path.version.map(|version| Version { name: version.version.to_owned(), preferred: version.preferred });
        let (resource, namespace, name) = (path.group_resource, path.namespace, path.name);
        let item = NewItem { resource, version, namespace, name, body: entry.body, selected, completed };
        collector.add(item)
    })?;
    collector.finish()
}

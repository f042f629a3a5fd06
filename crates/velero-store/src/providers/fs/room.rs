//! How much room the file system of a directory has.

use std::path::Path;
use std::time::Duration;

use super::{PROVIDER, builder};
use crate::StoreConfig;

/// How long a file system may take to say: one on the network may never do.
const PATIENCE: Duration = Duration::from_secs(5);

/// The room of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// How many bytes can still be written.
    pub free: u64,
    /// How many bytes it holds in all.
    pub size: u64,
}

/// The room where a location of the provider `fs` lies; nothing for all others, and where it is not known.
pub async fn space(config: &StoreConfig) -> Option<Space> {
    if config.short_provider() != PROVIDER {
        return None;
    }
    let directory = builder::directory(config).ok()?;
    let asked = tokio::task::spawn_blocking(move || of_directory(&directory));
    tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?
}

#[cfg(unix)]
fn of_directory(directory: &Path) -> Option<Space> {
    let found = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    // What is reserved for root is not free for the server.
    Some(Space { free: bytes(found.f_bavail), size: bytes(found.f_blocks) })
}

#[cfg(not(unix))]
fn of_directory(_directory: &Path) -> Option<Space> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_directory_has_room_that_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let here = StoreConfig::new("velero.io/fs", directory.path().display().to_string());
        let found = space(&here).await.unwrap();
        assert!(0 < found.free && found.free <= found.size, "{found:?}");
        assert_eq!(space(&StoreConfig::new("fs", "/no/such/directory")).await, None);
        assert_eq!(space(&StoreConfig::new("fs", "relative")).await, None);
        assert_eq!(space(&StoreConfig::new("aws", directory.path().display().to_string())).await, None);
    }
}

//! The repository below a folder of a storage location.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;
use velero_store::StoreConfig;

use super::{BlobStore, BucketStore, FolderStore};
use crate::{Error, Result};

/// The directory of a location that is one.
pub fn directory(config: &StoreConfig) -> Option<PathBuf> {
    let is_directory = config.provider.trim_start_matches("velero.io/") == "fs";
    let named = ["fspath", "path"].into_iter().find_map(|key| config.config.get(key));
    is_directory.then(|| PathBuf::from(named.unwrap_or(&config.bucket)))
}

/// The blobs below a folder of a location: with kopia's sharding in a directory, flat in a bucket. Requests to a bucket
/// run on the runtime of the caller.
pub async fn open_location(config: &StoreConfig, folder: &str) -> Result<Arc<dyn BlobStore>> {
    let folder = folder.trim_matches('/');
    if let Some(root) = directory(config) {
        return Ok(Arc::new(FolderStore::open(root.join(folder))?));
    }
    let store = config.open().await.map_err(|error| Error::Location { source: Box::new(error) })?;
    let key = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    Ok(Arc::new(BucketStore::new(store, key, Handle::current())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_named_in_one_of_three_ways() {
        let fs = |provider: &str| StoreConfig::new(provider, "/srv/a");
        assert_eq!(directory(&fs("fs")), Some(PathBuf::from("/srv/a")));
        assert_eq!(directory(&fs("velero.io/fs").with("path", "/srv/b")), Some(PathBuf::from("/srv/b")));
        assert_eq!(directory(&fs("fs").with("path", "/b").with("fspath", "/c")), Some(PathBuf::from("/c")));
        assert_eq!(directory(&fs("aws")), None);
    }
}

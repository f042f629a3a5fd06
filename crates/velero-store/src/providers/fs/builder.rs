//! From a location's config to a directory.

use std::path::PathBuf;

use object_store::local::LocalFileSystem;

use super::PROVIDER;
use crate::location::invalid;
use crate::providers::rejected;
use crate::{Result, StoreConfig};

const VALID_KEYS: [&str; 2] = ["path", "credentialsFile"];

pub(super) async fn build(config: &StoreConfig) -> Result<LocalFileSystem> {
    config.check_keys(&VALID_KEYS)?;
    let directory = directory(config)?;
    let made = tokio::fs::create_dir_all(&directory).await;
    made.map_err(|error| invalid(PROVIDER, "path", format!("cannot make {}: {error}", directory.display())))?;
    let store = LocalFileSystem::new_with_prefix(&directory).map_err(rejected(PROVIDER))?;
    // Folders vanish with their last object, as they do in a bucket.
    Ok(store.with_automatic_cleanup(true).with_fsync(true))
}

pub(super) fn directory(config: &StoreConfig) -> Result<PathBuf> {
    let directory = PathBuf::from(config.get("path").unwrap_or(&config.bucket));
    if directory.is_absolute() {
        return Ok(directory);
    }
    let problem = format!("{:?} is not an absolute directory; set config path to one", directory.display().to_string());
    Err(invalid(PROVIDER, "path", problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_path_or_else_the_bucket() {
        let both = StoreConfig::new("fs", "/srv/a").with("path", "/srv/b");
        assert_eq!(directory(&both).unwrap(), PathBuf::from("/srv/b"));
        assert_eq!(directory(&StoreConfig::new("fs", "/srv/a")).unwrap(), PathBuf::from("/srv/a"));
        assert!(directory(&StoreConfig::new("fs", "relative")).is_err());
    }
}

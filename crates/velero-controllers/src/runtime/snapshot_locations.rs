//! From a VolumeSnapshotLocation to its snapshotter.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use velero_api::metadata::name;
use velero_api::v1::VolumeSnapshotLocation;
use velero_plugin::host::PluginManager;
use velero_plugin::{Error as PluginError, Result as PluginResult, SnapshotterSource, VolumeSnapshotter};

use crate::runtime::credential_files::CredentialFiles;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::objects::Objects;

/// Opens snapshot locations. Clones share the files of credentials.
#[derive(Clone)]
pub(crate) struct SnapshotLocations {
    objects: Objects,
    credential_files: Arc<CredentialFiles>,
}

impl SnapshotLocations {
    pub(crate) fn new(objects: Objects) -> Self {
        Self { objects, credential_files: Arc::new(CredentialFiles::new()) }
    }

    /// The snapshotters of all locations, in the processes of a manager.
    pub(crate) fn snapshotters(&self, manager: &PluginManager) -> Arc<dyn SnapshotterSource> {
        Arc::new(Snapshotters { locations: self.clone(), manager: manager.clone() })
    }

    /// What the snapshotter of a location is configured with.
    async fn config(&self, location: &VolumeSnapshotLocation) -> Result<BTreeMap<String, String>> {
        let mut config = location.spec.config.clone();
        if let Some(content) = credentials(&self.objects, location).await? {
            let file = self.credential_files.write(name(location), &content);
            let file = file.map_err(|error| {
                let problem = format!("its credentials cannot be written to a file for its plugin: {error}");
                Error::unmet("VolumeSnapshotLocation", name(location), problem)
            })?;
            config.insert("credentialsFile".to_owned(), file.display().to_string());
        }
        Ok(config)
    }
}

/// The credentials of a snapshot location; `None` when it has none of its own.
pub(crate) async fn credentials(objects: &Objects, location: &VolumeSnapshotLocation) -> Result<Option<Vec<u8>>> {
    let Some(wanted) = &location.spec.credential else { return Ok(None) };
    objects.referred_secret(location, "spec.credential", wanted).await.map(Some)
}

fn invalid(location: &str, problem: impl Into<String>) -> Error {
    Error::invalid("VolumeSnapshotLocation", location, problem)
}

/// Finds snapshotters for one piece of work.
struct Snapshotters {
    locations: SnapshotLocations,
    manager: PluginManager,
}

#[async_trait]
impl SnapshotterSource for Snapshotters {
    async fn snapshotter(&self, location: &str) -> PluginResult<Arc<dyn VolumeSnapshotter>> {
        let failed = |error: Error| PluginError::Failed(describe(&error));
        let found = self.locations.objects.get::<VolumeSnapshotLocation>(location).await.map_err(failed)?;
        let missing = || invalid(location, "not found; create it with `velero snapshot-location create`");
        let found = found.ok_or_else(missing).map_err(failed)?;
        let config = self.locations.config(&found).await.map_err(failed)?;
        let provider = &found.spec.provider;
        match velero_plugin_aws::built_in(provider) {
            // Who has installed a plugin wants it to be used, also where its name is that of what is built in.
            Some(snapshotter) if !self.manager.has_volume_snapshotter(provider) => {
                let prepared = snapshotter.init(&config).await;
                prepared.map_err(|error| failed(invalid(location, error.to_string())))?;
                Ok(Arc::new(snapshotter))
            }
            _ => self.manager.volume_snapshotter(provider, &config).await,
        }
    }
}

//! What all services share.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use tonic::Status;

use crate::busy_handles::BusyHandles;
use crate::devices::Devices;
use crate::settings::Settings;
use crate::storage::{Storage, is_plain};

/// The driver: every service is one of its faces.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) storage: Arc<Storage>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) busy: BusyHandles,
    pub(crate) settings_file: PathBuf,
    pub(crate) node: String,
}

impl Driver {
    /// How to misbehave now, for something made with these parameters.
    pub(crate) fn settings(&self, parameters: &BTreeMap<String, String>) -> Result<Settings, Status> {
        let settings = Settings::read(&self.settings_file).map_err(internal)?;
        settings.with_parameters(parameters).map_err(|error| Status::invalid_argument(format!("{error:#}")))
    }
}

/// The parameters in an order that does not change.
pub(crate) fn sorted(parameters: HashMap<String, String>) -> BTreeMap<String, String> {
    parameters.into_iter().collect()
}

/// A failure of the storage.
#[allow(clippy::needless_pass_by_value, reason = "made for map_err")]
pub(crate) fn internal(error: anyhow::Error) -> Status {
    Status::internal(format!("{error:#}"))
}

/// The name for something new, which becomes its handle.
pub(crate) fn new_handle(name: &str) -> Result<(), Status> {
    if is_plain(name) {
        return Ok(());
    }
    let remedy = "use letters, digits, dashes, dots and underscores";
    Err(Status::invalid_argument(format!("the name {name:?} cannot be a handle: {remedy}")))
}

/// Refuses a request without the text it needs.
pub(crate) fn required(value: &str, field: &str) -> Result<(), Status> {
    if value.is_empty() {
        return Err(Status::invalid_argument(format!("{field} is empty: set it")));
    }
    Ok(())
}

/// Does work that waits for the disk, to its end even when the caller goes away.
pub(crate) async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T, Status> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(internal),
        Err(error) => Err(Status::internal(format!("the work on the disk broke off: {error}"))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use crate::storage::{Volume, VolumeMode};

    /// A driver with two volumes: `volume`, and `device` for volumeMode Block.
    pub(crate) fn driver(folder: &Path) -> Driver {
        let storage = Arc::new(Storage::open(folder).unwrap());
        for (id, mode) in [("volume", VolumeMode::Filesystem), ("device", VolumeMode::Block)] {
            storage.volumes.put(&Volume { id: id.into(), mode, capacity_bytes: 1, source: None }, None).unwrap();
        }
        let settings_file = folder.join("settings.json");
        let devices = Arc::new(Devices::open(&folder.join("node")).unwrap());
        Driver { storage, devices, busy: BusyHandles::default(), settings_file, node: "node".into() }
    }
}

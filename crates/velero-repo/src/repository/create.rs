//! Makes repositories as Velero makes them, and says how far one is made.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use super::Repository;
use crate::clock::Clock;
use crate::crypto;
use crate::format::{BLOB_CONFIG_BLOB, BlobConfig, Format, FormatBlob, FormatKeys, Parameters, REPOSITORY_BLOB};
use crate::manifest::{CLIENT, Labels};
use crate::store::BlobStore;
use crate::writer::ContentWriter;
use crate::{Error, Result};

/// The blob that says a repository is initialised. Only Velero's family writes it, and last.
pub const INITIALISED_BLOB: &str = "udmrepo.Repository";
/// The value of the label `type` of the manifest with the maintenance parameters.
pub const MAINTENANCE: &str = "maintenance";

/// How far a repository is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepositoryState {
    /// There is none.
    Absent,
    /// It was made but not initialised: it can be read, and is finished by [`Repository::create`].
    NotInitialised,
    /// It can be used.
    Ready,
}

#[derive(Serialize, Deserialize)]
struct Initialised {
    #[serde(rename = "uniqueID")]
    unique_id: String,
}

/// Looks how far the repository in a store is made.
pub fn repository_state(store: &dyn BlobStore) -> Result<RepositoryState> {
    let Some(format) = get_if_there(store, REPOSITORY_BLOB)? else { return Ok(RepositoryState::Absent) };
    let Some(initialised) = get_if_there(store, INITIALISED_BLOB)? else {
        return Ok(RepositoryState::NotInitialised);
    };
    let malformed = |blob: &str, error: &dyn std::fmt::Display| Error::malformed(format!("blob {blob:?}"), error);
    let format: FormatBlob = serde_json::from_slice(&format).map_err(|error| malformed(REPOSITORY_BLOB, &error))?;
    let initialised: Initialised =
        serde_json::from_slice(&initialised).map_err(|error| malformed(INITIALISED_BLOB, &error))?;
    if initialised.unique_id != format.unique_id {
        return Err(malformed(INITIALISED_BLOB, &"it belongs to another repository; the two were mixed up"));
    }
    Ok(RepositoryState::Ready)
}

fn get_if_there(store: &dyn BlobStore, id: &str) -> Result<Option<bytes::Bytes>> {
    match store.get(id) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.is_blob_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Repository {
    /// Makes a repository in an empty store, or finishes one whose making was interrupted; opens one that is ready.
    ///
    /// `full_interval` is how often a full maintenance runs, for a new repository.
    pub fn create(store: Arc<dyn BlobStore>, password: &str, full_interval: Duration, clock: &Clock) -> Result<Self> {
        let state = repository_state(store.as_ref())?;
        let repository = match state {
            RepositoryState::Absent => {
                let format = make_format(store.as_ref(), password)?;
                Self::open_with(store, format)?
            }
            _ => Self::open(store, password)?,
        };
        if state != RepositoryState::Ready {
            repository.initialise(full_interval, clock)?;
        }
        Ok(repository)
    }

    /// Stores in an empty store how a repository is encrypted, and nothing yet that is encrypted so: [`Repository::create`] finishes it.
    ///
    /// Velero makes repositories without a condition: it looks, and a moment later stores what another may have stored by then. Where
    /// that moment passes between this and the rest, whoever stored last has made the repository, and nothing of the other is left in it.
    pub fn begin(store: &dyn BlobStore, password: &str) -> Result<()> {
        make_format(store, password).map(drop)
    }

    fn initialise(&self, full_interval: Duration, clock: &Clock) -> Result<()> {
        let labels: Labels = [("type".to_owned(), MAINTENANCE.to_owned())].into();
        if self.manifests(&|manifest| manifest.has_labels(&[("type", MAINTENANCE)]))?.is_empty() {
            let writer = ContentWriter::new(self, clock.clone())?;
            writer.put_manifest(labels, &MaintenanceParameters::of_velero(full_interval))?;
            writer.flush()?;
        }
        let unique_id = BASE64.encode(&self.format().unique_id);
        let content = serde_json::to_vec(&Initialised { unique_id });
        let content = content.map_err(|error| Error::malformed(format!("blob {INITIALISED_BLOB:?}"), error))?;
        self.store().put(INITIALISED_BLOB, content.into())
    }
}

/// Stores `kopia.blobcfg` and `kopia.repository`.
fn make_format(store: &dyn BlobStore, password: &str) -> Result<Format> {
    let mut others = Vec::new();
    store.list("", &mut |blob| {
        // All that is there when the making ended between the first two blobs.
        if blob.id != BLOB_CONFIG_BLOB && others.len() < 3 {
            others.push(blob.id);
        }
        Ok(())
    })?;
    if !others.is_empty() {
        return Err(Error::Unsupported(format!(
            "{} has no {REPOSITORY_BLOB:?} and is not empty ({}); empty it or use another place",
            store.place(),
            others.join(", ")
        )));
    }
    let unique_id = crypto::random::<32>();
    let keys = FormatKeys::derive(password, &unique_id)?;
    let malformed = |error: serde_json::Error| Error::malformed(format!("blob {REPOSITORY_BLOB:?}"), error);
    let config = serde_json::to_vec(&BlobConfig::default()).map_err(malformed)?;
    let blob = FormatBlob::seal(&unique_id, &keys, &Parameters::new_of_velero());
    let mut content = serde_json::to_vec_pretty(&blob).map_err(malformed)?;
    content.push(b'\n');
    store.put(BLOB_CONFIG_BLOB, keys.seal(&config).into())?;
    store.put(REPOSITORY_BLOB, content.clone().into())?;
    // Two who make it at once would each leave the other's keys behind.
    let config = store.get(BLOB_CONFIG_BLOB)?;
    if store.get(REPOSITORY_BLOB)? != content || BlobConfig::open(&config, &keys).is_err() {
        return Err(Error::MadeElsewhere);
    }
    Format::open_by(&content, &store.place(), |_| Ok(keys))
}

/// The parameters of maintenance, in the order kopia writes them. Intervals are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceParameters {
    /// The user and host that maintain.
    pub owner: String,
    /// Quick maintenance.
    pub quick: MaintenanceCycle,
    /// Full maintenance.
    pub full: MaintenanceCycle,
    /// How long logs stay.
    pub log_retention: LogRetention,
    /// Whether object locks are extended.
    #[serde(default)]
    pub extend_object_locks: bool,
    /// How many lists run at once.
    #[serde(default)]
    pub list_parallelism: i64,
}

/// How often maintenance of a kind runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintenanceCycle {
    /// Whether it runs at all.
    #[serde(default)]
    pub enabled: bool,
    /// How often.
    #[serde(default)]
    pub interval: i64,
}

/// How long logs stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogRetention {
    /// The bytes of all logs.
    pub max_total_size: i64,
    /// How many logs.
    pub max_count: i64,
    /// The age of a log.
    pub max_age: i64,
}

impl MaintenanceParameters {
    /// What Velero writes into a new repository.
    pub fn of_velero(full_interval: Duration) -> Self {
        const HOUR: i64 = 3600 * 1_000_000_000;
        let full = i64::try_from(full_interval.as_nanos()).unwrap_or(24 * HOUR);
        Self {
            owner: format!("{CLIENT}@{CLIENT}"),
            quick: MaintenanceCycle { enabled: true, interval: HOUR },
            full: MaintenanceCycle { enabled: true, interval: full },
            log_retention: LogRetention { max_total_size: 1 << 30, max_count: 10_000, max_age: 30 * 24 * HOUR },
            extend_object_locks: false,
            list_parallelism: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_clock;
    use crate::store::FolderStore;
    use crate::testing::PASSWORD;

    #[test]
    fn of_two_who_make_a_repository_at_once_the_one_who_stores_last_has_made_it_and_both_can_use_it() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [store, other]: [Arc<dyn BlobStore>; 2] =
            [&folder, &elsewhere].map(|folder| Arc::new(FolderStore::open(folder.path()).unwrap()) as _);
        Repository::begin(store.as_ref(), PASSWORD).unwrap();
        // The other has looked before, and stores now.
        Repository::begin(other.as_ref(), PASSWORD).unwrap();
        for blob in [BLOB_CONFIG_BLOB, REPOSITORY_BLOB] {
            store.put(blob, other.get(blob).unwrap()).unwrap();
        }
        let create = || Repository::create(Arc::clone(&store), PASSWORD, Duration::from_secs(3600), &system_clock());
        let made = create().unwrap();
        assert_eq!(repository_state(store.as_ref()).unwrap(), RepositoryState::Ready);
        let theirs = Format::open(&other.get(REPOSITORY_BLOB).unwrap(), PASSWORD, "there").unwrap();
        assert_eq!(made.format().unique_id, theirs.unique_id);
        assert_eq!(create().unwrap().manifests(&|_| true).unwrap().len(), 1);
    }

    #[test]
    fn the_maintenance_parameters_are_those_of_velero() {
        let json = serde_json::to_string(&MaintenanceParameters::of_velero(Duration::from_secs(24 * 3600))).unwrap();
        assert_eq!(
            json,
            r#"{"owner":"default@default","quick":{"enabled":true,"interval":3600000000000},"full":{"enabled":true,"interval":86400000000000},"logRetention":{"maxTotalSize":1073741824,"maxCount":10000,"maxAge":2592000000000000},"extendObjectLocks":false,"listParallelism":0}"#
        );
    }
}

//! What copies through the file systems of pods need beside the cluster.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use velero_api::{GoDuration, annotations};

use crate::Journal;

/// How long all copies of a backup or restore may take, unless something else is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Why a repository cannot be used, in words: whoever keeps it knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RepositoryUnusable(pub String);

/// Sees to it that there is a repository before data is moved into it or out of it.
#[async_trait]
pub trait RepositoryKeeper: Send + Sync {
    /// Waits until the repository of a namespace in a location can be used; an error says in words why it cannot.
    async fn ensure(&self, volume_namespace: &str, location: &str) -> Result<(), RepositoryUnusable>;
}

/// What copies through the file systems of pods need beside the cluster.
#[derive(Clone)]
pub struct CopyMeans {
    /// How long all copies of a backup or restore may take.
    pub timeout: Duration,
    /// Who sees to the repositories; without one nobody does.
    pub repositories: Option<Arc<dyn RepositoryKeeper>>,
}

impl Default for CopyMeans {
    fn default() -> Self {
        Self { timeout: DEFAULT_TIMEOUT, repositories: None }
    }
}

impl fmt::Debug for CopyMeans {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CopyMeans").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl CopyMeans {
    /// How long the copies of an object may take: as its annotation says, or else as the server is told.
    pub(crate) fn timeout_of(&self, metadata: &ObjectMeta, journal: &Journal) -> Duration {
        let noted = metadata.annotations.as_ref().and_then(|notes| notes.get(annotations::POD_VOLUME_TIMEOUT));
        let Some(text) = noted.filter(|text| !text.is_empty()) else {
            return self.timeout;
        };
        match text.parse::<GoDuration>() {
            Ok(timeout) => timeout.to_std(),
            Err(error) => {
                let key = annotations::POD_VOLUME_TIMEOUT;
                journal.warning().error(&error).message(&format!(
                    "The annotation {key} says {text:?}, which is no duration such as 4h0m0s; {:?} is used",
                    self.timeout
                ));
                self.timeout
            }
        }
    }

    /// Waits until the repository of a namespace in a location can be used.
    pub(super) async fn ensure_repository(
        &self,
        volume_namespace: &str,
        location: &str,
    ) -> Result<(), RepositoryUnusable> {
        match &self.repositories {
            Some(repositories) => repositories.ensure(volume_namespace, location).await,
            None => Ok(()),
        }
    }
}

//! Reads the facts from a cluster, page by page.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::Client;
use kube::api::{Api, ListParams};
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, BackupStorageLocation, PodVolumeBackup, Restore, Schedule};
use velero_api::v2alpha1::DataUpload;
use velero_cluster::{ListedMetadata, list_all, list_kept, list_metadata_kept};

use crate::facts::{ClaimFacts, Facts, NamespaceFact};
use crate::period::Period;

/// How many objects a page has.
const PAGE: u32 = 250;
const FORBIDDEN: u16 = 403;
/// A cluster that has no such type.
const NOT_FOUND: u16 = 404;
/// How long one list may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Reads what a report needs. What may not be seen is noted; anything else that goes wrong is an error.
pub async fn gather(
    client: &Client,
    namespace: &str,
    period: Period,
    default_ttl: Duration,
    now: Timestamp,
) -> Result<Facts, kube::Error> {
    let since = SignedDuration::try_from(period.to_std()).ok().and_then(|length| now.checked_sub(length).ok());
    let facts =
        Facts { now, since: since.unwrap_or(now), namespace: namespace.to_owned(), default_ttl, ..Facts::default() };
    let mut reader = Reader { client, facts };
    reader.facts.backups = reader.visit::<Backup, _>().await?.unwrap_or_default();
    reader.facts.restores = reader.visit::<Restore, _>().await?.unwrap_or_default();
    reader.facts.locations = reader.visit::<BackupStorageLocation, _>().await?.unwrap_or_default();
    let copies = reader.visit::<PodVolumeBackup, _>().await?.unwrap_or_default();
    let uploads = reader.visit::<DataUpload, _>().await?.unwrap_or_default();
    reader.facts.volumes = copies.into_iter().chain(uploads).collect();
    let schedules: Api<Schedule> = Api::namespaced(client.clone(), namespace);
    let listed = in_time(list_all(&schedules, &ListParams::default())).await;
    reader.facts.schedules = reader.seen("schedules.velero.io", listed.map(|list| list.items))?;
    let keep = |metadata: ListedMetadata| Some(NamespaceFact::from(metadata));
    let listed = in_time(list_metadata_kept::<Namespace, _>(client, keep)).await;
    reader.facts.namespaces = reader.seen("namespaces", listed)?;
    let mut facts = ClaimFacts::default();
    let keep = |metadata: ListedMetadata| Some(facts.of(metadata));
    let listed = in_time(list_metadata_kept::<PersistentVolumeClaim, _>(client, keep)).await;
    reader.facts.claims = reader.seen("persistentvolumeclaims", listed)?;
    Ok(reader.facts)
}

async fn in_time<T>(listing: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match tokio::time::timeout(PATIENCE, listing).await {
        Ok(listed) => listed,
        Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
    }
}

struct Reader<'a> {
    client: &'a Client,
    facts: Facts,
}

impl Reader<'_> {
    /// Keeps of each object of a kind what counts, page by page, so that many of them need little memory.
    async fn visit<K, F>(&mut self) -> Result<Option<Vec<F>>, kube::Error>
    where
        K: VeleroResource,
        F: From<K> + Clone,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.facts.namespace);
        let visited = in_time(list_kept(&api, &ListParams::default().limit(PAGE), F::from)).await;
        self.seen(&format!("{}.velero.io", K::PLURAL), visited)
    }

    /// What was seen; a note about what may not be seen, or is not there.
    fn seen<T>(&mut self, what: &str, listed: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
        let note = match listed {
            Ok(listed) => return Ok(Some(listed)),
            Err(kube::Error::Api(status)) if status.code == FORBIDDEN => {
                format!("{what}: you may not list them ({})", status.message)
            }
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => {
                format!("{what}: the cluster does not know the type; `velero install --crds-only` brings it")
            }
            Err(error) => return Err(error),
        };
        self.facts.not_seen.push(note);
        Ok(None)
    }
}

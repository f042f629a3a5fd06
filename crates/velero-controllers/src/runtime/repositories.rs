//! Opens repositories of volume data: from a namespace and a location to the blobs, with the password of the cluster.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tokio::time::{Instant, sleep};
use velero_api::metadata;
use velero_api::repository::{self, KOPIA, PASSWORD_KEY, PASSWORD_SECRET};
use velero_api::v1::{BackupRepository, BackupRepositoryPhase, BackupRepositorySpec, BackupStorageLocation};
use velero_cluster::Error as ClusterError;
use velero_repo::Repository;
use velero_repo::format::{Format, REPOSITORY_BLOB};
use velero_repo::store::{BlobStore, open_location};
use velero_rules::names::namespace_problems;

use crate::runtime::error::{Error, Result};
use crate::runtime::locations::Locations;
use crate::runtime::objects::Objects;

/// How often a repository that is not ready yet is looked at.
const POLL: Duration = Duration::from_millis(500);

/// A repository whose keys were derived.
pub(crate) struct Unlocked {
    content: Bytes,
    password: String,
    format: Format,
}

/// Opens repositories.
#[derive(Clone)]
pub(crate) struct Repositories {
    objects: Objects,
    locations: Locations,
}

impl Repositories {
    pub(crate) fn new(objects: Objects, locations: Locations) -> Self {
        Self { objects, locations }
    }

    /// The blobs of the repository of a volume namespace in a location: `<prefix>/kopia/<namespace>/`.
    pub(crate) async fn store(
        &self,
        location: &BackupStorageLocation,
        volume_namespace: &str,
    ) -> Result<Arc<dyn BlobStore>> {
        // It becomes a path: one that leads elsewhere must never be followed.
        if let Some(problem) = namespace_problems(volume_namespace).first() {
            let name = repository::name(volume_namespace, metadata::name(location), KOPIA);
            let problem = format!("spec.volumeNamespace {volume_namespace:?} cannot be a namespace: {problem}");
            return Err(Error::invalid("BackupRepository", &name, problem));
        }
        let config = self.locations.repository_config(location).await?;
        let folder = repository::folder(&location.spec.object_storage.prefix, volume_namespace);
        open_location(&config, &folder).await.map_err(|source| failed(location, volume_namespace, source))
    }

    /// The password of all repositories, without white space around it.
    pub(crate) async fn password(&self) -> Result<String> {
        let missing = |problem: String| Error::unmet("Secret", PASSWORD_SECRET, problem);
        let found = self.find_password().await?;
        let found = found.ok_or_else(|| {
            let namespace = self.objects.namespace();
            missing(format!(
                "it does not exist in namespace {namespace:?}, or has no key {PASSWORD_KEY:?}: the password of all \
                 repositories. The server makes it with the first repository; one that is lost must be put there again"
            ))
        })?;
        let password = String::from_utf8(found).map_err(|_| missing(format!("key {PASSWORD_KEY:?} is no text")))?;
        let password = password.trim();
        if password.is_empty() {
            return Err(missing(format!(
                "key {PASSWORD_KEY:?} is empty; put the password of all repositories into it"
            )));
        }
        Ok(password.to_owned())
    }

    /// What the Secret with the password has; `None` when it does not exist, or has no password in it.
    pub(crate) async fn find_password(&self) -> Result<Option<Vec<u8>>> {
        let api: Api<Secret> = Api::namespaced(self.objects.cluster().client().clone(), self.objects.namespace());
        let found = api.get_opt(PASSWORD_SECRET).await;
        let found = found.map_err(|error| ClusterError::from_kube(format!("get secret {PASSWORD_SECRET}"), error))?;
        Ok(found.and_then(|secret| secret.data?.remove(PASSWORD_KEY)).map(|value| value.0))
    }

    /// Opens the repository, on a thread that may block.
    pub(crate) async fn open(&self, location: &BackupStorageLocation, volume_namespace: &str) -> Result<Repository> {
        self.work(location, volume_namespace, |store, password| Repository::open(store, &password)).await
    }

    /// Derives the keys of a repository ahead of its opening: that takes a while, and nothing they depend on changes.
    pub(crate) async fn unlock(&self, location: &BackupStorageLocation, volume_namespace: &str) -> Result<Unlocked> {
        let unlocked = self.work(location, volume_namespace, |store, password| {
            let content = store.get(REPOSITORY_BLOB)?;
            let format = Format::open(&content, &password, &store.place())?;
            Ok(Unlocked { content, password, format })
        });
        unlocked.await
    }

    /// Opens the repository; with keys that were derived before where they still fit.
    pub(crate) async fn open_unlocked(
        &self,
        location: &BackupStorageLocation,
        volume_namespace: &str,
        unlocked: Unlocked,
    ) -> Result<Repository> {
        let open = move |store: Arc<dyn BlobStore>, password: String| {
            let fits = password == unlocked.password && store.get(REPOSITORY_BLOB)? == unlocked.content;
            if fits { Repository::open_with(store, unlocked.format) } else { Repository::open(store, &password) }
        };
        self.work(location, volume_namespace, open).await
    }

    /// Does something with the blobs and the password of a repository, on a thread that may block.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        location: &BackupStorageLocation,
        volume_namespace: &str,
        work: impl FnOnce(Arc<dyn BlobStore>, String) -> velero_repo::Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.store(location, volume_namespace).await?;
        let password = self.password().await?;
        let worked = tokio::task::spawn_blocking(move || work(store, password)).await;
        let worked = worked.unwrap_or_else(|panic| {
            Err(velero_repo::Error::Unsupported(format!("the work on it ended unexpectedly: {panic}")))
        });
        worked.map_err(|source| failed(location, volume_namespace, source))
    }

    /// The BackupRepository of a namespace in a location: made where it is missing, and waited for until it is ready.
    /// One that is not is an error with its message.
    pub(crate) async fn ensure(
        &self,
        volume_namespace: &str,
        location: &str,
        patience: Duration,
    ) -> Result<BackupRepository> {
        let end = Instant::now() + patience;
        loop {
            let found = match self.find(volume_namespace, location).await? {
                Some(found) => found,
                None => match self.make(volume_namespace, location).await {
                    // It may have been made: the next look tells.
                    Err(Error::Cluster(error)) if error.is_unanswered() && Instant::now() < end => {
                        sleep(POLL).await;
                        continue;
                    }
                    made => made?,
                },
            };
            let name = metadata::name(&found);
            match found.status.phase() {
                BackupRepositoryPhase::Ready => return Ok(found),
                BackupRepositoryPhase::NotReady => {
                    let problem = format!("it is not ready: {}", found.status.message);
                    return Err(Error::unmet("BackupRepository", name, problem));
                }
                _ if Instant::now() >= end => {
                    let problem = format!(
                        "it did not become ready within {} s; it is made by the server's controller backup-repo, whose log \
                         says more",
                        patience.as_secs()
                    );
                    return Err(Error::unmet("BackupRepository", name, problem));
                }
                _ => sleep(POLL).await,
            }
        }
    }

    /// The BackupRepository of a namespace in a location. Older ones have other names; the labels tell.
    async fn find(&self, volume_namespace: &str, location: &str) -> Result<Option<BackupRepository>> {
        let marks = repository::labels(volume_namespace, location, KOPIA);
        let selector: Vec<String> = marks.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut found = self.objects.list::<BackupRepository>(&selector.join(",")).await?;
        found.retain(|found| {
            found.spec.volume_namespace == volume_namespace && found.spec.backup_storage_location == location
        });
        if let [one, other, ..] = &found[..] {
            let problem = format!(
                "BackupRepository {:?} is for the same namespace and location; delete one of the two",
                metadata::name(other)
            );
            return Err(Error::unmet("BackupRepository", metadata::name(one), problem));
        }
        Ok(found.pop())
    }

    async fn make(&self, volume_namespace: &str, location: &str) -> Result<BackupRepository> {
        let name = repository::name(volume_namespace, location, KOPIA);
        let spec = BackupRepositorySpec {
            volume_namespace: volume_namespace.to_owned(),
            backup_storage_location: location.to_owned(),
            repository_type: KOPIA.to_owned(),
            ..BackupRepositorySpec::default()
        };
        let mut wanted = BackupRepository::new(self.objects.namespace(), &name, spec);
        wanted.metadata.labels = Some(repository::labels(volume_namespace, location, KOPIA));
        match self.objects.create(&wanted).await {
            // Somebody else made it meanwhile, or it is there without its labels.
            Err(Error::Cluster(error)) if error.is_already_exists() => {
                let there = self.objects.get::<BackupRepository>(&name).await?;
                let is_it = |there: &BackupRepository| {
                    there.spec.volume_namespace == volume_namespace && there.spec.backup_storage_location == location
                };
                there.filter(is_it).ok_or_else(|| {
                    let problem = format!(
                        "it has the name of the repository of namespace {volume_namespace:?} in location {location:?} and is \
                         for another; delete it"
                    );
                    Error::unmet("BackupRepository", &name, problem)
                })
            }
            outcome => outcome,
        }
    }
}

fn failed(location: &BackupStorageLocation, volume_namespace: &str, source: velero_repo::Error) -> Error {
    Error::Repository { namespace: volume_namespace.to_owned(), location: metadata::name(location).to_owned(), source }
}

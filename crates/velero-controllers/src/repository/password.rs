//! The password of all repositories of the cluster. It is made when the first repository needs it and not before: only then
//! is it known what lies in the locations. One that exists is never replaced.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use velero_api::labels::{COMPONENT, COMPONENT_VELERO};
use velero_api::metadata::name;
use velero_api::repository::{KOPIA, PASSWORD_KEY, PASSWORD_SECRET, STATIC_PASSWORD};
use velero_api::v1::{BackupRepository, BackupRepositoryPhase, BackupStorageLocation};
use velero_cluster::Error as ClusterError;
use velero_repo::crypto::random;
use velero_repo::format::{Format, REPOSITORY_BLOB};
use velero_repo::{Error as RepositoryError, store::BlobStore};
use velero_rules::names::namespace_problems;

use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::events;

/// How many repositories of a location are tried: all have the same password.
const TRIED: usize = 3;
/// The annotation that tells whoever finds the Secret what it is.
const NOTE: &str = "velero.io/note";

/// What lies in the locations of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// No repository.
    Nothing,
    /// Repositories with the password that Velero takes where nobody chose one.
    Static,
}

/// Makes the Secret with the password where there is none.
pub(super) async fn ensure_password(context: &Context, repository: &BackupRepository) -> Result<()> {
    if context.repositories.find_password().await?.is_some() {
        return Ok(());
    }
    let (password, note) = match look_into_locations(context).await? {
        Found::Nothing => {
            let password: String = random::<24>().iter().map(|byte| format!("{byte:02x}")).collect();
            (password, told(context))
        }
        Found::Static => (STATIC_PASSWORD.to_owned(), told_of_static()),
    };
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(PASSWORD_SECRET.to_owned()),
            labels: Some(BTreeMap::from([(COMPONENT.to_owned(), COMPONENT_VELERO.to_owned())])),
            annotations: Some(BTreeMap::from([(NOTE.to_owned(), note.clone())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(PASSWORD_KEY.to_owned(), ByteString(password.into_bytes()))])),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(context.objects.cluster().client().clone(), context.objects.namespace());
    let made = api.create(&PostParams::default(), &secret).await;
    match made.map_err(|error| ClusterError::from_kube(format!("create secret {PASSWORD_SECRET}"), error)) {
        // Another server was quicker, or the answer to our own request was lost: what is there counts.
        Err(error) if error.is_already_exists() => return Ok(()),
        made => made?,
    };
    tracing::warn!(secret = PASSWORD_SECRET, "{note}");
    events::warn(context, repository, "velero-backup-repo", "RepositoryPasswordMade", "Create", note).await;
    Ok(())
}

fn told(context: &Context) -> String {
    let namespace = context.objects.namespace();
    format!(
        "A random password for all repositories of volume data was made. Keep a copy outside the cluster: without it nothing \
         can be restored from them elsewhere. kubectl -n {namespace} get secret {PASSWORD_SECRET} -o \
         jsonpath='{{.data.{PASSWORD_KEY}}}' | base64 -d"
    )
}

fn told_of_static() -> String {
    "The repositories of volume data that exist have the password that Velero takes where nobody chose one, and which everybody \
     knows; it is used on. Whoever can read the bucket can read what is in them"
        .to_owned()
}

/// Looks for repositories that exist already. With another password than theirs nothing in them could be restored, so none is
/// made where it is not known.
async fn look_into_locations(context: &Context) -> Result<Found> {
    let mut found = Found::Nothing;
    for location in context.objects.list::<BackupStorageLocation>("").await? {
        if !location.is_available() {
            refuse_unseen(context, &location).await?;
            continue;
        }
        for namespace in namespaces_in(context, &location).await? {
            match opens_with_static(context, &location, &namespace).await? {
                Some(true) => found = Found::Static,
                Some(false) => return Err(unknown_password(context, &location, &namespace)),
                None => {}
            }
        }
    }
    Ok(found)
}

/// Refuses to go on where a location cannot be looked into that has repositories of this cluster.
async fn refuse_unseen(context: &Context, location: &BackupStorageLocation) -> Result<()> {
    for repository in context.objects.list::<BackupRepository>("").await? {
        let is_in_use = *repository.status.phase() == BackupRepositoryPhase::Ready;
        if is_in_use && repository.spec.backup_storage_location == name(location) {
            let problem = format!(
                "it does not exist, and BackupStorageLocation {:?}, which has repositories, cannot be looked into; put their \
                 password into key {PASSWORD_KEY:?}, or wait until the location is available",
                name(location)
            );
            return Err(Error::unmet("Secret", PASSWORD_SECRET, problem));
        }
    }
    Ok(())
}

fn unknown_password(context: &Context, location: &BackupStorageLocation, volume_namespace: &str) -> Error {
    let namespace = context.objects.namespace();
    let problem = format!(
        "it does not exist, and the repository of namespace {volume_namespace:?} in BackupStorageLocation {:?} was made with \
         a password that is not known here; put that into key {PASSWORD_KEY:?} of a secret of this name in namespace \
         {namespace:?}, or another one if nothing will be restored from there: kubectl -n {namespace} create secret generic \
         {PASSWORD_SECRET} --from-literal={PASSWORD_KEY}=PASSWORD",
        name(location)
    );
    Error::unmet("Secret", PASSWORD_SECRET, problem)
}

/// The namespaces whose volumes have a folder in a location, some of them.
async fn namespaces_in(context: &Context, location: &BackupStorageLocation) -> Result<Vec<String>> {
    let store = context.locations.open_briefly(location).await?;
    let folder = format!("{}{KOPIA}/", store.keys().root());
    let found = store.object_store().list_common_prefixes(&folder).await?;
    let names = found.iter().filter_map(|key| Some(key.strip_prefix(&folder)?.trim_end_matches('/').to_owned()));
    Ok(names.filter(|name| namespace_problems(name).is_empty()).take(TRIED).collect())
}

/// Whether the static password opens a repository; `None` where there is none.
async fn opens_with_static(
    context: &Context,
    location: &BackupStorageLocation,
    volume_namespace: &str,
) -> Result<Option<bool>> {
    let store = match context.repositories.store(location, volume_namespace).await {
        Ok(store) => store,
        Err(error) => {
            let (location, error) = (name(location), describe(&error));
            tracing::debug!(location, error, "A location that cannot have repositories is not looked into");
            return Ok(None);
        }
    };
    let opened = tokio::task::spawn_blocking(move || try_static(store.as_ref())).await;
    let opened = opened.unwrap_or_else(|panic| Err(RepositoryError::Unsupported(panic.to_string())));
    opened.map_err(|source| Error::Repository {
        namespace: volume_namespace.to_owned(),
        location: name(location).to_owned(),
        source,
    })
}

fn try_static(store: &dyn BlobStore) -> velero_repo::Result<Option<bool>> {
    let content = match store.get(REPOSITORY_BLOB) {
        Err(error) if error.is_blob_not_found() => return Ok(None),
        content => content?,
    };
    match Format::open(&content, STATIC_PASSWORD, &store.place()) {
        Ok(_) => Ok(Some(true)),
        Err(RepositoryError::WrongPassword { .. }) => Ok(Some(false)),
        Err(error) => Err(error),
    }
}

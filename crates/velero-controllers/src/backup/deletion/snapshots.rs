//! The snapshots of a backup in repositories: which they are, and forgetting them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use velero_api::labels;
use velero_api::metadata::{label, name, uid};
use velero_api::records::{BackupOperation, BackupVolumeInfo};
use velero_api::type_names::DATA_UPLOADS;
use velero_api::v1::{Backup, BackupStorageLocation, PodVolumeBackup};
use velero_api::v2alpha1::{DataUpload, UPLOAD_OPERATION};
use velero_archive::{ArchiveReader, BackupFile, ItemPath, Limits};
use velero_cluster::{Error as ClusterError, list_all};
use velero_repo::clock::system_clock;
use velero_repo::manifest::{Manifest, SNAPSHOT};
use velero_repo::{Error as RepositoryError, Repository, forget};
use velero_rules::repository_snapshots::{OwnedSnapshots, RepositoryKey};
use velero_store::{BackupStore, blocking_reader};

use crate::backup::deletion::transfers::transfers_of;
use crate::lifecycle::kind::Kind;
use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result, describe};

/// The tag of a copy that names its backup.
const OF_BACKUP: &str = "backup-uid";

/// What a backup owns in repositories, from its files, its archive and the cluster.
pub(super) async fn owned_snapshots(context: &Context, backup: &Backup, store: &BackupStore) -> Result<OwnedSnapshots> {
    let mut owned = OwnedSnapshots::default();
    let location = backup.spec.storage_location.as_str();
    let copies: Vec<PodVolumeBackup> = store.get_json(name(backup), BackupFile::PodVolumeBackups).await?;
    copies.iter().for_each(|copy| owned.add_copy(copy, location));
    let volumes: Vec<BackupVolumeInfo> = store.get_json(name(backup), BackupFile::VolumeInfos).await?;
    volumes.iter().for_each(|volume| owned.add_volume(volume, location));
    // A backup that has not come to its end has written none of it yet.
    let (copies, uploads) = transfers_of(context, backup).await?;
    copies.iter().for_each(|copy| owned.add_copy(copy, location));
    uploads.iter().for_each(|upload| owned.add_upload(upload, location));
    for note in notes(context, backup).await? {
        owned.add_note(&note.data.unwrap_or_default());
    }
    // Backups that are older than the file about volumes tell of moved data by their operations only.
    let operations = backup.files(store).readable_operations::<BackupOperation>().await?;
    if owned.wants_uploads() || operations.iter().any(moves_data) {
        let uploads = archived_uploads(store, backup, context.settings.archive_limits()).await?;
        uploads.iter().filter(|upload| is_own(upload, backup)).for_each(|upload| owned.add_upload(upload, location));
    }
    Ok(owned)
}

fn moves_data(operation: &BackupOperation) -> bool {
    operation.spec.post_operation_items.iter().any(|item| item.group_resource() == DATA_UPLOADS)
}

/// Whether a DataUpload of the archive was made for the backup. Those of other backups are there too where it holds the namespace
/// of the server, and what they have moved is not its own to forget. The UID says nothing: it is that of the backup in the cluster
/// where it was made.
fn is_own(upload: &DataUpload, backup: &Backup) -> bool {
    label(upload, labels::BACKUP_NAME) == labels::valid_value(name(backup))
}

/// The DataUploads in the archive of a backup; none where it has no archive.
async fn archived_uploads(store: &BackupStore, backup: &Backup, limits: Limits) -> Result<Vec<DataUpload>> {
    let archive = match store.get_contents(name(backup)).await {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        archive => blocking_reader(archive?),
    };
    let reading = tokio::task::spawn_blocking(move || {
        let mut found = Vec::new();
        let read = ArchiveReader::new(archive).with_limits(limits).for_each(|entry| {
            let path = ItemPath::parse(entry.path).filter(|path| path.version.is_none());
            if path.is_some_and(|path| path.group_resource == DATA_UPLOADS) {
                found.push(serde_json::from_slice(entry.body).map_err(velero_archive::Error::Json)?);
            }
            Ok::<_, velero_archive::Error>(())
        });
        read.map(|_| found)
    });
    let unreadable = |problem: String| {
        let problem = format!("its archive cannot be read, which alone says which volume data it owns: {problem}");
        Error::unmet("Backup", name(backup), problem)
    };
    let read = reading.await.map_err(|error| unreadable(error.to_string()))?;
    read.map_err(|error| unreadable(describe(&error)))
}

/// The ConfigMaps in which Velero notes down the snapshots of a backup that it is about to delete.
async fn notes(context: &Context, backup: &Backup) -> Result<Vec<ConfigMap>> {
    let backup = labels::valid_value(name(backup));
    let selector = format!("{}={backup},{}=true", labels::BACKUP_NAME, labels::DATA_UPLOAD_SNAPSHOT_INFO);
    let found = list_all(&config_maps(context), &ListParams::default().labels(&selector)).await;
    Ok(found.map_err(|error| ClusterError::from_kube("list configmaps with snapshots", error))?.items)
}

fn config_maps(context: &Context) -> Api<ConfigMap> {
    Api::namespaced(context.objects.cluster().client().clone(), context.objects.namespace())
}

/// Forgets the snapshots of a backup, all of a repository at once; gives what is left, in words. An error is one that may
/// pass.
pub(super) async fn forget_snapshots(context: &Context, backup: &Backup, store: &BackupStore) -> Result<Vec<String>> {
    let owned = owned_snapshots(context, backup, store).await?;
    let mut left: Vec<String> = owned.obstacle().into_iter().collect();
    let (mut by_repository, searched) = (owned.by_repository, owned.searched);
    for repository in &searched {
        by_repository.entry(repository.clone()).or_default();
    }
    for (repository, snapshots) in by_repository {
        let is_searched = searched.contains(&repository);
        left.extend(forget_in(context, backup, &repository, snapshots, is_searched).await?);
    }
    if left.is_empty() {
        for note in notes(context, backup).await? {
            if let Err(error) = config_maps(context).delete(name(&note), &DeleteParams::default()).await {
                tracing::warn!(config_map = name(&note), %error, "A note about a forgotten snapshot could not be removed");
            }
        }
    }
    Ok(left)
}

/// Forgets the snapshots of a repository that records tell of, and where it `is_searched` those too that say themselves that
/// they were saved for the backup: of a mover that was killed when it had saved everything no record tells. What keeps these
/// alone from being looked for keeps no backup from going.
async fn forget_in(
    context: &Context,
    backup: &Backup,
    repository: &RepositoryKey,
    snapshots: BTreeSet<String>,
    is_searched: bool,
) -> Result<Option<String>> {
    let namespace = repository.namespace.as_str();
    let own = &backup.spec.storage_location;
    let place = if repository.location.is_empty() { own } else { &repository.location };
    let failed = |problem: &str| {
        let count = snapshots.len();
        (count > 0).then(|| {
            format!(
                "{count} snapshots of volumes in the repository of namespace {namespace:?} in location {place:?}: {problem}"
            )
        })
    };
    let Some(location) = context.objects.get::<BackupStorageLocation>(place).await? else {
        return Ok(failed("the location does not exist any more; create it again, or remove the data by hand"));
    };
    if location.is_read_only() {
        return Ok(failed("the location is ReadOnly (spec.accessMode)"));
    }
    let mut ids: Vec<String> = snapshots.iter().cloned().collect();
    let owner = Some(uid(backup).to_owned()).filter(|owner| is_searched && !owner.is_empty());
    let forgotten = context.repositories.work(&location, namespace, move |store, password| {
        let repository = Repository::open(store, &password)?;
        if let Some(owner) = owner {
            ids.extend(saved_for(&repository, &owner)?);
        }
        if ids.is_empty() { Ok(0) } else { forget(&repository, &ids, &system_clock()) }
    });
    match forgotten.await {
        Ok(0) if snapshots.is_empty() => Ok(None),
        Ok(count) => {
            tracing::info!(
                backup = name(backup),
                namespace,
                location = place,
                snapshots = count,
                "Snapshots of volumes were forgotten; maintenance of the repository frees their space, two full cycles and a \
                 day later at the earliest"
            );
            Ok(None)
        }
        Err(Error::Repository { source: RepositoryError::NoRepository { .. }, .. }) => {
            tracing::warn!(backup = name(backup), namespace, location = place, "The repository of its volumes is gone");
            Ok(None)
        }
        Err(error) if snapshots.is_empty() => {
            let (backup, error) = (name(backup), describe(&error));
            tracing::warn!(
                backup,
                namespace,
                location = place,
                error,
                "What broke off may have left snapshots of volumes"
            );
            Ok(None)
        }
        Err(error) if may_pass(&error) => Err(error),
        Err(error) => Ok(failed(&describe(&error))),
    }
}

/// The snapshots of a repository that were saved for the backup of that UID.
fn saved_for(repository: &Repository, owner: &str) -> velero_repo::Result<Vec<String>> {
    let found = repository.manifests(&|manifest| is_saved_for(manifest, owner))?;
    Ok(found.into_iter().map(|manifest| manifest.id).collect())
}

/// Whether a snapshot was saved for the backup of that UID. Copies through pods name it, moved data its operation, in whose name
/// the UID comes first.
fn is_saved_for(manifest: &Manifest, owner: &str) -> bool {
    let tag = |key: &str| manifest.labels.as_ref().and_then(|tags| tags.get(key)).map_or("", String::as_str);
    let operation = tag(labels::ASYNC_OPERATION_ID).strip_prefix(UPLOAD_OPERATION);
    let is_moved = operation.and_then(|rest| rest.strip_prefix(owner)).is_some_and(|rest| rest.starts_with('.'));
    manifest.has_labels(&[("type", SNAPSHOT)]) && (tag(OF_BACKUP) == owner || is_moved)
}

/// Whether the same may work later without anybody doing something about it.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Cluster(_) | Error::Store(_) => true,
        Error::Repository { source, .. } => matches!(
            source,
            RepositoryError::Store { .. }
                | RepositoryError::Location { .. }
                | RepositoryError::BlobNotFound { .. }
                | RepositoryError::EpochClosed { .. }
                | RepositoryError::UpgradeLock { .. }
                | RepositoryError::WriterFailed
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_snapshot_says_for_which_backup_it_was_saved() {
        let saved_for = |labels: serde_json::Value| {
            let manifest = json!({"id": "k", "modified": "2026-01-01T00:00:00Z", "labels": labels});
            is_saved_for(&serde_json::from_value(manifest).unwrap(), "u1")
        };
        for (labels, expected) in [
            (json!({"type": "snapshot", "backup-uid": "u1"}), true),
            (json!({"type": "snapshot", "backup-uid": "u12"}), false),
            (json!({"type": "snapshot", "velero.io/async-operation-id": "du-u1.c1"}), true),
            (json!({"type": "snapshot", "velero.io/async-operation-id": "du-u12.c1"}), false),
            (json!({"type": "snapshot"}), false),
            (json!({"type": "policy", "backup-uid": "u1"}), false),
            (json!(null), false),
        ] {
            assert_eq!(saved_for(labels.clone()), expected, "{labels}");
        }
    }

    #[test]
    fn an_operation_that_makes_a_data_upload_moves_data() {
        let mut operation = BackupOperation::default();
        assert!(!moves_data(&operation));
        operation.spec.post_operation_items = vec![velero_api::records::ResourceIdentifier {
            group: "velero.io".to_owned(),
            resource: "datauploads".to_owned(),
            ..Default::default()
        }];
        assert!(moves_data(&operation));
    }

    #[test]
    fn a_data_upload_of_the_archive_is_owned_by_the_backup_that_it_names() {
        let backup = Backup::new("velero", &"n".repeat(70), Default::default());
        let upload = |owner: Option<&str>| {
            let mut upload = DataUpload::default();
            upload.metadata.labels = owner.map(|owner| [(labels::BACKUP_NAME.to_owned(), owner.to_owned())].into());
            upload
        };
        assert!(is_own(&upload(Some(&labels::valid_value(name(&backup)))), &backup));
        for owner in [None, Some("daily"), Some(&*"n".repeat(63))] {
            assert!(!is_own(&upload(owner), &backup), "{owner:?}");
        }
    }

    #[test]
    fn what_is_away_is_tried_again_and_what_is_wrong_is_told() {
        let of = |source| Error::Repository { namespace: "n".to_owned(), location: "l".to_owned(), source };
        let away = RepositoryError::Store { action: "read", blob: "b".to_owned(), source: "timed out".into() };
        assert!(may_pass(&of(away)));
        assert!(!may_pass(&of(RepositoryError::WrongPassword { place: "p".to_owned() })));
        assert!(!may_pass(&Error::unmet("Secret", "velero-repo-credentials", "it does not exist")));
    }
}

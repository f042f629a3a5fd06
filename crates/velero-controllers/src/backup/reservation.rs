//! The name of a backup in its location: reserved before the first file is written, respected in the hands of others.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use velero_api::metadata::{name, uid};
use velero_api::v1::Backup;
use velero_cluster::Error as ClusterError;
use velero_store::{BackupReservation, BackupStore, Error as StoreError};

use crate::backup::failure::Failure;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::store_message::explain;

/// What a backup that has ended owes whose store did not take the last request.
pub(super) const RESERVATION_LEFT: &str = "the reservation of its name in the bucket";

/// How long a name that was not used may take to be given back.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reserves the name of a backup in its location, or says why the backup cannot be made there: so does `given_up` when somebody wants
/// the end. A name that was reserved before the store failed is given back.
pub(super) async fn reserve_name(
    context: &Context,
    store: &BackupStore,
    backup: &Backup,
    location: &str,
    given_up: impl Future<Output = Failure>,
) -> Result<(), Failure> {
    let reserved = tokio::select! {
        reserved = try_to_reserve(context, store, backup, location) => reserved,
        // Nothing but the name can be there.
        failure = given_up => Err(Failure { touched: None, ..failure }),
    };
    let Err(mut failure) = reserved else { return Ok(()) };
    let released = tokio::time::timeout(PATIENCE, store.release(name(backup), uid(backup))).await;
    failure.may_be_reserved = !matches!(released, Ok(Ok(())));
    Err(failure)
}

async fn try_to_reserve(
    context: &Context,
    store: &BackupStore,
    backup: &Backup,
    location: &str,
) -> Result<(), Failure> {
    let failed = |error: velero_store::Error| {
        let problem = explain(&error);
        Failure::before_start(format!("error checking if backup already exists in object storage: {problem}"))
    };
    let cluster = cluster_identity(context).await.map_err(|error| Failure::before_start(describe(&error)))?;
    let reservation = BackupReservation {
        uid: uid(backup).to_owned(),
        cluster,
        namespace: context.objects.namespace().to_owned(),
        holder: context.holder.identity().to_owned(),
        reserved_at: clock::now().to_string(),
    };
    let mut other = store.reserve(name(backup), &reservation).await.map_err(failed)?;
    if let Some(left) = other.take_if(|other| is_left_behind(other, &reservation)) {
        tracing::info!(backup = name(backup), uid = left.uid, "Removing what a deleted backup of this name left");
        store.clear(name(backup), &left.uid).await.map_err(failed)?;
        store.release(name(backup), &left.uid).await.map_err(failed)?;
        other = store.reserve(name(backup), &reservation).await.map_err(failed)?;
    }
    if let Some(other) = other {
        return Err(Failure::before_start(reserved_by(&other, name(backup), location)));
    }
    // Whoever had the name before may have come to an end.
    match store.backup_exists(name(backup)).await {
        Ok(false) => Ok(()),
        Ok(true) => {
            let backup = name(backup);
            Err(Failure::before_start(format!(
                "backup already exists in object storage: location {location:?} holds a backup {backup:?}; \
                 choose another name or delete that backup first"
            )))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Whether a reservation is of a Backup that is gone: names are unique in a namespace, and this one has another object
/// now.
fn is_left_behind(other: &BackupReservation, ours: &BackupReservation) -> bool {
    !other.cluster.is_empty() && (&other.cluster, &other.namespace) == (&ours.cluster, &ours.namespace)
}

fn reserved_by(other: &BackupReservation, backup: &str, location: &str) -> String {
    let BackupReservation { uid, namespace, reserved_at, .. } = other;
    format!(
        "backup already exists in object storage: another cluster is writing a backup {backup:?} to location \
         {location:?} (UID {uid} in namespace {namespace}, since {reserved_at}); choose another name, or another prefix \
         for each cluster; if that backup is gone, delete the folder backups/{backup}"
    )
}

/// What tells this cluster from others.
pub(super) async fn cluster_identity(context: &Context) -> Result<String> {
    let api: Api<Namespace> = Api::all(context.objects.cluster().client().clone());
    let found = api.get_metadata_opt("kube-system").await;
    let found = found.map_err(|error| ClusterError::from_kube("get namespace kube-system", error))?;
    Ok(found.map(|namespace| uid(&namespace).to_owned()).unwrap_or_default())
}

/// Whether the files under the name of a backup are its own: those of another cluster's backup may lie there instead. A
/// backup that was brought in from the bucket has a UID of its own, but its files tell of the same run.
///
/// Its reservation alone does not say so: Velero takes no notice of it, and may have written a backup of its own over this one.
pub(crate) async fn owns_files(store: &BackupStore, backup: &Backup) -> Result<bool> {
    let reservation = store.reservation(name(backup)).await?;
    if reservation.is_some_and(|reservation| reservation.uid != uid(backup)) {
        return Ok(false);
    }
    if !store.backup_exists(name(backup)).await? {
        return Ok(true);
    }
    match store.get_metadata(name(backup)).await {
        // Damaged metadata must not keep a backup from being deleted.
        Err(StoreError::Decode { .. }) => Ok(true),
        stored => Ok(is_of_run(&stored?, backup)),
    }
}

fn is_of_run(stored: &Backup, backup: &Backup) -> bool {
    let run = |backup: &Backup| {
        let status = &backup.status;
        let times = (status.start_timestamp.clone(), status.completion_timestamp.clone());
        (times, status.progress.clone(), status.failure_reason.clone())
    };
    uid(stored) == uid(backup) || run(stored) == run(backup)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(uid: &str, cluster: &str, namespace: &str) -> BackupReservation {
        let [uid, cluster, namespace] = [uid, cluster, namespace].map(str::to_owned);
        BackupReservation { uid, cluster, namespace, ..BackupReservation::default() }
    }

    #[test]
    fn only_a_reservation_of_the_same_cluster_and_namespace_can_be_left_behind() {
        let ours = reservation("1", "c1", "velero");
        assert!(is_left_behind(&reservation("2", "c1", "velero"), &ours));
        assert!(!is_left_behind(&reservation("2", "c2", "velero"), &ours));
        assert!(!is_left_behind(&reservation("2", "c1", "other"), &ours));
        assert!(!is_left_behind(&reservation("2", "", "velero"), &reservation("1", "", "velero")));
    }

    #[tokio::test]
    async fn files_that_another_has_written_over_a_reserved_backup_are_not_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let config = velero_store::StoreConfig::new("fs", directory.path().to_str().unwrap());
        let store = BackupStore::new(config.open().await.unwrap(), "");
        let backup = |uid: &str, reason: &str| {
            let mut backup = Backup::new("velero", "b", Default::default());
            backup.metadata.uid = Some(uid.to_owned());
            backup.status.failure_reason = reason.to_owned();
            backup
        };
        let own = backup("1", "");
        assert!(owns_files(&store, &own).await.unwrap());
        store.reserve("b", &reservation("1", "c1", "velero")).await.unwrap();
        assert!(owns_files(&store, &own).await.unwrap());
        assert!(!owns_files(&store, &backup("2", "")).await.unwrap(), "the name is reserved");
        let metadata = directory.path().join("backups/b/velero-backup.json");
        for (stored, expected) in [(own.clone(), true), (backup("2", "of another"), false)] {
            std::fs::write(&metadata, serde_json::to_vec(&stored).unwrap()).unwrap();
            assert_eq!(owns_files(&store, &own).await.unwrap(), expected, "{stored:?}");
        }
    }

    #[test]
    fn files_belong_to_the_backup_of_their_uid_or_of_their_run() {
        let backup = |uid: &str, second: i64, reason: &str| {
            let mut backup = Backup::new("velero", "b", Default::default());
            backup.metadata.uid = Some(uid.to_owned());
            let time = jiff::Timestamp::from_second(second).unwrap();
            backup.status.start_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
            backup.status.failure_reason = reason.to_owned();
            backup
        };
        let stored = backup("1", 5, "");
        assert!(is_of_run(&stored, &backup("1", 5, "")));
        assert!(is_of_run(&stored, &backup("2", 5, "")), "brought in from the bucket");
        assert!(!is_of_run(&stored, &backup("2", 6, "")));
        assert!(!is_of_run(&stored, &backup("2", 5, "backup already exists in object storage")), "the second of two");
        let mut begun = backup("2", 5, "");
        begun.status.progress = Some(velero_api::v1::BackupProgress { items_backed_up: 7, ..Default::default() });
        assert!(!is_of_run(&stored, &begun), "another run of the same second");
    }
}

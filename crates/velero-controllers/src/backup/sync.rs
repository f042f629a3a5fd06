//! Brings backups that are in a bucket into the cluster, and removes those whose bucket lost them.

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;
use tokio::sync::RwLock;
use velero_api::annotations::OF_THE_SERVER;
use velero_api::metadata::{name, uid};
use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation, PodVolumeBackup, Schedule};
use velero_api::{DataMovePhase, GROUP, labels};
use velero_archive::BackupFile;
use velero_rules::backup_sync::{BucketNames, SyncDecision, decide, is_due, is_orphan};
use velero_store::BackupStore;

use crate::backup::orphans::{self, Orphans};
use crate::lifecycle::kind::Kind;
use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::{Error, Result, describe};

/// How many backups that are new are looked at at the same time.
const AT_ONCE: usize = 8;

/// Watches BackupStorageLocations.
pub(crate) struct BackupSyncReconciler {
    context: SharedContext,
    orphans: Orphans,
    /// Held while a backup is brought in: only then a sync must not be broken off, for its next one would find the backup there
    /// and look no further.
    bringing_in: RwLock<()>,
}

impl BackupSyncReconciler {
    pub(crate) fn new(context: SharedContext) -> Self {
        Self { context, orphans: Orphans::default(), bringing_in: RwLock::default() }
    }

    /// Ends when the server is told to end and no backup is being brought in.
    async fn until_stopped(&self) {
        self.context.stop.cancelled().await;
        let _nobody = self.bringing_in.write().await;
    }
}

impl Reconciler for BackupSyncReconciler {
    type Kind = BackupStorageLocation;
    const CONTROLLER: Controller = Controller::BackupSync;
    const CONCURRENCY: u16 = 4;

    async fn reconcile(&self, location: BackupStorageLocation) -> Result<Next> {
        let default = self.context.settings.sync_period();
        let own = location.spec.backup_sync_period;
        if own.is_some_and(velero_api::GoDuration::is_zero) || !location.is_available() {
            return Ok(Next::Change);
        }
        let period = own.filter(|period| !period.is_negative()).unwrap_or(default);
        let last = location.status.last_synced_time.as_ref().map(|time| time.0);
        let now = clock::now();
        let signed = |duration: velero_api::GoDuration| SignedDuration::from_nanos(duration.as_nanos());
        if !is_due(own.map(signed), signed(default), last, now) {
            let next = clock::after(last.unwrap_or(now), period);
            return Ok(Next::After(clock::until(next, now) + std::time::Duration::from_secs(1)));
        }
        tokio::select! {
            done = self.synchronise(&location) => done?,
            () = self.until_stopped() => return Ok(Next::Change),
        }
        let mut synced = location.clone();
        synced.status.last_synced_time = Some(clock::now_time());
        self.context.objects.force(&location, &synced).await?;
        Ok(Next::After(period.to_std() + std::time::Duration::from_secs(1)))
    }
}

impl BackupSyncReconciler {
    async fn synchronise(&self, location: &BackupStorageLocation) -> Result<()> {
        let context = &self.context;
        let store = context.locations.open_briefly(location).await?;
        let mut names = BucketNames::new(store.list_backups().await?);
        let mut lost = Vec::new();
        let label = labels::valid_value(name(location));
        context
            .objects
            .visit("", |backup: Backup| {
                let here = velero_api::metadata::label(&backup, labels::STORAGE_LOCATION) == label;
                let is_in_bucket = names.note(name(&backup));
                if here && is_orphan(backup.status.phase(), is_in_bucket) {
                    lost.push(backup);
                }
            })
            .await?;
        let looks = stream::iter(names.news()).map(|backup| self.look_at(location, &store, backup).boxed());
        let unfinished: Vec<Option<String>> = looks.buffer_unordered(AT_ONCE).try_collect().await?;
        self.orphans.report(context, location, unfinished.into_iter().flatten().collect()).await;
        for orphan in lost {
            // It may have been stored since the bucket was listed.
            if store.backup_exists(name(&orphan)).await? {
                continue;
            }
            tracing::info!(
                location = name(location),
                backup = name(&orphan),
                "Deleting a backup whose location no longer has it"
            );
            // One that must stay keeps neither others nor the note that the location is synchronised.
            if let Err(error) = context.objects.delete(&orphan).await {
                let (location, backup, error) = (name(location), name(&orphan), describe(&error));
                tracing::error!(
                    location,
                    backup,
                    error,
                    "A backup that its location no longer has could not be deleted"
                );
            }
        }
        Ok(())
    }

    /// Looks at a folder of the bucket that this cluster knows nothing of; gives its name if nobody will ever finish it.
    async fn look_at(
        &self,
        location: &BackupStorageLocation,
        store: &BackupStore,
        backup: String,
    ) -> Result<Option<String>> {
        let brought = match store.get_metadata(&backup).await {
            Ok(stored) => self.bring_in(location, store, &backup, stored).await,
            Err(error) if error.is_not_found() => {
                tracing::debug!(backup, "The folder has no metadata and is not a backup yet");
                return Ok(orphans::is_abandoned(store, &backup).await?.then_some(backup));
            }
            Err(error) => Err(error.into()),
        };
        // One backup that cannot be read must not hide the others.
        if let Err(error) = brought {
            tracing::error!(
                location = name(location),
                backup,
                error = describe(&error),
                "Error syncing backup into cluster"
            );
        }
        Ok(None)
    }

    async fn bring_in(
        &self,
        location: &BackupStorageLocation,
        store: &BackupStore,
        backup: &str,
        stored: Backup,
    ) -> Result<()> {
        if name(&stored) != backup {
            let problem = format!("its metadata names {:?}; it is not brought into the cluster", name(&stored));
            return Err(Error::invalid("backup", backup, problem));
        }
        let expiration = stored.status.expiration.as_ref().map(|time| time.0);
        let phase = match decide(stored.status.phase(), expiration, clock::now()) {
            SyncDecision::Skip => {
                let phase = stored.status.phase().as_str();
                tracing::debug!(backup, phase, "The backup has not ended and is skipped");
                return Ok(());
            }
            SyncDecision::Create => stored.status.phase().clone(),
            SyncDecision::CreateAs(phase) => phase,
        };
        let context = &self.context;
        let mut arrived = localised(stored, context.objects.namespace(), name(location), phase);
        arrived.put_conditions(clock::now());
        keep_known_owners(context, &mut arrived).await?;
        // The store may take its time, and is asked before there is something to be finished.
        let copies = store.get_json(backup, BackupFile::PodVolumeBackups).await;
        let _not_now = self.bringing_in.read().await;
        let created = match context.objects.create(&arrived).await {
            Err(Error::Cluster(error)) if error.is_already_exists() => return Ok(()),
            created => created?,
        };
        tracing::info!(location = name(location), backup, "Successfully synced backup into cluster");
        bring_in_pod_volume_backups(context, location, &created, copies?).await
    }
}

/// A stored backup as an object of this cluster.
///
/// It is the record of a backup that ran elsewhere: its hooks must never run here, and nothing is owed for it. Whoever can
/// write to the bucket has written it, so what a server notes for itself is taken off.
fn localised(mut backup: Backup, namespace: &str, location: &str, phase: BackupPhase) -> Backup {
    let metadata = &mut backup.metadata;
    metadata.namespace = Some(namespace.to_owned());
    metadata.resource_version = None;
    metadata.uid = None;
    metadata.managed_fields = None;
    metadata.finalizers = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| !OF_THE_SERVER.contains(&key.as_str()));
    }
    let label = (labels::STORAGE_LOCATION.to_owned(), labels::valid_value(location));
    metadata.labels.get_or_insert_default().extend([label]);
    backup.spec.storage_location = location.to_owned();
    backup.spec.hooks = Default::default();
    backup.status.phase = Some(phase);
    backup.status.conditions.clear();
    backup
}

/// Drops owners that this cluster does not have: an object whose owner is gone would be deleted at once.
async fn keep_known_owners(context: &Context, backup: &mut Backup) -> Result<()> {
    let mut known = Vec::new();
    for owner in backup.metadata.owner_references.take().unwrap_or_default() {
        let is_schedule = owner.kind == "Schedule" && owner.api_version.starts_with(GROUP);
        let schedule = if is_schedule { context.objects.get::<Schedule>(&owner.name).await? } else { None };
        if schedule.is_some_and(|schedule| uid(&schedule) == owner.uid) {
            known.push(owner);
        }
    }
    backup.metadata.owner_references = Some(known).filter(|owners| !owners.is_empty());
    Ok(())
}

async fn bring_in_pod_volume_backups(
    context: &Context,
    location: &BackupStorageLocation,
    backup: &Backup,
    stored: Vec<PodVolumeBackup>,
) -> Result<()> {
    for mut volume in stored {
        let metadata = &mut volume.metadata;
        metadata.namespace.clone_from(&backup.metadata.namespace);
        (metadata.resource_version, metadata.uid, metadata.managed_fields) = (None, None, None);
        // It is a record: no agent of this cluster is to take it up, or to be asked before it goes.
        metadata.finalizers = None;
        if !volume.status.phase().is_terminal() {
            volume.status.phase = Some(DataMovePhase::Failed);
        }
        let own_uid = uid(backup).to_owned();
        for owner in metadata.owner_references.iter_mut().flatten() {
            if owner.kind == "Backup" && owner.name == name(backup) {
                owner.uid.clone_from(&own_uid);
            }
        }
        if let Some(label) = metadata.labels.as_mut().and_then(|labels| labels.get_mut(labels::BACKUP_UID)) {
            *label = own_uid;
        }
        volume.spec.backup_storage_location = name(location).to_owned();
        match context.objects.create(&volume).await {
            Err(Error::Cluster(error)) if error.is_already_exists() => {}
            created => drop(created?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use velero_api::annotations;

    use super::*;

    #[test]
    fn a_stored_backup_becomes_an_object_of_this_cluster_without_its_hooks() {
        let mut stored = Backup::new("elsewhere", "b", Default::default());
        stored.metadata.resource_version = Some("7".to_owned());
        stored.metadata.uid = Some("u".to_owned());
        stored.spec.storage_location = "theirs".to_owned();
        stored.spec.hooks.resources.push(Default::default());
        stored.metadata.finalizers = Some(vec!["example.com/never".to_owned()]);
        let notes = OF_THE_SERVER.iter().chain(&["example.com/a", annotations::RETRY_OF]);
        stored.metadata.annotations = Some(notes.map(|key| ((*key).to_owned(), "x".to_owned())).collect());
        let arrived = localised(stored, "velero", "ours", BackupPhase::Completed);
        assert_eq!(arrived.metadata.namespace.as_deref(), Some("velero"));
        assert_eq!((arrived.metadata.resource_version.clone(), arrived.metadata.uid.clone()), (None, None));
        assert_eq!(arrived.spec.storage_location, "ours");
        assert_eq!(velero_api::metadata::label(&arrived, labels::STORAGE_LOCATION), "ours");
        assert!(arrived.spec.hooks.resources.is_empty());
        assert_eq!(arrived.metadata.finalizers, None);
        let kept: Vec<_> = arrived.metadata.annotations.iter().flatten().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            kept,
            ["example.com/a", annotations::RETRY_OF],
            "a debt that somebody wrote into the bucket is none"
        );
        assert_eq!(*arrived.status.phase(), BackupPhase::Completed);
    }
}

//! Completes a restore and judges it: what was asked for, what the server adds, what cannot be done.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio_util::sync::CancellationToken;
use velero_api::annotations::ASKED_FIELDS;
use velero_api::metadata::name;
use velero_api::records::BackupVolumeInfo;
use velero_api::v1::{Backup, BackupStorageLocation, Restore, RestorePhase};
use velero_cluster::{Cluster, Discovery};
use velero_engine::recorder::Recorded;
use velero_engine::restore::RestoreRequest;
use velero_engine::volumes::CopyMeans;
use velero_plugin::Actions;
use velero_rules::asked::asked_fields;
use velero_rules::resource_modifiers::ResourceModifiers;
use velero_rules::resource_policies::ResourcePolicies;
use velero_rules::restore_validation::{
    RestoreFacts, RestoreSource, complete_and_validate_restore, newest_completed_backup,
};
use velero_rules::resume::Relative;
use velero_rules::validation::StorageLocationFacts;

use crate::lifecycle::phase::move_to;
use crate::restore::facts::{self, Facts};
use crate::runtime::error::{Error, Result};
use crate::runtime::objects::Objects;
use crate::runtime::plugins::built_in;
use crate::runtime::settings::Settings;

/// A restore with all it needs, or what is wrong with it.
#[derive(Clone, Debug)]
pub struct PreparedRestore {
    /// The restore, its defaults filled in.
    pub restore: Restore,
    /// Why it cannot be carried out; empty when it can.
    pub problems: Vec<String>,
    /// The backup it comes from, if there is one.
    pub backup: Option<Backup>,
    /// The location of that backup, if there is one.
    pub location: Option<BackupStorageLocation>,
    modifiers: Option<ResourceModifiers>,
    policies: Option<ResourcePolicies>,
    /// The restores that it goes on with.
    resumes: Vec<Relative>,
    /// What was asked for otherwise than it was completed, as the annotation has it.
    asked: Option<String>,
}

/// Completes a restore and says what is wrong with it, from what the cluster holds now. Nothing is written.
pub async fn prepare_restore(cluster: &Cluster, settings: &Settings, restore: &Restore) -> Result<PreparedRestore> {
    let objects = Objects::new(cluster.clone(), &settings.namespace);
    let facts = facts::gather(&objects, settings, restore).await?;
    Ok(prepare(restore, settings, facts))
}

fn prepare(asked: &Restore, settings: &Settings, facts: Facts) -> PreparedRestore {
    let mut restore = asked.clone();
    let newest = newest_completed_backup(&facts.of_schedule);
    let backup = facts.backup.as_ref().or(newest);
    let location = backup.and_then(|backup| location_of(backup, &facts));
    let found = RestoreFacts {
        namespace: &settings.namespace,
        source: source(&restore, &facts, backup, location),
        modifiers: facts.modifiers.as_ref().map(Option::as_ref).map_err(Clone::clone),
        policies: facts.policies.as_ref().map(Option::as_ref).map_err(Clone::clone),
    };
    let mut problems = complete_and_validate_restore(&mut restore.spec, &found);
    problems.extend(facts.resumption.as_ref().and_then(|resumption| resumption.problem(&restore, backup)));
    let spec = &mut restore.spec;
    spec.item_operation_timeout = spec.item_operation_timeout.or(settings.default_item_operation_timeout);
    PreparedRestore {
        asked: asked_fields(&asked.spec, &restore.spec),
        restore,
        problems,
        backup: backup.cloned(),
        location: location.cloned(),
        resumes: facts.resumption.map(|resumption| resumption.family).unwrap_or_default(),
        modifiers: facts.modifiers.ok().flatten(),
        policies: facts.policies.ok().flatten(),
    }
}

fn location_of<'a>(backup: &Backup, facts: &'a Facts) -> Option<&'a BackupStorageLocation> {
    facts.locations.iter().find(|location| name(*location) == backup.spec.storage_location)
}

/// What is known of the backup, as the validation wants to hear it.
fn source<'a>(
    restore: &Restore,
    facts: &Facts,
    backup: Option<&'a Backup>,
    location: Option<&BackupStorageLocation>,
) -> RestoreSource<'a> {
    let spec = &restore.spec;
    match backup {
        _ if spec.backup_name.is_empty() == spec.schedule_name.is_empty() => RestoreSource::NotNamed,
        Some(backup) => RestoreSource::Found { backup, location: location_facts(backup, location) },
        None if spec.backup_name.is_empty() => {
            RestoreSource::NothingOfSchedule { has_backups: !facts.of_schedule.is_empty() }
        }
        None => RestoreSource::NotFound { error: format!("backups.velero.io {:?} not found", spec.backup_name) },
    }
}

fn location_facts(backup: &Backup, location: Option<&BackupStorageLocation>) -> StorageLocationFacts {
    match location {
        Some(location) => {
            StorageLocationFacts::Found { read_only: location.is_read_only(), available: location.is_available() }
        }
        None => StorageLocationFacts::NotFound {
            chosen_by_server: false,
            error: format!("backupstoragelocations.velero.io {:?} not found", backup.spec.storage_location),
        },
    }
}

/// Moves a prepared restore to InProgress or FailedValidation.
pub(super) fn judge(prepared: &mut PreparedRestore, now: Timestamp) -> Result<()> {
    let restore = &mut prepared.restore;
    if prepared.problems.is_empty() {
        move_to(restore, RestorePhase::InProgress)?;
        restore.status.start_timestamp = Some(Time(now));
        let asked = prepared.asked.clone().map(|asked| (ASKED_FIELDS.to_owned(), asked));
        restore.metadata.annotations.get_or_insert_default().extend(asked);
    } else {
        move_to(restore, RestorePhase::FailedValidation)?;
    }
    restore.status.validation_errors.clone_from(&prepared.problems);
    Ok(())
}

impl PreparedRestore {
    /// What the engine restores, or shows, with the actions that are built in. `volumes` is what the backup's volume
    /// info file says.
    pub async fn request(
        self,
        cluster: &Cluster,
        settings: &Settings,
        volumes: Vec<BackupVolumeInfo>,
    ) -> Result<RestoreRequest> {
        let discovery = Arc::new(cluster.discover().await?);
        let actions = built_in(cluster, &discovery, settings, &Arc::default(), true)?;
        self.request_with(cluster, settings, volumes, actions, discovery).await
    }

    /// The same with actions that are not built in too, and what the cluster serves.
    pub(crate) async fn request_with(
        self,
        cluster: &Cluster,
        settings: &Settings,
        volumes: Vec<BackupVolumeInfo>,
        actions: Actions,
        discovery: Arc<Discovery>,
    ) -> Result<RestoreRequest> {
        let objects = Objects::new(cluster.clone(), &settings.namespace);
        let missing = || Error::invalid("Restore", name(&self.restore), "it names no backup that exists");
        Ok(RestoreRequest {
            backup: self.backup.ok_or_else(missing)?,
            actions,
            restore: self.restore,
            cluster: cluster.clone(),
            discovery,
            modifiers: self.modifiers,
            policies: self.policies,
            volumes,
            snapshots: Vec::new(),
            operations: Recorded::default(),
            features: settings.features.clone(),
            priorities: settings.priorities()?,
            version_priorities: facts::version_priorities(&objects, &settings.features).await?,
            resource_timeout: settings.patience.resource_timeout.to_std(),
            terminating_timeout: settings.terminating_resource_timeout.to_std(),
            limits: settings.archive_limits(),
            scratch: settings.scratch_folder(),
            copy_means: CopyMeans { timeout: settings.fs_backup_timeout.to_std(), repositories: None },
            resumes: self.resumes,
            halt: CancellationToken::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use velero_api::GoDuration;
    use velero_api::metadata::annotation;
    use velero_api::v1::{BackupPhase, BackupStorageLocationPhase};

    use super::*;

    fn backup(name: &str, phase: BackupPhase, second: i64) -> Backup {
        let mut backup = Backup::new("velero", name, Default::default());
        backup.spec.storage_location = "main".to_owned();
        backup.status.phase = Some(phase);
        backup.status.start_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
        backup
    }

    fn facts(backup: Option<Backup>, of_schedule: Vec<Backup>) -> Facts {
        let mut location = BackupStorageLocation::new("velero", "main", Default::default());
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        Facts {
            of_schedule,
            backup,
            locations: vec![location],
            modifiers: Ok(None),
            policies: Ok(None),
            resumption: None,
        }
    }

    fn judged(backup_name: &str, schedule: &str, facts: Facts) -> PreparedRestore {
        let mut restore = Restore::new("velero", "r", Default::default());
        restore.spec.backup_name = backup_name.to_owned();
        restore.spec.schedule_name = schedule.to_owned();
        let mut prepared = prepare(&restore, &Settings::default(), facts);
        judge(&mut prepared, Timestamp::UNIX_EPOCH).unwrap();
        prepared
    }

    #[test]
    fn what_a_restore_leaves_open_comes_from_the_server() {
        let prepared = judged("b", "", facts(Some(backup("b", BackupPhase::Completed, 0)), Vec::new()));
        let restore = prepared.restore;
        assert_eq!(*restore.status.phase(), RestorePhase::InProgress, "{:?}", restore.status);
        assert_eq!(restore.status.start_timestamp, Some(Time(Timestamp::UNIX_EPOCH)));
        assert_eq!(restore.spec.item_operation_timeout, GoDuration::from_hours(4));
        assert!(restore.spec.excluded_resources.iter().any(|excluded| excluded == "nodes"));
        let asked = annotation(&restore, ASKED_FIELDS);
        assert_eq!(asked, "{\"excludedResources\":null,\"itemOperationTimeout\":\"0s\"}", "what was asked for is kept");
        assert_eq!(prepared.location.map(|location| name(&location).to_owned()), Some("main".to_owned()));
    }

    #[test]
    fn a_schedule_stands_for_its_newest_completed_backup() {
        use BackupPhase::{Completed, Failed};
        let backups = vec![backup("a", Completed, 1), backup("b", Completed, 2), backup("c", Failed, 3)];
        let prepared = judged("", "daily", facts(None, backups));
        assert_eq!(prepared.restore.spec.backup_name, "b");
        let none = judged("", "daily", facts(None, vec![backup("c", Failed, 3)]));
        assert_eq!(none.restore.status.validation_errors, ["No completed backups found for schedule"]);
    }

    #[test]
    fn a_backup_that_cannot_be_restored_refuses_the_restore() {
        let running = facts(Some(backup("b", BackupPhase::InProgress, 0)), Vec::new());
        let mut homeless = facts(Some(backup("b", BackupPhase::Completed, 0)), Vec::new());
        homeless.locations.clear();
        for (facts, expected) in [
            (facts(None, Vec::new()), "can't find backup velero/b"),
            (running, "InProgress"),
            (homeless, "backupstoragelocations.velero.io \"main\" not found"),
        ] {
            let status = judged("b", "", facts).restore.status;
            assert_eq!(*status.phase(), RestorePhase::FailedValidation);
            assert!(status.validation_errors[0].contains(expected), "{:?}", status.validation_errors);
            assert!(status.start_timestamp.is_none());
        }
    }
}

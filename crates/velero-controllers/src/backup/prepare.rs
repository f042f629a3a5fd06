//! Completes a backup and judges it: what was asked for, what the server adds, what cannot be done.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::metadata::name;
use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation};
use velero_api::{GoDuration, annotations, labels};
use velero_archive::layout::FORMAT_VERSION;
use velero_rules::Unusable;
use velero_rules::resource_policies::ResourcePolicies;
use velero_rules::validation::{
    BackupFacts, SnapshotLocation, StorageLocationFacts, choose_snapshot_locations, complete_and_validate,
};

use crate::lifecycle::phase::move_to;
use crate::runtime::clock;
use crate::runtime::error::Result;
use crate::runtime::settings::Settings;

/// How long to wait for a CSI snapshot; there is no flag for it.
const CSI_SNAPSHOT_TIMEOUT: GoDuration = GoDuration::from_mins(10);

/// What is known of the cluster when a backup is prepared.
pub(super) struct Facts {
    /// All locations.
    pub(super) locations: Vec<BackupStorageLocation>,
    /// All snapshot locations.
    pub(super) snapshot_locations: Vec<SnapshotLocation>,
    /// The snapshot locations whose credentials cannot be read, and why.
    pub(super) credential_problems: BTreeMap<String, String>,
    /// The namespaces that a label leaves out.
    pub(super) namespaces_labelled_out: Vec<String>,
    /// The policies of the backup, or why they cannot be used.
    pub(super) policies: Result<Option<ResourcePolicies>, Unusable>,
    /// The version of the API server: full, major and minor.
    pub(super) server_version: [String; 3],
    /// What tells the cluster from others; empty where that cannot be seen.
    pub(super) cluster: String,
}

/// A backup that may run, or not.
pub(super) struct Prepared {
    /// The backup, InProgress or FailedValidation.
    pub(super) backup: Backup,
    /// Where it goes.
    pub(super) location: Option<BackupStorageLocation>,
}

/// Completes a backup and moves it to InProgress or FailedValidation.
pub(super) fn prepare(backup: &Backup, settings: &Settings, facts: &Facts, now: Timestamp) -> Result<Prepared> {
    let mut backup = backup.clone();
    let chosen_by_server = backup.spec.storage_location.is_empty();
    complete(&mut backup, settings, facts, now);
    let location = facts.locations.iter().find(|location| name(*location) == backup.spec.storage_location);
    let storage_location = match location {
        Some(location) => {
            StorageLocationFacts::Found { read_only: location.is_read_only(), available: location.is_available() }
        }
        None => StorageLocationFacts::NotFound {
            chosen_by_server,
            error: format!("backupstoragelocations.velero.io {:?} not found", backup.spec.storage_location),
        },
    };
    let requested = &backup.spec.volume_snapshot_locations;
    let mut problems = Vec::new();
    match choose_snapshot_locations(requested, &facts.snapshot_locations, &settings.snapshot_locations()) {
        Ok(chosen) => {
            problems.extend(chosen.iter().filter_map(|location| {
                let problem = facts.credential_problems.get(location)?;
                Some(format!("error adding credentials to volume snapshot location named {location}: {problem}"))
            }));
            backup.spec.volume_snapshot_locations = chosen;
        }
        Err(found) => problems = found,
    }
    let backup_facts = BackupFacts {
        storage_location,
        namespaces_labelled_out: &facts.namespaces_labelled_out,
        policies: facts.policies.as_ref().map(Option::as_ref).map_err(Clone::clone),
    };
    let mut found = complete_and_validate(&mut backup.spec, &backup_facts);
    found.append(&mut problems);
    if found.is_empty() {
        move_to(&mut backup, BackupPhase::InProgress)?;
        backup.status.start_timestamp = Some(Time(now));
    } else {
        move_to(&mut backup, BackupPhase::FailedValidation)?;
    }
    backup.status.validation_errors = found;
    Ok(Prepared { location: location.cloned(), backup })
}

/// Fills in what the backup leaves to the server.
fn complete(backup: &mut Backup, settings: &Settings, facts: &Facts, now: Timestamp) {
    let (spec, status) = (&mut backup.spec, &mut backup.status);
    spec.ttl = spec.ttl.or(settings.default_backup_ttl);
    spec.csi_snapshot_timeout = spec.csi_snapshot_timeout.or(CSI_SNAPSHOT_TIMEOUT);
    spec.item_operation_timeout = spec.item_operation_timeout.or(settings.default_item_operation_timeout);
    if spec.volume_group_snapshot_label_key.is_empty() {
        spec.volume_group_snapshot_label_key.clone_from(&settings.volume_group_snapshot_label_key);
    }
    if spec.default_volumes_to_restic == Some(true) {
        spec.default_volumes_to_fs_backup = Some(true);
    }
    spec.default_volumes_to_fs_backup.get_or_insert(settings.default_volumes_to_fs_backup);
    spec.snapshot_move_data.get_or_insert(settings.default_snapshot_move_data);
    if spec.storage_location.is_empty() {
        let default = facts.locations.iter().find(|location| location.spec.default);
        spec.storage_location = default.map_or(settings.default_backup_storage_location.as_str(), name).to_owned();
    }
    status.version = 1;
    status.format_version = FORMAT_VERSION.to_owned();
    status.expiration = Some(Time(clock::after(now, spec.ttl)));
    let metadata = &mut backup.metadata;
    let mark = (labels::STORAGE_LOCATION.to_owned(), labels::valid_value(&backup.spec.storage_location));
    metadata.labels.get_or_insert_default().extend([mark]);
    let [full, major, minor] = facts.server_version.clone();
    let notes = [
        (annotations::SOURCE_CLUSTER_GIT_VERSION, full),
        (annotations::SOURCE_CLUSTER_MAJOR_VERSION, major),
        (annotations::SOURCE_CLUSTER_MINOR_VERSION, minor),
        (annotations::RESOURCE_TIMEOUT, settings.patience.resource_timeout.to_string()),
    ];
    let noted = metadata.annotations.get_or_insert_default();
    noted.extend(notes.map(|(key, value)| (key.to_owned(), value)));
    // One that came along with the description of another cluster's backup would lie.
    match facts.cluster.as_str() {
        "" => noted.remove(annotations::SOURCE_CLUSTER_UID),
        cluster => noted.insert(annotations::SOURCE_CLUSTER_UID.to_owned(), cluster.to_owned()),
    };
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{BackupStorageLocationAccessMode, BackupStorageLocationPhase};

    use super::*;

    fn location(name: &str, default: bool) -> BackupStorageLocation {
        let mut location = BackupStorageLocation::new("velero", name, Default::default());
        location.spec.default = default;
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        location
    }

    fn facts(locations: Vec<BackupStorageLocation>) -> Facts {
        Facts {
            locations,
            snapshot_locations: Vec::new(),
            credential_problems: BTreeMap::new(),
            namespaces_labelled_out: vec!["private".to_owned()],
            policies: Ok(None),
            server_version: ["v1.35.4", "1", "35"].map(str::to_owned),
            cluster: "cluster-1".to_owned(),
        }
    }

    fn ready() -> Backup {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.status.phase = Some(BackupPhase::ReadyToStart);
        backup
    }

    fn run(backup: &Backup, facts: &Facts) -> Backup {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        prepare(backup, &Settings::default(), facts, now).unwrap().backup
    }

    #[test]
    fn what_a_backup_leaves_open_comes_from_the_server() {
        let backup = run(&ready(), &facts(vec![location("other", false), location("main", true)]));
        assert_eq!(*backup.status.phase(), BackupPhase::InProgress, "{:?}", backup.status);
        assert_eq!(backup.spec.storage_location, "main");
        assert_eq!(backup.spec.ttl, GoDuration::from_hours(720));
        assert_eq!(backup.spec.item_operation_timeout, GoDuration::from_hours(4));
        assert_eq!(backup.spec.snapshot_move_data, Some(false));
        assert_eq!(backup.spec.excluded_namespaces, ["private"]);
        assert_eq!(backup.spec.included_namespaces, ["*"]);
        assert_eq!(backup.status.expiration.unwrap().0.to_string(), "2026-01-31T00:00:00Z");
        assert_eq!(backup.metadata.labels.unwrap()[labels::STORAGE_LOCATION], "main");
        assert_eq!(backup.metadata.annotations.unwrap()[annotations::RESOURCE_TIMEOUT], "10m0s");
    }

    #[test]
    fn a_backup_says_which_cluster_made_it_and_never_another() {
        let copied = || {
            let note = (annotations::SOURCE_CLUSTER_UID.to_owned(), "cluster-2".to_owned());
            let mut backup = ready();
            backup.metadata.annotations = Some([note].into());
            backup
        };
        let facts = facts(vec![location("main", true)]);
        let noted = |facts: &Facts| run(&copied(), facts).metadata.annotations.unwrap_or_default();
        assert_eq!(noted(&facts)[annotations::SOURCE_CLUSTER_UID], "cluster-1");
        let unseen = Facts { cluster: String::new(), ..facts };
        assert_eq!(noted(&unseen).get(annotations::SOURCE_CLUSTER_UID), None);
    }

    #[test]
    fn a_location_that_cannot_be_written_refuses_the_backup() {
        let mut read_only = location("main", true);
        read_only.spec.access_mode = Some(BackupStorageLocationAccessMode::ReadOnly);
        let mut unavailable = location("main", true);
        unavailable.status.phase = Some(BackupStorageLocationPhase::Unavailable);
        for (locations, expected) in [
            (vec![read_only], "read-only"),
            (vec![unavailable], "Unavailable"),
            (vec![], "the server default default does not exist"),
        ] {
            let backup = run(&ready(), &facts(locations));
            assert_eq!(*backup.status.phase(), BackupPhase::FailedValidation);
            assert!(backup.status.validation_errors[0].contains(expected), "{:?}", backup.status.validation_errors);
            assert!(backup.status.start_timestamp.is_none());
        }
    }

    #[test]
    fn filters_that_contradict_each_other_and_broken_policies_are_refused() {
        let mut mixed = ready();
        mixed.spec.included_resources = vec!["pods".to_owned()];
        mixed.spec.included_namespace_scoped_resources = vec!["pods".to_owned()];
        let backup = run(&mixed, &facts(vec![location("main", true)]));
        assert!(backup.status.validation_errors[0].contains("cannot be used together"));
        let mut broken = facts(vec![location("main", true)]);
        broken.policies = Err(Unusable("no such configmap".to_owned()));
        let backup = run(&ready(), &broken);
        assert_eq!(backup.status.validation_errors, ["invalid resource policies: no such configmap"]);
    }
}

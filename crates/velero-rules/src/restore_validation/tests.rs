use super::*;
use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use serde_json::json;
use velero_api::v1::{BackupSpec, BackupStatus};

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&item| item.to_owned()).collect()
}

fn backup(name: &str, phase: BackupPhase) -> Backup {
    let mut backup = Backup::default();
    backup.metadata.name = Some(name.to_owned());
    backup.spec = BackupSpec { storage_location: "default".into(), ..Default::default() };
    backup.status = BackupStatus { phase: Some(phase), ..Default::default() };
    backup
}

const AVAILABLE: StorageLocationFacts = StorageLocationFacts::Found { read_only: true, available: true };

fn facts(backup: &Backup) -> RestoreFacts<'_> {
    let source = RestoreSource::Found { backup, location: AVAILABLE };
    RestoreFacts { namespace: "velero", source, modifiers: Ok(None), policies: Ok(None) }
}

fn of_backup(name: &str) -> RestoreSpec {
    RestoreSpec { backup_name: name.to_owned(), ..Default::default() }
}

#[test]
fn a_plain_restore_is_valid_and_leaves_out_what_is_never_restored() {
    let backup = backup("nightly", BackupPhase::Completed);
    let mut spec = RestoreSpec { excluded_resources: strings(&["nodes", "pods"]), ..of_backup("nightly") };
    assert!(complete_and_validate_restore(&mut spec, &facts(&backup)).is_empty());
    assert_eq!(spec.excluded_resources.len(), NON_RESTORABLE_RESOURCES.len() + 1);
    assert_eq!(spec.excluded_resources[..3], strings(&["nodes", "pods", "events"]));
    assert_eq!(spec.schedule_name, "");
}

#[test]
fn the_schedule_of_a_backup_and_the_backup_of_a_schedule_are_filled_in() {
    let mut backup = backup("nightly-1", BackupPhase::PartiallyFailed);
    backup.metadata.labels = Some([(labels::SCHEDULE_NAME.to_owned(), "nightly".to_owned())].into());
    let mut named = of_backup("nightly-1");
    assert!(complete_and_validate_restore(&mut named, &facts(&backup)).is_empty());
    assert_eq!(named.schedule_name, "nightly");
    let mut scheduled = RestoreSpec { schedule_name: "nightly".into(), ..Default::default() };
    assert!(complete_and_validate_restore(&mut scheduled, &facts(&backup)).is_empty());
    assert_eq!(scheduled.backup_name, "nightly-1");
}

#[test]
fn each_field_is_reported_with_its_prefix() {
    let backup = backup("b", BackupPhase::Completed);
    let mut spec = RestoreSpec {
        included_resources: strings(&["nodes"]),
        included_namespaces: strings(&["a", "*"]),
        excluded_namespaces: strings(&["b("]),
        label_selector: Some(LabelSelector::default()),
        or_label_selectors: vec![LabelSelector::default()],
        existing_resource_policy: Some("replace".into()),
        ..of_backup("b")
    };
    assert_eq!(
        complete_and_validate_restore(&mut spec, &facts(&backup)),
        [
            "nodes are non-restorable resources",
            "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: nodes",
            "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
            "Invalid included/excluded namespace lists: wildcard pattern contains unsupported characters: |, (, ), !, {, }, ,",
            "encountered labelSelector as well as orLabelSelectors in restore spec, only one can be specified",
            "Invalid ExistingResourcePolicy: replace",
        ]
    );
    for policy in ["", "none", "update"] {
        let mut spec = RestoreSpec { existing_resource_policy: Some(policy.into()), ..of_backup("b") };
        assert!(complete_and_validate_restore(&mut spec, &facts(&backup)).is_empty(), "{policy:?}");
    }
}

#[test]
fn exactly_one_of_backup_and_schedule_is_named() {
    let backup = backup("b", BackupPhase::Completed);
    let message = "Either a backup or schedule must be specified as a source for the restore, but not both";
    for (backup_name, schedule_name) in [("", ""), ("b", "nightly")] {
        let (backup_name, schedule_name) = (backup_name.to_owned(), schedule_name.to_owned());
        let mut spec = RestoreSpec { backup_name, schedule_name, ..Default::default() };
        let facts = RestoreFacts { source: RestoreSource::NotNamed, ..facts(&backup) };
        assert_eq!(complete_and_validate_restore(&mut spec, &facts), [message]);
    }
}

#[test]
fn only_a_backup_that_reached_its_end_can_be_restored() {
    for phase in BackupPhase::ALL {
        let backup = backup("b", phase.clone());
        let problems = complete_and_validate_restore(&mut of_backup("b"), &facts(&backup));
        match phase {
            BackupPhase::Completed | BackupPhase::PartiallyFailed => assert!(problems.is_empty(), "{phase}"),
            BackupPhase::Failed | BackupPhase::FailedValidation | BackupPhase::Deleting => assert_eq!(
                problems,
                [format!(
                    "backup velero/b cannot be restored because its phase is {phase}: restore from a backup that is \
                     Completed or PartiallyFailed"
                )]
            ),
            _ => assert_eq!(
                problems,
                [format!(
                    "backup velero/b cannot be restored because its phase is {phase}: create the restore again when \
                     the backup is Completed or PartiallyFailed"
                )]
            ),
        }
    }
}

#[test]
fn the_source_must_be_there_and_reachable() {
    let backup = backup("b", BackupPhase::Completed);
    let with = |location| RestoreSource::Found { backup: &backup, location };
    let table: [(RestoreSource<'_>, &[&str]); 7] = [
        (
            RestoreSource::NotFound { error: "backups.velero.io \"b\" not found".into() },
            &["Error retrieving backup: can't find backup velero/b: backups.velero.io \"b\" not found"],
        ),
        (RestoreSource::ScheduleNotListed, &["Unable to list backups for schedule"]),
        (
            RestoreSource::NothingOfSchedule { has_backups: false },
            &["No backups found for schedule", "No completed backups found for schedule"],
        ),
        (RestoreSource::NothingOfSchedule { has_backups: true }, &["No completed backups found for schedule"]),
        (
            with(StorageLocationFacts::Found { read_only: false, available: false }),
            &["The BSL default is unavailable, cannot retrieve the backup"],
        ),
        (
            with(StorageLocationFacts::NotFound { chosen_by_server: false, error: "gone".into() }),
            &["Error retrieving backup: gone"],
        ),
        (with(StorageLocationFacts::Unreadable { error: "forbidden".into() }), &["Error retrieving backup: forbidden"]),
    ];
    for (source, messages) in table {
        let facts = RestoreFacts { source, ..facts(&backup) };
        assert_eq!(complete_and_validate_restore(&mut of_backup("b"), &facts), messages);
    }
}

#[test]
fn init_containers_of_hooks_need_name_image_and_command() {
    let backup = backup("b", BackupPhase::Completed);
    let whole = json!({"name": "n", "image": "i", "command": ["c"]});
    let mut without = vec![json!("text")];
    for field in ["name", "image", "command"] {
        let mut container = whole.clone();
        container.as_object_mut().unwrap().remove(field);
        without.push(container);
    }
    let hooks = |container| {
        let hook =
            json!({"resources": [{"name": "prepare", "postHooks": [{"init": {"initContainers": [container]}}]}]});
        RestoreSpec { hooks: serde_json::from_value(hook).unwrap(), ..of_backup("b") }
    };
    assert!(complete_and_validate_restore(&mut hooks(whole), &facts(&backup)).is_empty());
    for container in without {
        let problems = complete_and_validate_restore(&mut hooks(container.clone()), &facts(&backup));
        let message = "invalid init container in restore hook \"prepare\": invalid InitContainer in restore hook, it \
                       doesn't have Command, Name or Image field";
        assert_eq!(problems, [message], "{container}");
    }
}

#[test]
fn a_hook_selector_that_cannot_be_used_is_reported() {
    let backup = backup("b", BackupPhase::Completed);
    let hooks = json!({"resources": [{"name": "n", "labelSelector": {"matchLabels": {"a b": "c"}}}]});
    let mut spec = RestoreSpec { hooks: serde_json::from_value(hooks).unwrap(), ..of_backup("b") };
    let problems = complete_and_validate_restore(&mut spec, &facts(&backup));
    assert!(problems[0].starts_with("invalid restore hooks: label selector key \"a b\""), "{problems:?}");
}

#[test]
fn modifiers_and_policies_that_cannot_be_used_are_reported() {
    let backup = backup("b", BackupPhase::Completed);
    let unusable = RestoreFacts {
        modifiers: Err(Unusable("failed to get resource modifiers configmap velero/m".into())),
        policies: Err(Unusable("no such ConfigMap".into())),
        ..facts(&backup)
    };
    assert_eq!(
        complete_and_validate_restore(&mut of_backup("b"), &unusable),
        ["invalid restore resource policies: no such ConfigMap", "failed to get resource modifiers configmap velero/m",]
    );
    let policies = ResourcePolicies::parse("version: v1\nincludeExcludePolicy: {}").unwrap();
    let facts_with = RestoreFacts { policies: Ok(Some(&policies)), ..facts(&backup) };
    let message = "invalid restore resource policies: includeExcludePolicy is not supported for restore";
    assert_eq!(complete_and_validate_restore(&mut of_backup("b"), &facts_with), [message]);

    let reference = TypedLocalObjectReference { kind: "secret".into(), name: "m".into(), ..Default::default() };
    let mut spec =
        RestoreSpec { resource_policy: Some(reference.clone()), resource_modifier: Some(reference), ..of_backup("b") };
    assert_eq!(
        complete_and_validate_restore(&mut spec, &facts(&backup)),
        [
            "invalid restore resource policies: invalid ResourcePolicy kind \"secret\", only \"configmap\" is supported",
            "invalid ResourceModifier kind \"secret\", only \"configmap\" is supported",
        ]
    );
}

#[test]
fn a_schedule_is_restored_from_its_newest_completed_backup() {
    let started = |name, phase, time: &str| {
        let mut backup = backup(name, phase);
        backup.status.start_timestamp = Some(Time(time.parse().unwrap()));
        backup
    };
    let backups = [
        started("old", BackupPhase::Completed, "2026-01-01T00:00:00Z"),
        started("new", BackupPhase::Completed, "2026-01-03T00:00:00Z"),
        backup("never-started", BackupPhase::Completed),
        started("newest-but-partial", BackupPhase::PartiallyFailed, "2026-01-04T00:00:00Z"),
    ];
    let chosen = newest_completed_backup(&backups).and_then(|backup| backup.metadata.name.as_deref());
    assert_eq!(chosen, Some("new"));
    assert!(newest_completed_backup(&backups[3..]).is_none());
}

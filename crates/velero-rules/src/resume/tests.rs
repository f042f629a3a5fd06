use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use velero_api::annotations::{ASKED_FIELDS, CANCEL_REQUESTED, HOLDER_IDENTITY, POD_VOLUME_TIMEOUT, RESUME_OF};
use velero_api::v1::{Backup, BackupPhase, HookStatus, Restore, RestorePhase, RestoreSpec};
use velero_api::{dry_run, metadata};

use super::*;

fn restore(name: &str, resume_of: &str, phase: RestorePhase) -> Restore {
    let mut restore = Restore::new("velero", name, RestoreSpec { backup_name: "b".to_owned(), ..Default::default() });
    restore.metadata.uid = Some(format!("uid-of-{name}"));
    restore.status.phase = Some(phase);
    if !resume_of.is_empty() {
        restore.metadata.annotations = Some([(RESUME_OF.to_owned(), resume_of.to_owned())].into());
    }
    restore
}

fn relatives(all: &[(&str, &str, RestorePhase)]) -> Vec<Relative> {
    all.iter().map(|(name, resume_of, phase)| Relative::from(&restore(name, resume_of, phase.clone()))).collect()
}

#[test]
fn what_resumes_a_restore_asks_for_the_same_of_the_same_backup_and_says_whom_it_resumes() {
    let mut first = restore("r", "", RestorePhase::Failed);
    (first.spec.backup_name, first.spec.schedule_name) = ("daily-1".to_owned(), "daily".to_owned());
    let notes = [
        (ASKED_FIELDS, "{\"backupName\":null,\"itemOperationTimeout\":null}"),
        (CANCEL_REQUESTED, "true"),
        (HOLDER_IDENTITY, "me"),
        (POD_VOLUME_TIMEOUT, "2h"),
    ];
    first.metadata.annotations = Some(notes.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    first.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
    let next = resuming(&first, "r-resume-1").unwrap();
    assert_eq!((next.spec.backup_name.as_str(), next.spec.schedule_name.as_str()), ("daily-1", ""));
    let expected =
        [(POD_VOLUME_TIMEOUT, "2h"), (RESUME_OF, "r")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(next.metadata.annotations, Some(expected.into()));
    assert_eq!((metadata::name(&next), metadata::label(&next, "team")), ("r-resume-1", "a"));
    assert_eq!(next.status, Default::default());
    for broken in ["{", "[]", "{\"excludedResources\":7}"] {
        first.metadata.annotations = Some([(ASKED_FIELDS.to_owned(), broken.to_owned())].into());
        let problem = resuming(&first, "r-resume-1").unwrap_err().to_string();
        assert!(problem.contains(ASKED_FIELDS) && problem.contains("kubectl annotate"), "{problem}");
    }
}

#[test]
fn names_count_on_from_the_first_restore() {
    for (name, resume_of, taken, expected) in [
        ("r", "", vec![], "r-resume-1"),
        ("r", "", vec!["r-resume-1", "r-resume-2"], "r-resume-3"),
        ("r-resume-1", "r", vec!["r-resume-1"], "r-resume-2"),
        ("r-resume-1", "", vec!["r-resume-1"], "r-resume-1-resume-1"),
        ("mine", "r", vec![], "mine-resume-1"),
    ] {
        let resumed = restore(name, resume_of, RestorePhase::Failed);
        assert_eq!(resume_name(&resumed, |name| taken.contains(&name)), expected, "{name} {resume_of}");
    }
    let long = restore(&format!("{}.bcdefghij", "a".repeat(243)), "", RestorePhase::Failed);
    assert_eq!(resume_name(&long, |_| false), format!("{}-resume-1", "a".repeat(243)));
}

#[test]
fn a_family_is_all_that_resume_each_other_also_through_those_that_are_gone() {
    use RestorePhase::{Failed, PartiallyFailed};
    let all = relatives(&[
        ("r-resume-1", "r", Failed),
        ("r-resume-2", "r", PartiallyFailed),
        ("other", "", Failed),
        ("other-resume-1", "other", Failed),
        ("own", "r-resume-1", RestorePhase::New),
        ("of-own", "own", Failed),
    ]);
    let names = |family: Vec<Relative>| family.into_iter().map(|relative| relative.name).collect::<Vec<_>>();
    assert_eq!(names(family("r-resume-1", "own", &all)), ["r-resume-1", "r", "r-resume-2"]);
    let gone = family("r-resume-1", "own", &all).remove(1);
    assert_eq!((gone.uid.as_str(), gone.phase, gone.has_run_hooks), ("", None, false));
    assert_eq!(names(family("other", "own", &all)), ["other", "other-resume-1"]);
    let circle = relatives(&[("a", "b", Failed), ("b", "a", Failed)]);
    assert_eq!(names(family("a", "own", &circle)), ["a", "b"]);
}

#[test]
fn only_what_ended_without_being_done_is_resumed() {
    use RestorePhase::*;
    for (phase, expected) in [
        (Failed, None),
        (PartiallyFailed, None),
        (Completed, Some("it is Completed")),
        (FailedValidation, Some("it never began")),
        (New, Some("velero restore cancel r")),
        (InProgress, Some("velero restore cancel r")),
        (WaitingForPluginOperations, Some("velero restore cancel r")),
        (FinalizingPartiallyFailed, Some("velero restore cancel r")),
        (Unknown("Odd".to_owned()), Some("phase Odd")),
    ] {
        let found = restore("r", "", phase.clone());
        let facts = Resumed { name: "r", restore: Some(&found), relatives: &[], leaving: &[] };
        let obstacle = restore_obstacle(&facts);
        assert_eq!(obstacle.is_some(), expected.is_some(), "{phase}: {obstacle:?}");
        let (said, expected) = (obstacle.unwrap_or_default(), expected.unwrap_or_default());
        assert!(said.contains(expected), "{phase}: {said}");
    }
    let failed = restore("r", "", Failed);
    let facts = Resumed { name: "r", restore: Some(&failed), relatives: &[], leaving: &[] };
    let says = |facts: Resumed<'_>, piece: &str| {
        let said = restore_obstacle(&facts).unwrap();
        assert!(said.starts_with("restore \"r\" cannot be resumed: ") && said.contains(piece), "{said}");
    };
    says(Resumed { restore: None, ..facts }, "does not exist");
    says(Resumed { leaving: &["shop".to_owned()], ..facts }, "namespace shop, which is being deleted");
    says(
        Resumed { relatives: &relatives(&[("r-resume-1", "r", InProgress)]), ..facts },
        "\"r-resume-1\", which belongs",
    );
    says(
        Resumed { relatives: &relatives(&[("r-resume-1", "r", Completed)]), ..facts },
        "went on with it and is Completed",
    );
    assert_eq!(restore_obstacle(&Resumed { relatives: &relatives(&[("r-resume-1", "r", Failed)]), ..facts }), None);
    let mut leaving = failed.clone();
    leaving.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
    says(Resumed { restore: Some(&leaving), ..facts }, "it is being deleted");
    says(Resumed { restore: Some(&dry_run::ask(&failed, "look")), ..facts }, "restored nothing");
}

#[test]
fn a_backup_that_is_not_there_or_not_the_same_keeps_a_restore_from_being_resumed() {
    let time = |text: &str| Some(Time(text.parse().unwrap()));
    let mut resumed = restore("r", "", RestorePhase::Failed);
    resumed.status.start_timestamp = time("2026-01-02T00:00:00Z");
    let backup = |phase: BackupPhase, begun: &str| {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.status.phase = Some(phase);
        backup.status.start_timestamp = time(begun);
        backup
    };
    let (before, after) = ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z");
    let mut leaving = backup(BackupPhase::Completed, before);
    leaving.metadata.deletion_timestamp = time(after);
    for (backup, expected) in [
        (Some(backup(BackupPhase::Completed, before)), ""),
        (Some(backup(BackupPhase::PartiallyFailed, before)), ""),
        (None, "its backup \"b\" is gone"),
        (Some(leaving), "is being deleted"),
        (Some(backup(BackupPhase::Deleting, before)), "is being deleted"),
        (Some(backup(BackupPhase::Failed, before)), "its phase is Failed"),
        (Some(backup(BackupPhase::Completed, after)), "not the one it came from"),
    ] {
        let said = backup_obstacle(&resumed, backup.as_ref()).unwrap_or_default();
        assert_eq!(said.is_empty(), expected.is_empty(), "{expected}: {said}");
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn hooks_count_as_run_only_where_the_restore_says_so() {
    let mut made = restore("r", "", RestorePhase::PartiallyFailed);
    assert!(!Relative::from(&made).has_run_hooks);
    made.status.hook_status = Some(HookStatus { hooks_attempted: 1, hooks_failed: 1, ..HookStatus::default() });
    assert!(!Relative::from(&made).has_run_hooks);
    made.status.hook_status = Some(HookStatus { hooks_attempted: 1, ..HookStatus::default() });
    assert!(Relative::from(&made).has_run_hooks);
}

fn pod(made_by: &str, waits_for: &str, more: &Value) -> Value {
    let mut pod = json!({"metadata": {"labels": {"velero.io/restore-name": made_by}}, "spec": {}, "status": {"phase": "Pending"}});
    if !waits_for.is_empty() {
        pod["spec"]["initContainers"] = json!([{"name": "restore-wait", "args": [waits_for]}, {"name": "own"}]);
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        for (inner, value) in value.as_object().into_iter().flatten() {
            pod[key][inner] = value.clone();
        }
    }
    pod
}

#[test]
fn a_pod_is_done_waits_or_is_made_again_as_the_table_says() {
    let mut known = relatives(&[("r", "", RestorePhase::Failed)]);
    known.extend(family("gone", "own", &[]));
    let exited = |code: i64| json!([{"name": "restore-wait", "state": {"terminated": {"exitCode": code}}}]);
    let waits = || LeftPod::Waits { restore_uid: "uid-of-r".to_owned() };
    let owner = json!({"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": true}]}});
    let failed = json!({"status": {"phase": "Failed"}});
    for (made_by, waits_for, more, expected) in [
        ("r", "uid-of-r", json!({}), waits()),
        (
            "r",
            "uid-of-r",
            json!({"status": {"initContainerStatuses": [{"name": "restore-wait", "state": {"running": {}}}]}}),
            waits(),
        ),
        ("r", "uid-of-r", json!({"status": {"initContainerStatuses": exited(1)}}), waits()),
        ("r", "uid-of-r", json!({"status": {"initContainerStatuses": exited(0)}}), LeftPod::Done),
        ("r", "uid-of-r", json!({"status": {"phase": "Running"}}), LeftPod::Done),
        ("r", "", json!({}), LeftPod::Done),
        ("r", "uid-of-r", json!({"metadata": {"deletionTimestamp": "x"}}), LeftPod::Leaving),
        ("r", "uid-of-r", failed, LeftPod::Remade),
        ("gone", "uid-of-gone", json!({}), LeftPod::Remade),
        ("r", "uid-of-another", json!({}), LeftPod::Remade),
        ("other", "uid-of-other", json!({}), LeftPod::Foreign),
        ("other", "", json!({}), LeftPod::Foreign),
        ("other", "uid-of-r", json!({"status": {"phase": "Running"}}), LeftPod::Foreign),
        ("r", "uid-of-r", owner.clone(), waits()),
    ] {
        assert_eq!(left_pod(&pod(made_by, waits_for, &more), &known), expected, "{made_by} {waits_for} {more}");
    }
    let LeftPod::Stuck(why) = left_pod(&pod("gone", "uid-of-gone", &owner), &known) else { panic!("it has an owner") };
    assert!(why.contains("ReplicaSet web") && why.contains("is gone"), "{why}");
    let LeftPod::Stuck(why) = left_pod(&pod("other", "uid-of-r", &json!({})), &known) else { panic!("nobody's") };
    assert!(why.contains("velero.io/restore-name"), "{why}");
    assert_eq!(left_pod(&json!({"metadata": {}, "spec": {}}), &known), LeftPod::Foreign);
}

#[test]
fn a_claim_is_made_again_only_if_its_volume_never_comes() {
    use LeftClaim::{Busy, Done, Foreign, Leaving, Remade, Unmarked};
    let known = relatives(&[("r", "", RestorePhase::Failed)]);
    let claim = |made_by: &str, spec: &Value, phase: &str| json!({"metadata": {"labels": {"velero.io/restore-name": made_by}}, "spec": spec, "status": {"phase": phase}});
    let moved = json!({"selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "x"}}});
    let of_snapshot = json!({"dataSource": {"kind": "VolumeSnapshot", "name": "s"}});
    let plain = json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "s"}});
    for (made_by, spec, phase, download, snapshot, expected) in [
        ("r", &moved, "Pending", Some(Download::Failed), Snapshot::There, Remade),
        ("r", &moved, "Pending", Some(Download::Busy), Snapshot::There, Busy),
        ("r", &moved, "Pending", Some(Download::Completed), Snapshot::There, Done),
        ("r", &moved, "Bound", Some(Download::Failed), Snapshot::There, Done),
        ("r", &moved, "Pending", None, Snapshot::There, Remade),
        ("other", &moved, "Pending", Some(Download::Failed), Snapshot::There, Unmarked),
        ("other", &moved, "Pending", None, Snapshot::There, Foreign),
        ("other", &moved, "Bound", Some(Download::Failed), Snapshot::There, Foreign),
        ("r", &of_snapshot, "Pending", Some(Download::Failed), Snapshot::There, Done),
        ("r", &of_snapshot, "Pending", Some(Download::Failed), Snapshot::Gone, Remade),
        ("r", &of_snapshot, "Bound", Some(Download::Failed), Snapshot::Gone, Done),
        ("r", &plain, "Pending", Some(Download::Failed), Snapshot::Gone, Done),
    ] {
        let claim = claim(made_by, spec, phase);
        assert_eq!(left_claim(&claim, &known, download, snapshot), expected, "{claim} {download:?} {snapshot:?}");
    }
    let mut leaving = claim("r", &moved, "Pending");
    leaving["metadata"]["deletionTimestamp"] = "x".into();
    assert_eq!(left_claim(&leaving, &known, Some(Download::Failed), Snapshot::There), Leaving);
}

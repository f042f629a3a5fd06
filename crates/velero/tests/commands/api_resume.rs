//! `velero restore create --resume` without a server: what it makes, and what it refuses.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PostParams};
use serde_json::json;
use velero_api::annotations::{ASKED_FIELDS, CANCEL_REQUESTED, RESUME_OF};
use velero_api::metadata::{annotation, label};
use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase, RestoreSpec};
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test};

use crate::api_tables::install_definitions;
use crate::support::{refused, velero};

fn restores(cluster: &TestCluster) -> Api<Restore> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

async fn made(cluster: &TestCluster, name: &str, backup: &str, phase: RestorePhase, target: &str) -> Restore {
    let spec = RestoreSpec {
        backup_name: backup.to_owned(),
        schedule_name: "daily".to_owned(),
        excluded_resources: vec!["secrets".to_owned(), "nodes".to_owned()],
        namespace_mapping: [("shop".to_owned(), target.to_owned())].into(),
        ..RestoreSpec::default()
    };
    let mut restore = Restore::new(&cluster.namespace, name, spec);
    let notes =
        [(ASKED_FIELDS, "{\"excludedResources\":[\"secrets\"],\"scheduleName\":null}"), (CANCEL_REQUESTED, "true")];
    restore.metadata.annotations = Some(notes.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    restore.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
    restore.status.phase = Some(phase);
    restores(cluster).create(&PostParams::default(), &restore).await.unwrap()
}

async fn backup(cluster: &TestCluster, name: &str, phase: BackupPhase) {
    let mut backup = Backup::new(&cluster.namespace, name, Default::default());
    backup.status.phase = Some(phase);
    let api: Api<Backup> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    api.create(&PostParams::default(), &backup).await.unwrap();
}

#[test]
fn a_restore_is_resumed_as_it_was_asked_for_under_a_name_that_follows() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        backup(&cluster, "b", BackupPhase::Completed).await;
        made(&cluster, "r", "b", RestorePhase::Failed, "copy").await;
        let output = velero(&cluster, &["restore", "create", "--resume", "r", "--labels", "more=b"]);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("\"r-resume-1\" submitted"), "{output:?}");
        let first = restores(&cluster).get("r-resume-1").await.unwrap();
        assert_eq!((first.spec.backup_name.as_str(), first.spec.schedule_name.as_str()), ("b", ""));
        assert_eq!(first.spec.excluded_resources, ["secrets"]);
        assert_eq!(first.spec.namespace_mapping["shop"], "copy");
        assert_eq!((label(&first, "team"), label(&first, "more")), ("a", "b"));
        let notes: Vec<_> = first.metadata.annotations.clone().unwrap().into_iter().collect();
        assert_eq!(notes, [(RESUME_OF.to_owned(), "r".to_owned())]);

        let output = refused(&cluster, &["restore", "create", "--resume", "r"]);
        assert!(output.contains("\"r-resume-1\", which belongs to it, has not ended"), "{output}");
        let ended = Patch::Merge(json!({"status": {"phase": "Failed"}}));
        restores(&cluster).patch("r-resume-1", &Default::default(), &ended).await.unwrap();
        let output = velero(&cluster, &["restore", "create", "--resume", "r-resume-1"]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("\"r-resume-2\" submitted"), "{output:?}");
        assert_eq!(annotation(&restores(&cluster).get("r-resume-2").await.unwrap(), RESUME_OF), "r-resume-1");
        restores(&cluster).patch("r-resume-2", &Default::default(), &ended).await.unwrap();
        let output = velero(&cluster, &["restore", "create", "mine", "--resume", "r", "-o", "yaml"]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("name: mine"), "{output:?}");
        assert!(restores(&cluster).get_opt("mine").await.unwrap().is_none(), "it was only shown");
    });
}

#[test]
fn what_cannot_be_resumed_is_refused_with_the_remedy_and_nothing_is_made() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        let leaving = unique_name("leaving");
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        let held = json!({"metadata": {"name": leaving, "finalizers": ["example.com/held"]}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(held).unwrap()).await.unwrap();
        namespaces.delete(&leaving, &DeleteParams::default()).await.unwrap();
        backup(&cluster, "b", BackupPhase::Completed).await;
        backup(&cluster, "half", BackupPhase::Failed).await;
        backup(&cluster, "going", BackupPhase::Deleting).await;
        use RestorePhase::{Completed, Failed, FailedValidation, InProgress, PartiallyFailed};
        for (name, backup, phase, target, expected) in [
            ("done", "b", Completed, "copy", "it is Completed"),
            ("runs", "b", InProgress, "copy", "velero restore cancel runs --wait"),
            ("refused", "b", FailedValidation, "copy", "velero restore describe refused"),
            ("orphan", "gone", Failed, "copy", "its backup \"gone\" is gone"),
            ("half-backup", "half", Failed, "copy", "its phase is Failed"),
            ("going-backup", "going", PartiallyFailed, "copy", "is being deleted"),
            ("nowhere", "b", PartiallyFailed, leaving.as_str(), "which is being deleted"),
        ] {
            made(&cluster, name, backup, phase, target).await;
            let output = refused(&cluster, &["restore", "create", "--resume", name, "--wait"]);
            assert!(output.contains(&format!("restore {name:?} cannot be resumed")), "{output}");
            assert!(output.contains(expected), "{name}: {output}");
        }
        let mut going = made(&cluster, "leaves", "b", Failed, "copy").await;
        going.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
        restores(&cluster).replace("leaves", &PostParams::default(), &going).await.unwrap();
        restores(&cluster).delete("leaves", &DeleteParams::default()).await.unwrap();
        assert!(refused(&cluster, &["restore", "create", "--resume", "leaves"]).contains("it is being deleted"));
        assert!(refused(&cluster, &["restore", "create", "--resume", "nobody"]).contains("it does not exist"));
        for flags in [
            &["--from-backup", "b"][..],
            &["--include-namespaces", "x"],
            &["--restore-volumes=false"],
            &["--dry-run"],
            &["--existing-resource-policy", "update"],
        ] {
            let output = velero(&cluster, &[&["restore", "create", "--resume", "orphan"], flags].concat());
            assert!(!output.status.success(), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("--resume") && said.contains("cannot be used with"), "{said}");
        }
        let count = restores(&cluster).list(&ListParams::default()).await.unwrap().items.len();
        assert_eq!(count, 8, "a restore was made");
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        restores(&cluster).patch("leaves", &Default::default(), &free).await.unwrap();
        namespaces.patch(&leaving, &Default::default(), &free).await.unwrap();
    });
}

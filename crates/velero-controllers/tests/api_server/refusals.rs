//! Backups that cannot be made, and what they say.

use std::fs;

use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use velero_api::v1::{BackupPhase, BackupSpec, BackupStorageLocation};
use velero_testkit::cluster_test;

use crate::support::{Server, Workload, assert_phase, assert_says, config_map};

fn with_policy(name: &str) -> BackupSpec {
    let reference = TypedLocalObjectReference { kind: "configmap".to_owned(), name: name.to_owned(), api_group: None };
    BackupSpec { resource_policy: Some(reference), ..BackupSpec::default() }
}

/// How many texts a result holds, at any depth.
fn texts_in(result: &serde_json::Value) -> i64 {
    match result {
        serde_json::Value::String(_) => 1,
        serde_json::Value::Array(entries) => entries.iter().map(texts_in).sum(),
        serde_json::Value::Object(entries) => entries.values().map(texts_in).sum(),
        _ => 0,
    }
}

#[test]
fn a_backup_that_cannot_be_made_says_why() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        config_map(&cluster, "broken", "policy", "version: v1\nvolumePolicies: banana\n").await;
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let cases = [
            ("nowhere", BackupSpec { storage_location: "nowhere".to_owned(), ..BackupSpec::default() }, "nowhere"),
            (
                "mixed",
                BackupSpec {
                    included_resources: texts(&["pods"]),
                    excluded_namespace_scoped_resources: texts(&["secrets"]),
                    ..BackupSpec::default()
                },
                "cannot be used together",
            ),
            (
                "both",
                BackupSpec {
                    included_namespaces: texts(&["a"]),
                    excluded_namespaces: texts(&["a"]),
                    ..BackupSpec::default()
                },
                "Invalid included/excluded namespace lists: ",
            ),
            ("policy-missing", with_policy("absent"), "absent"),
            ("policy-broken", with_policy("broken"), "invalid resource policies: "),
        ];
        for (name, spec, expected) in cases {
            let backup = server.backup(name, spec).await;
            assert_phase(&backup, &BackupPhase::FailedValidation);
            assert_says(&backup.status.validation_errors, expected);
            assert!(backup.status.start_timestamp.is_none());
        }
        assert!(!directory.path().join("backups").exists(), "a refused backup stores nothing");
        server.stop().await;
    });
}

#[test]
fn a_read_only_location_takes_no_backup() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        server.patch::<BackupStorageLocation>("default", serde_json::json!({"spec": {"accessMode": "ReadOnly"}})).await;
        let backup = server.backup("b", BackupSpec::default()).await;
        assert_phase(&backup, &BackupPhase::FailedValidation);
        assert_says(&backup.status.validation_errors, "read-only");
        server.stop().await;
    });
}

#[test]
fn a_name_that_is_taken_in_the_store_fails_and_harms_nothing() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("backups/taken");
        fs::create_dir_all(&folder).unwrap();
        // No backup that could be synchronised, so the object can be created.
        fs::write(folder.join("velero-backup.json"), "{}").unwrap();
        fs::write(folder.join("taken.tar.gz"), "precious").unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        let backup = server.backup("taken", BackupSpec::default()).await;
        assert_phase(&backup, &BackupPhase::Failed);
        assert_says(&[backup.status.failure_reason], "backup already exists in object storage");
        assert_eq!(fs::read_to_string(folder.join("taken.tar.gz")).unwrap(), "precious");
        assert_eq!(fs::read_to_string(folder.join("velero-backup.json")).unwrap(), "{}");
        server.stop().await;
    });
}

#[test]
fn a_namespace_that_does_not_exist_makes_the_backup_fail_in_part() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        let mut spec = workload.spec();
        spec.included_namespaces.push("no-such-namespace".to_owned());
        let backup = server.backup("partial", spec).await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        assert!(backup.status.errors > 0);
        let results = fs::read(directory.path().join("backups/partial/partial-results.gz")).unwrap();
        let results: serde_json::Value = velero_archive::gzjson::decode(&results, 1_000_000).unwrap();
        assert!(results["errors"].to_string().contains("no-such-namespace"), "{results}");
        assert_eq!(texts_in(&results["errors"]), backup.status.errors, "{results}");
        assert_eq!(texts_in(&results["warnings"]), backup.status.warnings, "{results}");
        let log = fs::read(directory.path().join("backups/partial/partial-logs.gz")).unwrap();
        let log = String::from_utf8(velero_archive::gzjson::decompress(&log, 10_000_000).unwrap()).unwrap();
        assert_eq!(log.matches("level=error").count() as i64, backup.status.errors, "{log}");
        let errors = format!("velero_backup_items_errors{{schedule=\"\"}} {}", backup.status.errors);
        server.until_metrics(&["velero_backup_partial_failure_total{schedule=\"\"} 1", &errors]).await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_store_that_cannot_be_written_fails_the_backup() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        // A file where the folder of backups has to be.
        fs::write(directory.path().join("backups"), "in the way").unwrap();
        let backup = server.backup("blocked", workload.spec()).await;
        assert_phase(&backup, &BackupPhase::Failed);
        assert_says(&[backup.status.failure_reason], "backup execution failed: ");
        assert!(backup.status.completion_timestamp.is_some());
        workload.delete().await;
        server.stop().await;
    });
}

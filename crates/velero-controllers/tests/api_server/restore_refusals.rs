//! Restores that cannot be made, and what they say.

use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use kube::api::PostParams;
use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase, RestoreSpec};
use velero_controllers::server::{Controller, Settings};
use velero_testkit::cluster_test;

use crate::support::{Server, api, assert_restore_phase, assert_says, config_map, install_definitions, settings};

fn of(backup: &str) -> RestoreSpec {
    RestoreSpec { backup_name: backup.to_owned(), ..RestoreSpec::default() }
}

fn modified(backup: &str, config_map: &str) -> RestoreSpec {
    let (kind, name) = ("ConfigMap".to_owned(), config_map.to_owned());
    let reference = TypedLocalObjectReference { api_group: None, kind, name };
    RestoreSpec { resource_modifier: Some(reference), ..of(backup) }
}

#[test]
fn a_restore_that_cannot_be_made_says_why() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let phases = [
            ("good", BackupPhase::Completed),
            ("failed", BackupPhase::Failed),
            ("refused", BackupPhase::FailedValidation),
            ("waiting", BackupPhase::WaitingForPluginOperations),
            ("homeless", BackupPhase::Completed),
        ];
        for (name, phase) in phases {
            let mut backup = Backup::new(&cluster.namespace, name, Default::default());
            backup.spec.storage_location = if name == "homeless" { "nowhere" } else { "default" }.to_owned();
            backup.status.phase = Some(phase);
            api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        // Nothing is known of the operations that one backup waits for, and it must go on waiting.
        let waiting = [Controller::BackupOperations].into();
        let settings = Settings { disable_controllers: waiting, ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        server.directory_location("default", directory.path()).await;
        config_map(&cluster, "broken", "rules", "version: v1\nresourceModifierRules: banana\n").await;
        let both = RestoreSpec { schedule_name: "daily".to_owned(), ..of("good") };
        let daily = RestoreSpec { schedule_name: "daily".to_owned(), ..of("") };
        let nodes = RestoreSpec { included_resources: vec!["nodes".to_owned()], ..of("good") };
        let cases = [
            ("absent", of("absent"), "Error retrieving backup: can't find backup"),
            ("of-failed", of("failed"), "its phase is Failed"),
            ("of-refused", of("refused"), "its phase is FailedValidation"),
            ("of-waiting", of("waiting"), "its phase is WaitingForPluginOperations"),
            ("of-homeless", of("homeless"), "backupstoragelocations.velero.io \"nowhere\" not found"),
            ("both", both, "Either a backup or schedule must be specified"),
            ("neither", of(""), "Either a backup or schedule must be specified"),
            ("unscheduled", daily, "No backups found for schedule"),
            ("nodes", nodes, "nodes are non-restorable resources"),
            ("unmodified", modified("good", "absent"), "failed to get resource modifiers configmap"),
            ("misread", modified("good", "broken"), "resource modifiers provided in configmap"),
        ];
        for (name, spec, expected) in cases {
            let restore = server.restore(name, spec).await;
            assert_restore_phase(&restore, &RestorePhase::FailedValidation);
            assert_says(&restore.status.validation_errors, expected);
            assert!(restore.status.start_timestamp.is_none());
        }
        let refused = ["{schedule=\"\"} 9", "{schedule=\"daily\"} 2"];
        let refused = refused.map(|line| format!("velero_restore_validation_failed_total{line}"));
        server.until_metrics(&refused).await;
        assert!(!directory.path().join("restores").exists(), "a refused restore leaves no files");
        server.stop().await;
    });
}

#[test]
fn a_restore_that_cannot_be_read_is_marked_and_hinders_nobody() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let object = serde_json::json!({
            "apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": "odd"},
            "spec": {"backupName": "b", "itemOperationTimeout": "soon"},
        });
        let object = serde_json::from_value(object).unwrap();
        let resource = kube::api::ApiResource::erase::<Restore>(&());
        let dynamic: kube::Api<kube::api::DynamicObject> =
            kube::Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource);
        dynamic.create(&PostParams::default(), &object).await.unwrap();
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            let status = dynamic.get("odd").await.unwrap().data["status"].clone();
            if status["phase"] == "FailedValidation" {
                assert_says(&[status["validationErrors"][0].as_str().unwrap()], "the restore cannot be read");
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "{status}");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_restore_phase(&server.restore("next", of("absent")).await, &RestorePhase::FailedValidation);
        server.stop().await;
    });
}

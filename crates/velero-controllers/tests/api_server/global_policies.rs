//! Volume policies that count for every backup.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use velero_api::records::BackupVolumeInfo;
use velero_api::v1::{BackupPhase, BackupSpec};
use velero_controllers::server::{Settings, run_until};
use velero_testkit::cluster_test;

use crate::support::{Server, assert_phase, assert_says, config_map, install_definitions, settings};
use crate::volumes::{Claims, FIRST_VERSION, Folders};

fn policy(action: &str) -> String {
    format!("version: v1\nvolumePolicies:\n- conditions: {{volumeTypes: [hostPath]}}\n  action: {{type: {action}}}\n")
}

#[test]
fn global_volume_policies_count_for_every_backup_behind_its_own() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        config_map(&cluster, "everywhere", "policy", &policy("skip")).await;
        config_map(&cluster, "own", "policy", &policy("snapshot")).await;
        let settings =
            Settings { global_backup_volume_policies_configmap: "everywhere".to_owned(), ..folders.settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        folders.locate(&server, FIRST_VERSION).await;
        let claims = Claims::new(&cluster, &folders).await;
        claims.add("data", json!({})).await;

        let backup = server.backup("plain", claims.spec()).await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.status.volume_snapshots_attempted, 0);
        let infos: Vec<BackupVolumeInfo> = folders.read("backups/plain/plain-volumeinfo.json.gz");
        assert!(infos.len() == 1 && infos[0].skipped, "{infos:?}");

        let reference = serde_json::from_value(json!({"kind": "configmap", "name": "own"})).unwrap();
        let backup = server.backup("other", BackupSpec { resource_policy: reference, ..claims.spec() }).await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.status.volume_snapshots_completed, 1);

        let config_maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        config_maps.delete("everywhere", &DeleteParams::default()).await.unwrap();
        let backup = server.backup("without", claims.spec()).await;
        assert_phase(&backup, &BackupPhase::FailedValidation);
        assert_says(&backup.status.validation_errors, "--global-backup-volume-policies-configmap");
        assert_says(&backup.status.validation_errors, "everywhere");
        claims.remove().await;
        server.stop().await;
    });
}

#[test]
fn a_server_whose_global_volume_policies_cannot_be_used_does_not_start() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        config_map(&cluster, "broken", "policy", "version: v1\nvolumePolicies: banana\n").await;
        for name in ["absent", "broken"] {
            let settings = Settings { global_backup_volume_policies_configmap: name.to_owned(), ..settings(&cluster) };
            let refusal = run_until(settings, CancellationToken::new()).await.unwrap_err().to_string();
            let told = refusal.contains("global-backup-volume-policies-configmap") && refusal.contains(name);
            assert!(told, "{refusal}");
        }
    });
}

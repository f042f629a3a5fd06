//! What plugins keep of operations goes with the end of the backup.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::json;
use velero_api::v1::{Backup, BackupPhase};
use velero_testkit::{TestCluster, cluster_test};

use crate::operation_table::hasty;
use crate::steered::{BACKUP_ACTION, Courses, Steering};
use crate::support::{PATIENCE, Server, assert_phase, settings};

fn config_maps(cluster: &TestCluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// A ConfigMap that a plugin would make for an operation of a backup.
async fn record(cluster: &TestCluster, name: &str, usage: &str, owner: &Backup) {
    let owner = json!([{
        "apiVersion": "velero.io/v1", "kind": "Backup", "name": owner.metadata.name, "uid": owner.metadata.uid,
    }]);
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([("velero.io/resource-usage".to_owned(), usage.to_owned())].into()),
        owner_references: serde_json::from_value(owner).unwrap(),
        ..ObjectMeta::default()
    };
    let object = ConfigMap { metadata, ..ConfigMap::default() };
    config_maps(cluster).create(&PostParams::default(), &object).await.unwrap();
}

#[test]
fn records_of_operations_go_when_their_backup_has_ended_whichever_server_finds_them() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["takes=1"]).await;
        let ended = server.backup("ended", courses.spec()).await;
        assert_phase(&ended, &BackupPhase::Completed);
        courses.add("later", json!({(BACKUP_ACTION): "never"})).await;
        server.create(Backup::new(&cluster.namespace, "waits", courses.spec())).await;
        let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
        let waiting = server.until("waits", waits).await;
        server.stop().await;
        for (name, usage, owner) in [
            ("of-ended", "OperationRecord", &ended),
            ("of-waiting", "OperationRecord", &waiting),
            ("no-record", "Other", &ended),
        ] {
            record(&cluster, name, usage, owner).await;
        }

        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        let gone = async {
            while config_maps(&cluster).get_opt("of-ended").await.unwrap().is_some() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("the record of the ended backup must go");
        for name in ["of-waiting", "no-record"] {
            assert!(config_maps(&cluster).get_opt(name).await.unwrap().is_some(), "{name} must stay");
        }
        courses.delete().await;
        server.stop().await;
    });
}

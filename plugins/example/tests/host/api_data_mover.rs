//! The data mover against a real API server: its action in the plugin's process, its controller in another.

use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use velero_api::v1::Backup;
use velero_cluster::Cluster;
use velero_plugin::host::{HostSettings, PluginDirectory, PluginManager};
use velero_plugin::{BackupItemAction, Error, OperationProgress};
use velero_plugin_example::data_mover::{DEFINITION, data_moves};
use velero_testkit::{TestCluster, cluster_test};

/// The controller, ended with the test.
struct Controller(Child);

impl Controller {
    fn start(cluster: &TestCluster) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_data-mover-example"));
        Self(command.env("KUBECONFIG", cluster.test_box.kubeconfig()).spawn().unwrap())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn action(cluster: &TestCluster) -> (tempfile::TempDir, PluginManager, Arc<dyn BackupItemAction>) {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_velero-plugin-example"), folder.path().join("example")).unwrap();
    let kubeconfig = cluster.test_box.kubeconfig().display().to_string();
    let environment = vec![("KUBECONFIG".to_owned(), kubeconfig)];
    let settings = HostSettings { environment, ..HostSettings::default() };
    let manager = PluginDirectory::discover(folder.path(), settings).await.unwrap().manager();
    let action = Arc::clone(manager.actions().unwrap().backup_item_action("example.velero.io/data-mover").unwrap());
    (folder, manager, action)
}

fn backup(cluster: &TestCluster) -> Backup {
    serde_json::from_value(json!({"metadata": {"name": "nightly", "namespace": cluster.namespace}, "spec": {}}))
        .unwrap()
}

fn claim(course: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop", "annotations": {"example.velero.io/move": course}},
    })
}

/// Asks until the operation has ended, or has begun where that is enough.
async fn follow(
    action: &dyn BackupItemAction,
    id: &str,
    backup: &Backup,
    enough: fn(&OperationProgress) -> bool,
) -> OperationProgress {
    for _ in 0..200 {
        let progress = action.progress(id, backup).await.unwrap();
        if enough(&progress) {
            return progress;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("operation {id} does not end");
}

#[test]
fn the_controller_does_the_work_and_the_action_follows_it() {
    cluster_test(|cluster| async move {
        cluster.test_box.machine().apply(DEFINITION).unwrap();
        cluster.test_box.machine().wait_for_definition("datamoves.example.velero.io").unwrap();
        let (_folder, manager, action) = action(&cluster).await;
        let backup = backup(&cluster);
        let begin = async |course: &str| action.execute(&claim(course), &backup).await.unwrap();

        // Before there is a controller nothing moves, and that is no error.
        let first = begin("takes=1s").await;
        let id = first.operation_id.unwrap();
        assert_eq!(
            first.items_to_update[0].to_string(),
            format!("datamoves.example.velero.io {}/{id}", cluster.namespace)
        );
        let waiting = action.progress(&id, &backup).await.unwrap();
        assert!(!waiting.completed && waiting.started.is_none(), "{waiting:?}");

        let _controller = Controller::start(&cluster);
        let ended = follow(&*action, &id, &backup, |progress| progress.completed).await;
        assert_eq!((ended.error.as_str(), ended.n_completed), ("", ended.n_total));

        let failing = begin("fails-after=500ms").await.operation_id.unwrap();
        let ended = follow(&*action, &failing, &backup, |progress| progress.completed).await;
        assert_eq!(ended.error, "the claim asked for a failing move");

        let long = begin("takes=10m").await.operation_id.unwrap();
        follow(&*action, &long, &backup, |progress| progress.started.is_some()).await;
        // The plugin's process may go away in between.
        manager.stop().await;
        action.cancel(&long, &backup).await.unwrap();
        let ended = follow(&*action, &long, &backup, |progress| progress.completed).await;
        assert_eq!(ended.error, "the move was cancelled");
        let objects = Cluster::from_client(cluster.client.clone());
        let object = objects.get(data_moves().item(Some(&cluster.namespace), &long)).await.unwrap().unwrap();
        assert_eq!(object["status"]["phase"], "Cancelled");

        let unknown = action.progress("no-such-move", &backup).await.unwrap_err();
        assert!(matches!(unknown, Error::InvalidOperationId { .. }), "{unknown}");
    });
}

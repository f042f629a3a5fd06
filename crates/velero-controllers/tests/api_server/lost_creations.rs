//! Objects by which the data of volumes is moved are made once, also where the answer to their creation gets lost or the request
//! never arrives.

use kube::api::ListParams;
use serde_json::json;
use velero_api::DataMovePhase;
use velero_api::resource::VeleroResource;
use velero_api::v1::{
    BackupPhase, BackupRepository, BackupSpec, PodVolumeBackup, PodVolumeRestore, RestorePhase, RestoreSpec,
};
use velero_controllers::node_agent::Settings as AgentSettings;
use velero_controllers::server::Settings;
use velero_testkit::harness::unique_name;
use velero_testkit::{cluster_test, storage_box_test};

use crate::agent_support::AgentNode;
use crate::lossy_proxy::open_without_creations;
use crate::moved_scene::{Scene, check_restore, done};
use crate::played_agents::{Ending, Nodes, play, remove_namespace};
use crate::support::{Server, assert_phase, assert_restore_phase, settings};

async fn count<K: VeleroResource>(server: &Server) -> usize {
    server.api::<K>().list(&ListParams::default()).await.unwrap().items.len()
}

#[test]
fn each_volume_of_a_pod_is_copied_and_filled_once_whichever_answers_are_lost() {
    cluster_test(|cluster| async move {
        let (directory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let plurals = &["backuprepositories", "podvolumebackups", "podvolumerestores"];
        let (kubeconfig, lost) = open_without_creations(&cluster, folder.path(), plurals).await;
        let settings = Settings { kubeconfig: Some(kubeconfig), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        server.directory_location("default", directory.path()).await;
        let nodes = Nodes::new(&cluster).await;
        let (shop, target) = (nodes.shop().await, unique_name("copy"));
        shop.pod("web", &nodes.with_agent, &["data", "logs"]).await;
        let agents = play(&cluster, |_| Ending::Completed);

        let spec = BackupSpec {
            included_namespaces: vec![shop.namespace.clone()],
            included_resources: vec!["pods".to_owned()],
            ..BackupSpec::default()
        };
        let backup = server.backup("b", spec).await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!((backup.status.errors, backup.status.warnings), (0, 0));
        assert_eq!((count::<PodVolumeBackup>(&server).await, count::<BackupRepository>(&server).await), (2, 1));
        let mapping = [(shop.namespace.clone(), target.clone())].into();
        let spec = RestoreSpec { backup_name: "b".to_owned(), namespace_mapping: mapping, ..RestoreSpec::default() };
        let restore = server.restore("r", spec).await;
        assert_restore_phase(&restore, &RestorePhase::Completed);
        assert_eq!((restore.status.errors, restore.status.warnings), (0, 0));
        assert_eq!(count::<PodVolumeRestore>(&server).await, 2);
        lost.assert_all();
        drop(agents);
        remove_namespace(&cluster, &target).await;
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

#[test]
fn the_data_of_a_snapshot_is_moved_there_and_back_once_whichever_answers_are_lost() {
    storage_box_test(|cluster| async move {
        let folder = tempfile::tempdir().unwrap();
        let plurals = &["volumesnapshots", "datauploads", "datadownloads", "configmaps"];
        let (kubeconfig, lost) = open_without_creations(&cluster, folder.path(), plurals).await;
        let settings = Settings { kubeconfig: Some(kubeconfig), ..settings(&cluster) };
        let scene = Scene::with_settings(&cluster, &["data"], settings).await;
        scene.begin("b", scene.spec()).await;
        let upload = scene.uploads("b", 1).await.remove("data").unwrap();
        assert_eq!(scene.snapshots().await.len(), 1);
        scene.write(&upload, done("k1")).await;
        let backup = scene.ended("b").await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!((backup.status.errors, backup.status.warnings), (0, 0));
        scene.uploads("b", 1).await;
        scene.until_no_snapshots().await;
        let copy = check_restore(&scene).await;
        lost.assert_all();
        scene.end(&[&copy]).await;
    });
}

#[test]
fn a_transfer_has_one_mover_also_where_the_answer_to_its_creation_is_lost() {
    const RESULT: &str = r#"{"snapshotID":"af0d","emptySnapshot":false,"source":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":4096,"incrementalBytes":12}"#;
    cluster_test(|cluster| async move {
        let folder = tempfile::tempdir().unwrap();
        let (kubeconfig, lost) = open_without_creations(&cluster, folder.path(), &["pods"]).await;
        let mut node = AgentNode::new(&cluster).await;
        node.start(AgentSettings { kubeconfig: Some(kubeconfig), ..node.settings() }).await;
        let pod = node.pod_with_volume("app", &[]).await;
        // The answer to the first is lost, the request for the second.
        for name in ["b-1", "b-2"] {
            node.backup(name, &pod).await;
            let mover = node.mover(name).await;
            node.set_status(name, json!({"phase": "Running"})).await;
            let is = |phase: DataMovePhase| move |backup: &PodVolumeBackup| *backup.status.phase() == phase;
            node.until(name, is(DataMovePhase::InProgress)).await;
            node.end_mover(&mover, 0, RESULT).await;
            let ended = node.until(name, is(DataMovePhase::Completed)).await;
            assert!(ended.status.message.is_empty(), "{}", ended.status.message);
            node.until_clean::<PodVolumeBackup>(name).await;
        }
        lost.assert_all();
        node.remove().await;
    });
}

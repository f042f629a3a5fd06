//! Volumes that are copied through pods, and filled again. The test plays the node agents: it writes the status of the
//! objects by which server and agents talk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use velero_api::annotations::POD_VOLUME_TIMEOUT;
use velero_api::dry_run;
use velero_api::records::{BackupVolumeInfo, RestoreVolumeInfo, ResultsFile};
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestSpec, PodVolumeBackup, PodVolumeRestore,
    Restore, RestorePhase, RestoreSpec,
};
use velero_archive::gzjson;
use velero_controllers::DryRunReport;
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test};

use crate::played_agents::{Ending, Nodes, Shop, play, remove_namespace};
use crate::support::{Server, assert_phase, assert_restore_phase, assert_says};

/// A server whose location is a folder, two nodes, and a namespace without pods.
async fn scene(cluster: &TestCluster) -> (TempDir, Server, Nodes, Shop) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(cluster.clone()).await;
    server.directory_location("default", directory.path()).await;
    let nodes = Nodes::new(cluster).await;
    let shop = nodes.shop().await;
    (directory, server, nodes, shop)
}

/// Backs up pods with a volume each.
async fn store_pods(server: &Server, nodes: &Nodes, shop: &Shop, pods: [(&str, &str); 2]) {
    for (pod, volume) in pods {
        shop.pod(pod, &nodes.with_agent, &[volume]).await;
    }
    let agents = play(&server.cluster, |_| Ending::Completed);
    assert_phase(&server.backup("b", of_pods(shop)).await, &BackupPhase::Completed);
    drop(agents);
}

fn of_pods(shop: &Shop) -> BackupSpec {
    BackupSpec {
        included_namespaces: vec![shop.namespace.clone()],
        included_resources: vec![
            "pods".to_owned(),
            "persistentvolumeclaims".to_owned(),
            "persistentvolumes".to_owned(),
        ],
        ..BackupSpec::default()
    }
}

/// What was backed up, into another namespace.
fn into(shop: &Shop, target: &str) -> RestoreSpec {
    RestoreSpec {
        backup_name: "b".to_owned(),
        namespace_mapping: [(shop.namespace.clone(), target.to_owned())].into(),
        ..RestoreSpec::default()
    }
}

fn read<T: serde::de::DeserializeOwned>(directory: &TempDir, path: &str) -> T {
    let content = std::fs::read(directory.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    gzjson::decode(&content, 1 << 20).unwrap()
}

fn errors_of(directory: &TempDir, path: &str, namespace: &str) -> Vec<String> {
    let results: ResultsFile = read(directory, path);
    results.errors.namespaces.get(namespace).cloned().unwrap_or_default()
}

async fn copies(server: &Server) -> Vec<PodVolumeBackup> {
    server.api::<PodVolumeBackup>().list(&ListParams::default()).await.unwrap().items
}

async fn fillings(server: &Server) -> Vec<PodVolumeRestore> {
    server.api::<PodVolumeRestore>().list(&ListParams::default()).await.unwrap().items
}

#[test]
fn volumes_of_pods_are_copied_side_by_side_and_filled_again_in_another_namespace() {
    cluster_test(|cluster| async move {
        let (directory, server, nodes, shop) = scene(&cluster).await;
        let target = unique_name("copy");
        let web = shop.pod("web", &nodes.with_agent, &["data", "logs"]).await;
        shop.pod("db", &nodes.with_agent, &["store"]).await;
        let agents = play(&cluster, |_| Ending::Completed);

        let mut spec = of_pods(&shop);
        spec.uploader_config = serde_json::from_value(json!({"parallelFilesUpload": 7})).unwrap();
        let backup = server.backup("b", spec).await;
        assert_phase(&backup, &BackupPhase::Completed);
        let made = copies(&server).await;
        assert_eq!(made.len(), 3, "{made:#?}");
        let data = made.iter().find(|copy| copy.spec.volume == "data").unwrap();
        let (spec, own) = (&data.spec, backup.metadata.uid.clone().unwrap());
        assert_eq!((spec.node.as_str(), spec.uploader_type.as_str()), (nodes.with_agent.as_str(), "kopia"));
        assert_eq!(
            (spec.backup_storage_location.as_str(), spec.pod.uid.clone()),
            ("default", web.metadata.uid.clone())
        );
        assert_eq!((spec.tags["backup-uid"].as_str(), spec.tags["pod"].as_str()), (own.as_str(), "web"));
        assert_eq!(spec.uploader_settings["ParallelFilesUpload"], "7");
        assert_eq!(data.metadata.owner_references.as_ref().unwrap()[0].uid, own);
        assert_eq!(data.metadata.labels.as_ref().unwrap()["velero.io/backup-uid"], own);

        let stored: Vec<PodVolumeBackup> = read(&directory, "backups/b/b-podvolumebackups.json.gz");
        let snapshots: Vec<&str> = stored.iter().map(|copy| copy.status.snapshot_id.as_str()).collect();
        assert!(stored.len() == 3 && snapshots.contains(&"snapshot-of-logs"), "{snapshots:?}");
        let infos: Vec<BackupVolumeInfo> = read(&directory, "backups/b/b-volumeinfo.json.gz");
        let info = infos.iter().filter_map(|info| info.pvb_info.as_ref()).find(|info| info.volume_name == "data");
        let info = info.unwrap();
        assert_eq!((info.size, info.incremental_size, info.snapshot_handle.as_str()), (4096, 96, "snapshot-of-data"));
        assert_eq!((info.pod_name.as_str(), info.node_name.as_str()), ("web", nodes.with_agent.as_str()));

        restored_pods_wait(&server, &directory, &shop, &target).await;
        drop(agents);
        remove_namespace(&cluster, &target).await;
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

async fn restored_pods_wait(server: &Server, directory: &TempDir, shop: &Shop, target: &str) {
    let mut spec = into(shop, target);
    spec.uploader_config =
        serde_json::from_value(json!({"writeSparseFiles": true, "parallelFilesDownload": 2})).unwrap();
    let restore = server.restore("r", spec.clone()).await;
    assert_restore_phase(&restore, &RestorePhase::Completed);
    let pods: Api<Pod> = Api::namespaced(shop.cluster.client.clone(), target);
    let pod = pods.get("web").await.unwrap();
    let container: Value =
        serde_json::to_value(&pod.spec.as_ref().unwrap().init_containers.as_ref().unwrap()[0]).unwrap();
    assert_eq!((&container["name"], &container["image"]), (&json!("restore-wait"), &json!("example.com/velero:v1")));
    assert_eq!(
        (&container["args"], &container["command"]),
        (&json!([restore.metadata.uid]), &json!(["/velero-restore-helper"]))
    );
    let mounts: Vec<&str> =
        container["volumeMounts"].as_array().unwrap().iter().filter_map(|mount| mount["mountPath"].as_str()).collect();
    assert_eq!(mounts, ["/restores/data", "/restores/logs"]);
    let made = fillings(server).await;
    assert_eq!(made.len(), 3, "{made:#?}");
    let data = made.iter().find(|filling| filling.spec.volume == "data").unwrap();
    let labels = data.metadata.labels.as_ref().unwrap();
    assert_eq!(Some(&labels["velero.io/pod-uid"]), pod.metadata.uid.as_ref());
    assert_eq!(Some(&labels["velero.io/restore-uid"]), restore.metadata.uid.as_ref());
    let spec_of = &data.spec;
    assert_eq!(
        (spec_of.source_namespace.as_str(), spec_of.snapshot_id.as_str()),
        (shop.namespace.as_str(), "snapshot-of-data")
    );
    assert_eq!((spec_of.snapshot_size, spec_of.pod.namespace.as_deref()), (4096, Some(target)));
    assert_eq!(
        (
            spec_of.uploader_settings["WriteSparseFiles"].as_str(),
            spec_of.uploader_settings["ParallelFilesDownload"].as_str()
        ),
        ("true", "2")
    );
    let infos: Vec<RestoreVolumeInfo> = read(directory, "restores/r/r-volumeinfo.json.gz");
    let filled = infos.iter().filter(|info| info.pvr_info.is_some());
    assert_eq!(filled.count(), 3, "{infos:?}");

    let again = server.restore("again", spec).await;
    assert_ne!(*again.status.phase(), RestorePhase::Failed);
    assert_eq!(fillings(server).await.len(), 3, "pods that exist are not filled again");
}

#[test]
fn a_copy_that_fails_vanishes_or_never_ends_is_an_error_of_its_volume_alone() {
    cluster_test(|cluster| async move {
        let (directory, server, nodes, shop) = scene(&cluster).await;
        shop.pod("web", &nodes.with_agent, &["good", "fails", "cancelled"]).await;
        shop.pod("db", &nodes.with_agent, &["vanishes", "hangs"]).await;
        shop.pod("lonely", &nodes.without_agent, &["unreachable"]).await;
        let agents = play(&cluster, |volume| match volume {
            "fails" => Ending::Failed,
            "cancelled" => Ending::Canceled,
            "vanishes" => Ending::Removed,
            "hangs" => Ending::Never,
            _ => Ending::Completed,
        });
        let mut backup = Backup::new(&cluster.namespace, "b", of_pods(&shop));
        backup.metadata.annotations = Some([(POD_VOLUME_TIMEOUT.to_owned(), "15s".to_owned())].into());
        server.create(backup).await;
        let backup = server.ended("b").await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        let told = errors_of(&directory, "backups/b/b-results.gz", &shop.namespace);
        assert_eq!((told.len(), backup.status.errors), (5, 5), "{told:#?}");
        for (volume, pod, why) in [
            ("fails", "web", "failed: the disk is on fire"),
            ("cancelled", "web", "was cancelled: somebody said so"),
            ("vanishes", "db", "was deleted before it had ended"),
            ("hangs", "db", "--fs-backup-timeout"),
            ("unreachable", "lonely", nodes.without_agent.as_str()),
        ] {
            let said = format!("volume {volume} of pod {}/{pod} is not backed up", shop.namespace);
            let error = told.iter().find(|error| error.contains(&said));
            assert!(error.is_some_and(|error| error.contains(why)), "{said}, {why}: {told:#?}");
        }
        let stored: Vec<PodVolumeBackup> = read(&directory, "backups/b/b-podvolumebackups.json.gz");
        assert!(stored.len() == 5 && stored.iter().all(|copy| copy.status.phase().is_terminal()), "{stored:#?}");
        let left = copies(&server).await;
        let hanging = left.iter().find(|copy| copy.spec.volume == "hangs").unwrap();
        assert!(hanging.spec.cancel, "nobody waits for it any more");

        failed_copies_are_told_by_the_restore(&server, &directory, &shop).await;
        drop(agents);
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

#[test]
fn a_claim_that_one_pod_cannot_copy_and_another_does_is_no_error() {
    cluster_test(|cluster| async move {
        let (directory, server, nodes, shop) = scene(&cluster).await;
        // By their names the pod that nobody can reach comes first.
        shop.pod_with_claim("a-lonely", &nodes.without_agent).await;
        shop.pod_with_claim("b-lonely", &nodes.without_agent).await;
        shop.pod_on_claim("c-reached", &nodes.with_agent, "a-lonely").await;
        let agents = play(&cluster, |_| Ending::Completed);
        let backup = server.backup("b", of_pods(&shop)).await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        let told = errors_of(&directory, "backups/b/b-results.gz", &shop.namespace);
        assert_eq!((told.len(), backup.status.errors), (1, 1), "{told:#?}");
        assert_says(&told, &format!("volume data of pod {}/b-lonely is not backed up", shop.namespace));
        assert_says(&told, &format!("no node agent runs on node {}", nodes.without_agent));
        let made = copies(&server).await;
        let pods: Vec<Option<&str>> = made.iter().map(|copy| copy.spec.pod.name.as_deref()).collect();
        assert_eq!(pods, [Some("c-reached")]);
        drop(agents);
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

/// What was not copied does not come back, and a pod that nobody can reach is told of.
async fn failed_copies_are_told_by_the_restore(server: &Server, directory: &TempDir, shop: &Shop) {
    let target = unique_name("copy");
    let restore = server.restore("r", into(shop, &target)).await;
    assert_restore_phase(&restore, &RestorePhase::PartiallyFailed);
    let told = errors_of(directory, "restores/r/restore-r-results.gz", &target);
    assert_says(&told, &format!("volume fails of pod {}/web is in no copy", shop.namespace));
    assert!(!told.iter().any(|error| error.contains("volume good")), "{told:?}");
    assert_eq!(fillings(server).await.len(), 1, "only one copy is good");
    remove_namespace(&server.cluster, &target).await;
}

#[test]
fn volumes_that_cannot_be_filled_are_errors_that_name_pod_and_volume() {
    cluster_test(|cluster| async move {
        let (directory, server, nodes, shop) = scene(&cluster).await;
        let target = unique_name("copy");
        store_pods(&server, &nodes, &shop, [("web", "web"), ("db", "db")]).await;
        let agents = play(&cluster, |volume| if volume == "web" { Ending::Failed } else { Ending::Never });
        server.create(Restore::new(&cluster.namespace, "r", into(&shop, &target))).await;
        // The scheduler chooses a node without an agent.
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &target);
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "db"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": nodes.without_agent}});
        let mut bound = false;
        for _ in 0..300 {
            let answer =
                pods.create_subresource::<Value, Value>("binding", "db", &PostParams::default(), &binding).await;
            bound = answer.is_ok();
            if bound {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(bound, "the pod was never made");
        let restore = server.restore_ended("r").await;
        assert_restore_phase(&restore, &RestorePhase::PartiallyFailed);
        let told = errors_of(&directory, "restores/r/restore-r-results.gz", &target);
        assert_eq!(told.len(), 2, "{told:#?}");
        assert_says(&told, &format!("volume web of pod {target}/web is not restored"));
        assert_says(&told, "failed: the disk is on fire");
        assert_says(&told, &format!("no node agent runs on node {}", nodes.without_agent));
        let hanging = fillings(&server).await;
        let hanging = hanging.iter().find(|filling| filling.spec.volume == "db").unwrap();
        assert!(hanging.spec.cancel, "nobody waits for it any more");
        drop(agents);
        remove_namespace(&cluster, &target).await;
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

/// Says what the container does that waits for the volumes of a pod, as its kubelet would, once the pod is there.
async fn say_of_waiting(pods: &Api<Pod>, pod: &str, state: Value) {
    let waiting =
        json!({"name": "restore-wait", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    let patch = Patch::Merge(json!({"status": {"phase": "Pending", "initContainerStatuses": [waiting]}}));
    for _ in 0..300 {
        if pods.patch_status(pod, &PatchParams::default(), &patch).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("pod {pod} was never made");
}

#[test]
fn a_pod_that_waits_on_though_its_volumes_are_filled_is_an_error_and_one_that_goes_on_is_none() {
    cluster_test(|cluster| async move {
        let (directory, server, nodes, shop) = scene(&cluster).await;
        let target = unique_name("copy");
        store_pods(&server, &nodes, &shop, [("web", "data"), ("db", "data")]).await;
        server.create(Restore::new(&cluster.namespace, "r", into(&shop, &target))).await;
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &target);
        for pod in ["web", "db"] {
            say_of_waiting(&pods, pod, json!({"running": {}})).await;
        }
        // The server is to hear of it before the volumes are filled, as it does where an agent waits for it too.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let agents = play(&cluster, |_| Ending::Completed);
        say_of_waiting(&pods, "db", json!({"terminated": {"exitCode": 0}})).await;
        // It waits for a minute, so this has to wait longer than for anything else.
        tokio::time::sleep(Duration::from_secs(30)).await;
        let restore = server.restore_ended("r").await;
        assert_restore_phase(&restore, &RestorePhase::PartiallyFailed);
        let told = errors_of(&directory, "restores/r/restore-r-results.gz", &target);
        assert_eq!(told.len(), 1, "{told:#?}");
        assert_says(&told, &format!("pod {target}/web does not start"));
        assert_says(&told, "its init container restore-wait");
        assert_says(&told, "secCtxRunAsUser");
        drop(agents);
        remove_namespace(&cluster, &target).await;
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

#[test]
fn an_agent_that_is_being_started_is_waited_for() {
    cluster_test(|cluster| async move {
        let (_directory, server, nodes, shop) = scene(&cluster).await;
        shop.pod("web", &nodes.without_agent, &["data"]).await;
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let agent = json!({
            "metadata": {"name": "node-agent-y", "labels": {"role": "node-agent"}},
            "spec": {"nodeName": nodes.without_agent, "containers": [{"name": "node-agent", "image": "none"}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(agent).unwrap()).await.unwrap();
        let agents = play(&cluster, |_| Ending::Completed);
        server.create(Backup::new(&cluster.namespace, "b", of_pods(&shop))).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
        pods.patch_status("node-agent-y", &PatchParams::default(), &running).await.unwrap();
        assert_phase(&server.ended("b").await, &BackupPhase::Completed);
        drop(agents);
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

#[test]
fn a_dry_run_says_which_claims_come_without_the_pod_that_brings_their_data() {
    cluster_test(|cluster| async move {
        let (directory, server, nodes, shop) = scene(&cluster).await;
        let target = unique_name("copy");
        shop.pod_with_claim("web", &nodes.with_agent).await;
        let agents = play(&cluster, |_| Ending::Completed);
        assert_phase(&server.backup("b", of_pods(&shop)).await, &BackupPhase::Completed);
        drop(agents);
        let missing = format!("the data of claim {target}/web is not restored");
        for (resources, is_missed) in [(vec!["persistentvolumeclaims"], true), (vec![], false)] {
            let included_resources = resources.into_iter().map(str::to_owned).collect();
            let spec = RestoreSpec { included_resources, ..into(&shop, &target) };
            let wanted = Restore::new(&cluster.namespace, "r", spec);
            let name = unique_name("dry-run");
            server.create(dry_run::ask(&wanted, &name)).await;
            assert_restore_phase(&server.restore_ended(&name).await, &RestorePhase::Completed);
            let report: DryRunReport = read(&directory, &format!("restores/{name}/restore-{name}-results.gz"));
            let told = report.errors.namespaces.get(&target).cloned().unwrap_or_default();
            assert_eq!(told.iter().any(|error| error.contains(&missing)), is_missed, "{told:?}");
        }
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_that_is_deleted_or_loses_its_server_cancels_its_copies() {
    cluster_test(|cluster| async move {
        let (_directory, server, nodes, shop) = scene(&cluster).await;
        shop.pod("web", &nodes.with_agent, &["data"]).await;
        let agents = play(&cluster, |_| Ending::Never);
        server.create(Backup::new(&cluster.namespace, "deleted", of_pods(&shop))).await;
        let first = until_copy(&server, "deleted").await;
        let spec = DeleteBackupRequestSpec { backup_name: "deleted".to_owned(), ..Default::default() };
        server.create(DeleteBackupRequest::new(&cluster.namespace, "deleted-1", spec)).await;
        until_cancelled(&server, &first).await;

        server.create(Backup::new(&cluster.namespace, "stopped", of_pods(&shop))).await;
        let second = until_copy(&server, "stopped").await;
        server.stop().await;
        let server = Server::start(cluster.clone()).await;
        let stopped = server.ended("stopped").await;
        assert_phase(&stopped, &BackupPhase::Failed);
        until_cancelled(&server, &second).await;
        drop(agents);
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

#[test]
fn the_copies_of_many_pods_are_all_asked_for_before_the_first_has_ended() {
    const PODS: usize = 50;
    cluster_test(|cluster| async move {
        let (_directory, server, nodes, shop) = scene(&cluster).await;
        for number in 0..PODS {
            shop.pod(&format!("web-{number}"), &nodes.with_agent, &["data"]).await;
        }
        let may_end = Arc::new(AtomicBool::new(false));
        let allowed = Arc::clone(&may_end);
        let agents = play(&cluster, move |_| match allowed.load(Ordering::Relaxed) {
            true => Ending::Completed,
            false => Ending::Never,
        });
        server.create(Backup::new(&cluster.namespace, "b", of_pods(&shop))).await;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while copies(&server).await.len() < PODS {
            assert!(tokio::time::Instant::now() < deadline, "a copy waits for another one");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        may_end.store(true, Ordering::Relaxed);
        let backup = server.ended("b").await;
        assert_phase(&backup, &BackupPhase::Completed);
        drop(agents);
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

async fn until_copy(server: &Server, backup: &str) -> String {
    for _ in 0..600 {
        let made = copies(server).await;
        if let Some(copy) = made.iter().find(|copy| copy.spec.tags["backup"] == backup) {
            return copy.metadata.name.clone().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no copy is asked for");
}

/// Waits until a copy is told to stop, or gone with its backup.
async fn until_cancelled(server: &Server, copy: &str) {
    for _ in 0..600 {
        let found = server.api::<PodVolumeBackup>().get_opt(copy).await.unwrap();
        if found.is_none_or(|copy| copy.spec.cancel) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the copy goes on");
}

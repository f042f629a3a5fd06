//! Hooks in pods of backups that do not come to a good end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use velero_api::annotations::OWED_HOOKS;
use velero_api::v1::{Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestSpec};
use velero_cluster::{Cluster, ExecRequest};
use velero_plugin::{ActionSource, Actions, BackupItemAction, BackupItemOutcome, ResourceSelector, Result};
use velero_testkit::{TestCluster, objects, whole_box_test};

use crate::support::{Server, Workload, api, assert_phase, settings};

/// An action on pods that takes longer than any test.
struct SlowPods;

#[async_trait]
impl BackupItemAction for SlowPods {
    fn name(&self) -> &str {
        "test.velero.io/slow-pods"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["pods"]))
    }

    async fn execute(&self, _: &Value, _: &Backup) -> Result<BackupItemOutcome> {
        tokio::time::sleep(Duration::from_secs(600)).await;
        Ok(BackupItemOutcome::default())
    }
}

fn slow_pods() -> Actions {
    let source = ActionSource { backup_item: vec![Arc::new(SlowPods)], ..ActionSource::default() };
    Actions::from_source(source).unwrap()
}

/// Runs a pod whose hooks leave a trace; gives its UID.
async fn traced_pod(cluster: &TestCluster, namespace: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), namespace);
    until(async || accounts.get_opt("default").await.unwrap().is_some()).await;
    let shell = |command: &str| json!(["sh", "-c", command]).to_string();
    let mut pod = objects::pod(namespace, "traced", "sleep 600");
    pod["metadata"]["annotations"] = json!({
        "pre.hook.backup.velero.io/command": shell("echo stops >> /tmp/trace"),
        "post.hook.backup.velero.io/command": shell("echo goes on >> /tmp/trace"),
    });
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let pod = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let running = async || {
        let pod = pods.get("traced").await.unwrap();
        pod.status.and_then(|status| status.phase).is_some_and(|phase| phase == "Running")
    };
    until(running).await;
    pod.metadata.uid.unwrap()
}

async fn until(condition: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("waited in vain");
}

async fn trace(cluster: &TestCluster, namespace: &str) -> String {
    let request = ExecRequest {
        namespace: namespace.to_owned(),
        pod: "traced".to_owned(),
        container: None,
        command: ["sh", "-c", "cat /tmp/trace 2> /dev/null || true"].map(str::to_owned).to_vec(),
        timeout: Some(Duration::from_secs(20)),
    };
    Cluster::from_client(cluster.client.clone()).exec(&request).await.unwrap().stdout
}

fn pods_of(workload: &Workload) -> BackupSpec {
    BackupSpec { included_resources: vec!["pods".to_owned()], ..workload.spec() }
}

fn owes(backup: &Backup) -> bool {
    backup.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(OWED_HOOKS))
}

#[test]
fn a_backup_that_is_stopped_or_deleted_lets_its_pods_go_on() {
    whole_box_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 0).await;
        traced_pod(&cluster, &workload.namespace).await;
        let server = Server::start_with_actions(cluster.clone(), settings(&cluster), slow_pods()).await;
        server.directory_location("default", directory.path()).await;
        server.create(Backup::new(&cluster.namespace, "deleted", pods_of(&workload))).await;
        until(async || trace(&cluster, &workload.namespace).await == "stops\n").await;
        assert!(owes(&api::<Backup>(&cluster).get("deleted").await.unwrap()), "it is written down");
        let spec = DeleteBackupRequestSpec { backup_name: "deleted".to_owned(), ..Default::default() };
        server.create(DeleteBackupRequest::new(&cluster.namespace, "delete", spec)).await;
        server.until_gone::<Backup>("deleted").await;
        assert_eq!(trace(&cluster, &workload.namespace).await, "stops\ngoes on\n");

        server.create(Backup::new(&cluster.namespace, "stopped", pods_of(&workload))).await;
        until(async || trace(&cluster, &workload.namespace).await == "stops\ngoes on\nstops\n").await;
        server.stop().await;
        assert_eq!(trace(&cluster, &workload.namespace).await, "stops\ngoes on\n".repeat(2));
        let stopped = api::<Backup>(&cluster).get("stopped").await.unwrap();
        assert_phase(&stopped, &BackupPhase::Failed);
        assert!(!owes(&stopped), "{:?}", stopped.metadata.annotations);
        workload.delete().await;
    });
}

#[test]
fn the_next_server_lets_the_pods_go_on_that_a_killed_one_has_stopped() {
    whole_box_test(|cluster| async move {
        let workload = Workload::new(&cluster, 0).await;
        let uid = traced_pod(&cluster, &workload.namespace).await;
        crate::support::install_definitions(&cluster).await;
        let owed = json!([{"namespace": workload.namespace, "name": "traced", "uid": uid}]).to_string();
        let mut killed = Backup::new(&cluster.namespace, "killed", pods_of(&workload));
        killed.spec.storage_location = "away".to_owned();
        killed.metadata.annotations = Some([(OWED_HOOKS.to_owned(), owed)].into());
        killed.status.phase = Some(BackupPhase::InProgress);
        api::<Backup>(&cluster).create(&PostParams::default(), &killed).await.unwrap();
        for _ in 0..2 {
            let server = Server::start(cluster.clone()).await;
            let failed = server.ended("killed").await;
            assert_phase(&failed, &BackupPhase::Failed);
            assert!(!owes(&failed));
            assert_eq!(trace(&cluster, &workload.namespace).await, "goes on\n", "once is enough");
            server.stop().await;
        }
        workload.delete().await;
    });
}

//! Hooks around copies of volumes, in pods that really run. The test plays the node agent: it writes the status of the
//! objects by which server and agents talk.

use std::time::Duration;

use crate::support::{Scene, pods, service_accounts};
use serde_json::{Value, json};
use velero_api::records::VolumeResult;
use velero_api::v1::BackupSpec;
use velero_cluster::{ExecRequest, ResourceType, types};
use velero_testkit::{objects, whole_box_test};

async fn run(scene: &Scene, mut pod: Value, changes: Value) {
    merge(&mut pod, changes);
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    scene.create(&pods(), pod).await;
    scene.wait(&pods(), &name, |pod| pod["status"]["phase"] == "Running").await;
}

/// Puts the fields of one object over those of another.
fn merge(object: &mut Value, changes: Value) {
    match (object, changes) {
        (Value::Object(object), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, changes) => *object = changes,
    }
}

async fn trace_of(scene: &Scene, pod: &str) -> String {
    let command = ["sh", "-c", "cat /tmp/trace 2> /dev/null || true"].map(str::to_owned).to_vec();
    let namespace = scene.namespace.clone();
    let request = ExecRequest { namespace, pod: pod.to_owned(), container: None, command, timeout: None };
    scene.cluster.exec(&request).await.unwrap().stdout
}

async fn copies(scene: &Scene, backup_uid: &str, pods: &[&str]) -> Vec<Value> {
    let mut found = Vec::new();
    for pod in pods {
        let pod_uid = scene.cluster.get(types::PODS.item(Some(&scene.namespace), pod)).await.unwrap().unwrap();
        let uid = pod_uid["metadata"]["uid"].as_str().unwrap();
        let name = velero_rules::pod_volumes::transfer_name("b1", backup_uid, uid, "data", 0);
        found.extend(scene.cluster.get(types::POD_VOLUME_BACKUPS.item(Some(&scene.namespace), &name)).await.unwrap());
    }
    found
}

#[test]
fn hooks_stand_around_the_copies_of_their_pod_and_hold_up_no_other_pod() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.install_definitions().await;
        scene.wait(&service_accounts(), "default", |_| true).await;
        let agent = objects::pod(&scene.namespace, "node-agent", "sleep 600");
        run(&scene, agent, json!({"metadata": {"labels": {"role": "node-agent"}}})).await;
        let shell = |command: &str| json!(["sh", "-c", command]).to_string();
        let names = ["web", "db", "cache"];
        for name in names {
            let mut pod = objects::pod(&scene.namespace, name, "sleep 600");
            pod["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
            pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
            let annotations = json!({
                "backup.velero.io/backup-volumes": "data",
                "pre.hook.backup.velero.io/command": shell("echo stops >> /tmp/trace"),
                "post.hook.backup.velero.io/command": shell("echo goes on >> /tmp/trace"),
            });
            run(&scene, pod, json!({"metadata": {"annotations": annotations}})).await;
        }
        let mut request =
            scene.request(BackupSpec { included_resources: vec!["pods".to_owned()], ..scene.own_namespace() });
        request.backup.metadata.namespace = Some(scene.namespace.clone());
        // Objects whose owner does not exist are removed by the cluster.
        let kind = ResourceType::new("velero.io/v1", "Backup", "backups", true);
        let object = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b1"}, "spec": {}});
        let backup_uid = scene.create(&kind, object).await["metadata"]["uid"].as_str().unwrap().to_owned();
        request.backup.metadata.uid = Some(backup_uid.clone());
        assert_eq!(request.item_block_workers, 1, "one block at a time");
        let agent = async {
            let mut begun = Vec::new();
            while begun.len() < names.len() {
                tokio::time::sleep(Duration::from_millis(200)).await;
                begun = copies(&scene, &backup_uid, &names).await;
            }
            for name in names {
                assert_eq!(trace_of(&scene, name).await, "stops\n", "{name} goes on before its copy is made");
            }
            for copy in begun {
                let name = copy["metadata"]["name"].as_str().unwrap();
                let done = json!({"status": {"phase": "Completed", "snapshotID": "k1"}});
                let item = types::POD_VOLUME_BACKUPS.item(Some(&scene.namespace), name);
                scene.cluster.merge_patch(item, &done).await.unwrap();
            }
        };
        let mut backup = std::pin::pin!(scene.try_back_up(request));
        tokio::select! {
            taken = &mut backup => panic!("it has not waited for its copies: {:?}", taken.unwrap().journal.results()),
            () = agent => {}
        }
        let taken = backup.await.unwrap();
        assert_eq!(taken.journal.counts().errors, 0, "{:?}", taken.journal.results());
        for name in names {
            assert_eq!(trace_of(&scene, name).await, "stops\ngoes on\n", "{name}");
        }
        let saved = &taken.outcome.saved;
        assert_eq!((saved.copies.len(), saved.infos.len()), (3, 3), "{saved:?}");
        assert!(saved.infos.iter().all(|info| info.result == Some(VolumeResult::Succeeded)));
    });
}

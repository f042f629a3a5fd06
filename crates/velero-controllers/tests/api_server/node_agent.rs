//! The node agent: what becomes of objects that move volume data, against a real API server. The test plays the kubelet.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use velero_api::annotations::PVC_NAME;
use velero_api::labels::{EXPOSE_ON_GOING, PVC_UID};
use velero_api::metadata::{label, uid};
use velero_api::records::{DATA_PATH_COMPLETED, DATA_PATH_PROGRESS};
use velero_api::v1::{PodVolumeBackup, PodVolumeRestore, PodVolumeRestoreSpec};
use velero_api::v2alpha1::{DataDownload, DataDownloadSpec, DataUpload, DataUploadSpec, TargetVolumeSpec};
use velero_api::{DataMovePhase, GoDuration};
use velero_controllers::node_agent::run_until;
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test};

use crate::agent_support::AgentNode;
use crate::support::{api, config_map};

const RESULT: &str = r#"{"snapshotID":"af0d","emptySnapshot":false,"source":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":4096,"incrementalBytes":12}"#;

fn is(phase: DataMovePhase) -> impl Fn(&PodVolumeBackup) -> bool {
    move |backup| *backup.status.phase() == phase
}

/// Brings a backup to InProgress; its mover.
async fn in_progress(node: &AgentNode, name: &str) -> Pod {
    let mover = node.mover(name).await;
    node.set_status(name, json!({"phase": "Running"})).await;
    node.until(name, is(DataMovePhase::InProgress)).await;
    mover
}

#[test]
fn a_backup_goes_through_its_phases_and_leaves_nothing_behind() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;
        let made = node.backup("b-1", &pod).await;
        let mover = node.mover("b-1").await;
        let accepted = node.until("b-1", is(DataMovePhase::Accepted)).await;
        assert_eq!(label(&accepted, EXPOSE_ON_GOING), "true");
        assert_eq!(accepted.metadata.finalizers.as_deref().unwrap(), ["velero.io/pod-volume-finalizer"]);
        check_mover(&node, &serde_json::to_value(&mover).unwrap(), uid(&made), uid(&pod));

        node.set_status("b-1", json!({"phase": "Running"})).await;
        let begun = node.until("b-1", is(DataMovePhase::InProgress)).await;
        assert!(begun.status.start_timestamp.is_some() && label(&begun, EXPOSE_ON_GOING).is_empty());
        node.report(&begun, DATA_PATH_PROGRESS, r#"{"totalBytes":4096,"doneBytes":1024}"#).await;
        node.until("b-1", |backup: &PodVolumeBackup| backup.status.progress.bytes_done == 1024).await;

        node.end_mover(&mover, 0, RESULT).await;
        let ended = node.until("b-1", is(DataMovePhase::Completed)).await;
        let status = &ended.status;
        assert_eq!((status.snapshot_id.as_str(), status.incremental_bytes), ("af0d", 12));
        assert_eq!((status.progress.total_bytes, status.progress.bytes_done), (4096, 4096));
        assert!(status.completion_timestamp.is_some() && status.message.is_empty());
        node.until_clean::<PodVolumeBackup>("b-1").await;
        node.remove().await;
    });
}

fn check_mover(node: &AgentNode, mover: &Value, owner: &str, pod: &str) {
    let (spec, container) = (&mover["spec"], &mover["spec"]["containers"][0]);
    assert_eq!(mover["metadata"]["labels"]["velero.io/pod-volume-backup"], "b-1");
    assert_eq!(mover["metadata"]["labels"]["velero.io/exclude-from-backup"], "true");
    assert_eq!(mover["metadata"]["ownerReferences"][0]["uid"], owner);
    assert_eq!((&spec["nodeName"], &spec["serviceAccountName"]), (&json!(node.node), &json!("velero-data-mover")));
    assert_eq!((&spec["restartPolicy"], &container["image"]), (&json!("Never"), &json!("example.io/velero:test")));
    assert_eq!(container["command"], json!(["/velero", "pod-volume", "backup"]));
    let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for expected in [&format!("--volume-path=/{owner}"), "--pod-volume-backup=b-1", "--resource-timeout=10m0s"] {
        assert!(arguments.contains(&expected), "{arguments:?}");
    }
    let folder = node.host_pods.path().join(pod).join("volumes/kubernetes.io~empty-dir/data");
    assert_eq!(spec["volumes"][0]["name"], owner);
    assert_eq!(spec["volumes"][0]["hostPath"]["path"], folder.display().to_string());
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["name"] == owner).unwrap();
    assert_eq!((&mount["readOnly"], &mount["mountPropagation"]), (&json!(true), &json!("HostToContainer")));
    let rights = &container["securityContext"];
    assert_eq!(rights["capabilities"], json!({"drop": ["ALL"], "add": ["DAC_READ_SEARCH"]}));
    assert_eq!((&rights["privileged"], &rights["allowPrivilegeEscalation"]), (&json!(false), &json!(false)));
    assert_eq!(rights["readOnlyRootFilesystem"], true);
}

#[test]
fn a_backup_is_complete_when_its_mover_says_so_not_when_its_pod_is_seen_to_end() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;
        node.backup("told", &pod).await;
        in_progress(&node, "told").await;
        let begun = node.until("told", is(DataMovePhase::InProgress)).await;
        let mut another = begun.clone();
        another.metadata.uid = Some("another".to_owned());
        node.report(&another, DATA_PATH_COMPLETED, r#"{"snapshotID":"of-another"}"#).await;
        node.report(&begun, DATA_PATH_COMPLETED, RESULT).await;
        let ended = node.until("told", is(DataMovePhase::Completed)).await;
        assert_eq!((ended.status.snapshot_id.as_str(), ended.status.incremental_bytes), ("af0d", 12));
        node.until_clean::<PodVolumeBackup>("told").await;
        node.remove().await;
    });
}

#[test]
fn a_copy_of_a_volume_that_goes_with_its_pod_has_failed_where_the_pod_has_ended_meanwhile() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;
        node.backup("b-1", &pod).await;
        let mover = in_progress(&node, "b-1").await;
        node.set_status("app", json!({"phase": "Succeeded"})).await;
        node.end_mover(&mover, 0, RESULT).await;
        let failed = node.until("b-1", is(DataMovePhase::Failed)).await;
        let said = &failed.status.message;
        assert!(said.contains("volume \"data\"") && said.contains("/app") && said.contains("may lack files"), "{said}");
        assert!(failed.status.snapshot_id.is_empty(), "nobody must restore from it");
        node.until_clean::<PodVolumeBackup>("b-1").await;
        node.remove().await;
    });
}

#[test]
fn a_copy_of_a_claim_has_failed_where_the_claim_is_gone_meanwhile() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let claim = json!({"metadata": {"name": "kept"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "nobody",
                "resources": {"requests": {"storage": "1Mi"}}}});
        let kept = claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
        for (name, claim, claim_uid, phase) in [
            ("there", "kept", uid(&kept), DataMovePhase::Completed),
            ("gone", "nobody", "another", DataMovePhase::Failed),
            ("replaced", "kept", "another", DataMovePhase::Failed),
        ] {
            node.backup(name, &pod).await;
            let mover = in_progress(&node, name).await;
            let of_claim = json!({"annotations": {PVC_NAME: claim}, "labels": {PVC_UID: claim_uid}});
            node.patch::<PodVolumeBackup>(name, json!({"metadata": of_claim})).await;
            node.end_mover(&mover, 0, RESULT).await;
            let ended = node.until(name, |backup: &PodVolumeBackup| backup.status.phase().is_terminal()).await;
            let said = &ended.status.message;
            assert_eq!(*ended.status.phase(), phase, "{name}: {said}");
            if phase == DataMovePhase::Failed {
                assert!(said.contains(&format!("/{claim}")) && said.contains("volume \"data\""), "{name}: {said}");
                assert!(said.contains("may lack files") && ended.status.snapshot_id.is_empty(), "{name}: {said}");
            }
            node.until_clean::<PodVolumeBackup>(name).await;
        }
        node.remove().await;
    });
}

#[test]
fn a_cancel_or_a_deletion_ends_a_backup_wherever_it_is() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;

        node.backup("accepted", &pod).await;
        node.mover("accepted").await;
        node.patch::<PodVolumeBackup>("accepted", json!({"spec": {"cancel": true}})).await;
        node.until("accepted", is(DataMovePhase::Canceled)).await;
        node.until_clean::<PodVolumeBackup>("accepted").await;

        node.backup("moving", &pod).await;
        let mover = in_progress(&node, "moving").await;
        node.patch::<PodVolumeBackup>("moving", json!({"spec": {"cancel": true}})).await;
        node.until("moving", is(DataMovePhase::Canceling)).await;
        node.end_mover(&mover, 1, "error to save: data path is canceled").await;
        node.until("moving", is(DataMovePhase::Canceled)).await;
        node.until_clean::<PodVolumeBackup>("moving").await;

        node.backup("deleted", &pod).await;
        node.mover("deleted").await;
        api::<PodVolumeBackup>(&cluster).delete("deleted", &DeleteParams::default()).await.unwrap();
        node.until_clean::<PodVolumeBackup>("deleted").await;
        assert!(api::<PodVolumeBackup>(&cluster).get_opt("deleted").await.unwrap().is_none());

        node.backup("deleted-moving", &pod).await;
        let mover = in_progress(&node, "deleted-moving").await;
        api::<PodVolumeBackup>(&cluster).delete("deleted-moving", &DeleteParams::default()).await.unwrap();
        let asked = node.until("deleted-moving", is(DataMovePhase::Canceling)).await;
        assert!(asked.spec.cancel && asked.status.message.contains("being deleted"), "{asked:#?}");
        node.end_mover(&mover, 1, "data path is canceled").await;
        node.until_clean::<PodVolumeBackup>("deleted-moving").await;
        node.remove().await;
    });
}

#[test]
fn a_mover_that_cannot_start_or_ends_badly_ends_its_backup_with_the_reason() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;

        let stuck = node.backup("stuck", &pod).await;
        node.mover("stuck").await;
        let waiting = json!({
            "name": uid(&stuck), "image": "example.io/velero:test", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "it is not there"}},
        });
        node.set_status("stuck", json!({"phase": "Pending", "containerStatuses": [waiting]})).await;
        let ended = node.until("stuck", is(DataMovePhase::Canceled)).await;
        let message = &ended.status.message;
        assert!(message.contains("ErrImageNeverPull") && message.contains("volume \"data\" of pod"), "{message}");
        node.until_clean::<PodVolumeBackup>("stuck").await;

        node.backup("failed", &pod).await;
        let mover = in_progress(&node, "failed").await;
        node.end_mover(&mover, 1, "error opening the repository: invalid password").await;
        let ended = node.until("failed", is(DataMovePhase::Failed)).await;
        assert!(ended.status.message.contains("invalid password"), "{}", ended.status.message);
        node.until_clean::<PodVolumeBackup>("failed").await;

        node.backup("killed", &pod).await;
        in_progress(&node, "killed").await;
        node.pods().delete("killed", &DeleteParams::default().grace_period(0)).await.unwrap();
        let ended = node.until("killed", is(DataMovePhase::Failed)).await;
        assert!(ended.status.message.contains("was removed"), "{}", ended.status.message);
        node.until_clean::<PodVolumeBackup>("killed").await;

        node.backup("garbled", &pod).await;
        let mover = in_progress(&node, "garbled").await;
        node.end_mover(&mover, 0, "done").await;
        let ended = node.until("garbled", is(DataMovePhase::Failed)).await;
        assert!(ended.status.message.contains("cannot be read"), "{}", ended.status.message);
        node.remove().await;
    });
}

#[test]
fn what_cannot_be_copied_is_refused_with_pod_and_volume() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;
        let idle = node.pod_with_volume("idle", &[]).await;
        node.set_status("idle", json!({"phase": "Succeeded"})).await;
        let foreign = json!({"metadata": {"name": "taken"}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
        node.pods().create(&PostParams::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
        for (name, pod, patch, expected) in [
            ("no-volume", &pod, json!({"volume": "other"}), "it has no volume \"other\""),
            ("host-path", &pod, json!({"volume": "root"}), "is a hostPath"),
            ("replaced", &pod, json!({"pod": {"uid": "another"}}), "it is gone, or another pod has its name"),
            ("gone", &pod, json!({"pod": {"name": "nobody", "uid": ""}}), "it is gone, or another pod has its name"),
            ("restic", &pod, json!({"uploaderType": "restic"}), "only kopia is"),
            ("idle-pod", &idle, json!({}), "only volumes of running pods"),
            ("taken", &pod, json!({}), "belongs to something else"),
        ] {
            let mut spec = serde_json::to_value(node_backup_spec(&node, pod)).unwrap();
            merge(&mut spec, &patch);
            let spec = serde_json::from_value(spec).unwrap();
            node.create(PodVolumeBackup::new(&cluster.namespace, name, spec)).await;
            let ended = node.until(name, |backup: &PodVolumeBackup| backup.status.phase().is_terminal()).await;
            assert_eq!(*ended.status.phase(), DataMovePhase::Failed, "{name}: {}", ended.status.message);
            assert!(ended.status.message.contains(expected), "{name}: {}", ended.status.message);
        }
        assert!(node.pods().get_opt("taken").await.unwrap().is_some(), "a pod of somebody else was removed");
        node.remove().await;
    });
}

fn node_backup_spec(node: &AgentNode, pod: &Pod) -> velero_api::v1::PodVolumeBackupSpec {
    let mut spec = velero_api::v1::PodVolumeBackupSpec {
        node: node.node.clone(),
        volume: "data".to_owned(),
        uploader_type: "kopia".to_owned(),
        ..Default::default()
    };
    spec.pod.name = pod.metadata.name.clone();
    spec.pod.namespace = pod.metadata.namespace.clone();
    spec
}

fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| merge(&mut target[key], value)),
        value => *target = value.clone(),
    }
}

#[test]
fn one_at_a_time_moves_data_and_then_the_next() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;
        for name in ["first", "second"] {
            node.backup(name, &pod).await;
            node.mover(name).await;
        }
        let mover = in_progress(&node, "first").await;
        node.set_status("second", json!({"phase": "Running"})).await;
        node.until("second", is(DataMovePhase::Prepared)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        node.until("second", is(DataMovePhase::Prepared)).await;
        node.end_mover(&mover, 0, RESULT).await;
        node.until("second", is(DataMovePhase::InProgress)).await;
        node.remove().await;
    });
}

/// So the server lets go of copies whose agents do not clean up in time when their backup is deleted.
#[test]
fn a_backup_that_is_removed_by_force_leaves_its_place_to_the_next() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;
        for name in ["first", "second"] {
            node.backup(name, &pod).await;
            node.mover(name).await;
        }
        in_progress(&node, "first").await;
        node.set_status("second", json!({"phase": "Running"})).await;
        node.until("second", is(DataMovePhase::Prepared)).await;
        node.patch::<PodVolumeBackup>("first", json!({"metadata": {"finalizers": null}})).await;
        api::<PodVolumeBackup>(&cluster).delete("first", &DeleteParams::default()).await.unwrap();
        node.until("second", is(DataMovePhase::InProgress)).await;
        node.remove().await;
    });
}

#[test]
fn a_restarted_agent_goes_on_with_what_the_one_before_it_left() {
    cluster_test(|cluster| async move {
        let mut node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;
        for name in ["ended", "lost", "waits"] {
            node.backup(name, &pod).await;
            node.mover(name).await;
        }
        // Beyond the load concurrency: an agent whose limit was higher had begun both.
        let ended = in_progress(&node, "ended").await;
        node.stop().await;
        node.patch::<PodVolumeBackup>("lost", json!({"status": {"phase": "InProgress"}})).await;
        node.pods().delete("lost", &DeleteParams::default().grace_period(0)).await.unwrap();
        node.end_mover(&ended, 0, RESULT).await;
        node.start(node.settings()).await;
        node.until("ended", is(DataMovePhase::Completed)).await;
        let lost = node.until("lost", is(DataMovePhase::Failed)).await;
        assert!(lost.status.message.contains("was removed"), "{}", lost.status.message);
        in_progress(&node, "waits").await;
        for name in ["ended", "lost"] {
            node.until_clean::<PodVolumeBackup>(name).await;
        }
        node.remove().await;
    });
}

#[test]
fn a_restarted_agent_counts_what_moves_data_before_it_begins_the_next() {
    cluster_test(|cluster| async move {
        let mut node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &[]).await;
        node.backup("moves", &pod).await;
        in_progress(&node, "moves").await;
        // As many as are prepared at a time.
        let waiting = ["waits-a", "waits-b", "waits-c"];
        for name in waiting {
            node.backup(name, &pod).await;
            node.mover(name).await;
            node.set_status(name, json!({"phase": "Running"})).await;
            node.until(name, is(DataMovePhase::Prepared)).await;
        }
        node.stop().await;
        node.backup("further", &pod).await;
        node.start(node.settings()).await;
        // Long enough for it to have looked at all of them.
        tokio::time::sleep(Duration::from_secs(4)).await;
        for name in waiting {
            node.until(name, is(DataMovePhase::Prepared)).await;
        }
        node.until("further", is(DataMovePhase::New)).await;
        assert!(
            node.pods().get_opt("further").await.unwrap().is_none(),
            "one more was prepared than there is room for"
        );
        node.remove().await;
    });
}

#[test]
fn preparing_and_moving_have_deadlines() {
    cluster_test(|cluster| async move {
        let mut node = AgentNode::new(&cluster).await;
        let mut settings = node.settings();
        settings.data_mover_prepare_timeout = GoDuration::from_secs(3);
        settings.data_mover_still_timeout = GoDuration::from_secs(2);
        node.start(settings).await;
        let pod = node.pod_with_volume("app", &[]).await;
        node.backup("late", &pod).await;
        node.mover("late").await;
        let unplaced =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"});
        node.set_status("late", json!({"phase": "Pending", "conditions": [unplaced]})).await;
        let ended = node.until("late", is(DataMovePhase::Failed)).await;
        let said = format!("Pod {}/late is Pending: no node fits", cluster.namespace);
        for words in ["volume \"data\" of pod", "timeout on preparing", "--data-mover-prepare-timeout", said.as_str()] {
            assert!(ended.status.message.contains(words), "{words}: {}", ended.status.message);
        }
        node.until_clean::<PodVolumeBackup>("late").await;
        node.backup("still", &pod).await;
        in_progress(&node, "still").await;
        let asked = node.until("still", is(DataMovePhase::Canceling)).await;
        assert!(asked.spec.cancel && asked.status.message.contains("no progress"), "{asked:#?}");
        // The mover, which nobody plays on, never ends: its pod goes, and both reasons are told with the volume.
        let ended = node.until("still", is(DataMovePhase::Canceled)).await;
        for word in ["volume \"data\" of pod", "no progress", "did not end when told to"] {
            assert!(ended.status.message.contains(word), "{}", ended.status.message);
        }
        node.until_clean::<PodVolumeBackup>("still").await;
        node.remove().await;
    });
}

#[test]
fn a_restore_begins_when_its_pod_waits_for_it() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let pod = node.pod_with_volume("app", &["restore-wait"]).await;
        node.set_status("app", json!({"phase": "Pending"})).await;
        let mut spec = PodVolumeRestoreSpec {
            volume: "data".to_owned(),
            uploader_type: "kopia".to_owned(),
            snapshot_id: "af0d".to_owned(),
            ..PodVolumeRestoreSpec::default()
        };
        spec.pod.name = pod.metadata.name.clone();
        spec.pod.namespace = pod.metadata.namespace.clone();
        node.create(PodVolumeRestore::new(&cluster.namespace, "r-1", spec)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        node.until("r-1", |restore: &PodVolumeRestore| *restore.status.phase() == DataMovePhase::New).await;
        let running = json!({
            "name": "restore-wait", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"running": {}},
        });
        node.set_status("app", json!({"phase": "Pending", "initContainerStatuses": [running]})).await;
        let mover = node.mover("r-1").await;
        let container = serde_json::to_value(&mover.spec.as_ref().unwrap().containers[0]).unwrap();
        assert_eq!(container["command"], json!(["/velero", "pod-volume", "restore"]));
        let added = &container["securityContext"]["capabilities"]["add"];
        assert_eq!(*added, json!(["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"]));
        node.set_status("r-1", json!({"phase": "Running"})).await;
        let begun = |restore: &PodVolumeRestore| *restore.status.phase() == DataMovePhase::InProgress;
        assert_eq!(node.until("r-1", begun).await.status.node, node.node);
        node.end_mover(&mover, 0, r#"{"target":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":7}"#).await;
        let done = |restore: &PodVolumeRestore| *restore.status.phase() == DataMovePhase::Completed;
        assert_eq!(node.until("r-1", done).await.status.progress.bytes_done, 7);
        node.until_clean::<PodVolumeRestore>("r-1").await;
        node.remove().await;
    });
}

/// Makes a class whose volumes are made with the first pod, claims of it, and a DataDownload for each; the names of both.
async fn downloads_of_late_claims(cluster: &TestCluster, count: usize) -> (String, Vec<String>) {
    let class = unique_name("late");
    let object = json!({"metadata": {"name": class}, "provisioner": "example.com/nobody",
        "volumeBindingMode": "WaitForFirstConsumer"});
    let classes: Api<StorageClass> = Api::all(cluster.client.clone());
    classes.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let names: Vec<String> = (0..count).map(|number| format!("late-{number}")).collect();
    for name in &names {
        let claim = json!({"metadata": {"name": format!("claim-of-{name}")},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "1Mi"}}}});
        claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
        let target_volume = TargetVolumeSpec {
            pvc: format!("claim-of-{name}"),
            namespace: cluster.namespace.clone(),
            ..TargetVolumeSpec::default()
        };
        let spec = DataDownloadSpec {
            target_volume,
            snapshot_id: "af0d".to_owned(),
            operation_timeout: GoDuration::from_mins(1),
            ..DataDownloadSpec::default()
        };
        let download = DataDownload::new(&cluster.namespace, name, spec);
        api::<DataDownload>(cluster).create(&PostParams::default(), &download).await.unwrap();
    }
    (class, names)
}

#[test]
fn downloads_that_wait_for_the_first_pod_of_their_claims_take_no_place_until_it_is_there() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        // One more than are prepared at a time.
        let (class, downloads) = downloads_of_late_claims(&cluster, 4).await;
        for name in &downloads {
            let waits = |download: &DataDownload| {
                *download.status.phase() == DataMovePhase::Accepted && label(download, EXPOSE_ON_GOING).is_empty()
            };
            node.until(name, waits).await;
        }
        let pod = node.pod_with_volume("app", &[]).await;
        node.backup("b-1", &pod).await;
        in_progress(&node, "b-1").await;

        let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let placed = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node.node}}});
        let first = downloads[0].as_str();
        claims.patch(&format!("claim-of-{first}"), &PatchParams::default(), &Patch::Merge(placed)).await.unwrap();
        node.mover(first).await;
        let begun = api::<DataDownload>(&cluster).get(first).await.unwrap();
        assert_eq!(*begun.status.phase(), DataMovePhase::Accepted, "{begun:#?}");
        assert_eq!((label(&begun, EXPOSE_ON_GOING), begun.status.accepted_by_node.as_str()), ("true", &*node.node));
        let made = claims.get(first).await.unwrap();
        assert_eq!(label(&made, "velero.io/exclude-from-backup"), "true");
        let classes: Api<StorageClass> = Api::all(cluster.client.clone());
        classes.delete(&class, &DeleteParams::default()).await.unwrap();
        node.remove().await;
    });
}

/// Makes a volume that the claim for the mover of a download has, and keeps that claim from going away; its name.
async fn volume_that_stays(node: &AgentNode, class: &str, claim: &str) -> String {
    let volume = unique_name("filled");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(node.cluster.client.clone(), &node.cluster.namespace);
    let made = claims.get(claim).await.unwrap();
    let object = json!({"metadata": {"name": volume},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"}, "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": node.cluster.namespace, "name": claim, "uid": uid(&made)}}});
    let volumes: Api<PersistentVolume> = Api::all(node.cluster.client.clone());
    volumes.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let held = json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection", "example.com/held"]},
        "spec": {"volumeName": volume}});
    claims.patch(claim, &PatchParams::default(), &Patch::Merge(held)).await.unwrap();
    volume
}

#[test]
fn the_next_download_moves_data_while_the_volume_of_the_one_before_changes_hands() {
    cluster_test(|cluster| async move {
        let node = AgentNode::with_agent(&cluster).await;
        let (class, downloads) = downloads_of_late_claims(&cluster, 2).await;
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        for name in &downloads {
            let placed = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node.node}}});
            claims.patch(&format!("claim-of-{name}"), &PatchParams::default(), &Patch::Merge(placed)).await.unwrap();
            node.mover(name).await;
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node.node}});
            let pods = node.pods();
            let bound =
                pods.create_subresource::<Value, Value>("binding", name, &PostParams::default(), &binding).await;
            bound.unwrap();
        }
        let (first, second) = (downloads[0].as_str(), downloads[1].as_str());
        let is = |phase: DataMovePhase| move |download: &DataDownload| *download.status.phase() == phase;
        node.set_status(first, json!({"phase": "Running"})).await;
        node.until(first, is(DataMovePhase::InProgress)).await;
        node.set_status(second, json!({"phase": "Running"})).await;
        node.until(second, is(DataMovePhase::Prepared)).await;
        let volume = volume_that_stays(&node, &class, first).await;
        let result = r#"{"target":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":4096}"#;
        node.end_mover(&node.mover(first).await, 0, result).await;
        node.until(second, is(DataMovePhase::InProgress)).await;
        node.until(first, is(DataMovePhase::InProgress)).await;
        node.remove().await;

        let let_go = json!({"metadata": {"finalizers": null}});
        claims.patch(first, &PatchParams::default(), &Patch::Merge(let_go)).await.unwrap();
        let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
        volumes.delete(&volume, &DeleteParams::default()).await.unwrap();
        let classes: Api<StorageClass> = Api::all(cluster.client.clone());
        classes.delete(&class, &DeleteParams::default()).await.unwrap();
    });
}

#[test]
fn an_upload_is_taken_by_one_agent_and_one_for_a_vendor_by_none() {
    cluster_test(|cluster| async move {
        let nodes = [AgentNode::with_agent(&cluster).await, AgentNode::with_agent(&cluster).await];
        let spec = |mover: &str| DataUploadSpec {
            snapshot_type: "CSI".to_owned(),
            csi_snapshot: Some(velero_api::v2alpha1::CsiSnapshotSpec {
                volume_snapshot: "s".to_owned(),
                storage_class: "c".to_owned(),
                ..Default::default()
            }),
            source_pvc: "nobody".to_owned(),
            source_namespace: cluster.namespace.clone(),
            data_mover: mover.to_owned(),
            operation_timeout: GoDuration::from_mins(1),
            ..DataUploadSpec::default()
        };
        nodes[0].create(DataUpload::new(&cluster.namespace, "vendor", spec("tape"))).await;
        for number in 0..8 {
            nodes[0].create(DataUpload::new(&cluster.namespace, &format!("du-{number}"), spec("velero"))).await;
        }
        for number in 0..8 {
            let name = format!("du-{number}");
            let ended =
                nodes[0].until(&name, |upload: &DataUpload| *upload.status.phase() == DataMovePhase::Failed).await;
            assert!(nodes.iter().any(|node| node.node == ended.status.accepted_by_node), "{ended:#?}");
            assert!(ended.status.message.contains("nobody"), "{}", ended.status.message);
        }
        let vendor = api::<DataUpload>(&cluster).get("vendor").await.unwrap();
        assert!(vendor.status.phase.is_none() && vendor.metadata.finalizers.is_none(), "{vendor:#?}");
        for node in nodes {
            node.remove().await;
        }
    });
}

#[test]
fn an_agent_that_would_do_harm_does_not_start_and_says_why() {
    cluster_test(|cluster| async move {
        let node = AgentNode::new(&cluster).await;
        let refusal = async |settings| run_until(settings, Default::default()).await.unwrap_err().to_string();

        config_map(&cluster, "nonsense", "config", r#"{"loadConcurrency": {"globalConfig": "many"}}"#).await;
        let mut settings = node.settings();
        settings.node_agent_configmap = "nonsense".to_owned();
        let said = refusal(settings.clone()).await;
        assert!(said.contains("--node-agent-configmap") && said.contains("loadConcurrency"), "{said}");
        settings.node_agent_configmap = "missing".to_owned();
        let said = refusal(settings).await;
        assert!(said.contains("missing") && said.contains("does not exist"), "{said}");

        let mut settings = node.settings();
        settings.node_name = "no-such-node".to_owned();
        assert!(refusal(settings).await.contains("no-such-node"));

        let pod = node.pod_with_volume("app", &[]).await;
        std::fs::remove_dir_all(node.host_pods.path().join(uid(&pod))).unwrap();
        let said = refusal(node.settings()).await;
        assert!(said.contains("--host-pods") && said.contains("/app"), "{said}");
        std::fs::create_dir(node.host_pods.path().join(uid(&pod))).unwrap();

        let other = json!({
            "metadata": {"name": "node-agent-x", "labels": {"role": "node-agent"}},
            "spec": {"nodeName": node.node, "containers": [{"name": "a", "image": "b"}]},
        });
        node.pods().create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
        let said = refusal(node.settings()).await;
        assert!(said.contains("node-agent-x") && said.contains("another namespace"), "{said}");
        node.remove().await;
    });
}

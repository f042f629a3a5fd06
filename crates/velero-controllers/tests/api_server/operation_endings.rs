//! What else becomes of backups and restores that wait: finalized, deleted, outlived, looked at.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use velero_api::records::{BackupOperation, ResourceList, ResultsFile};
use velero_api::v1::{
    Backup, BackupPhase, DeleteBackupRequest, DeleteBackupRequestSpec, DownloadRequest, DownloadRequestPhase,
    DownloadRequestSpec, DownloadTarget, DownloadTargetKind, Restore, RestorePhase, RestoreSpec,
};
use velero_archive::{ArchiveReader, Error, gzjson};
use velero_controllers::server::Settings;
use velero_testkit::cluster_test;
use velero_testkit::harness::unique_name;

use crate::operation_table::hasty;
use crate::steered::{BACKUP_ACTION, Courses, PhaseWatch, RESTORE_ACTION, Steering};
use crate::support::{Server, assert_phase, assert_restore_phase, assert_says, delete_namespace, settings};
use crate::web_support::{Browser, People, free_address};

fn waits(backup: &Backup) -> bool {
    *backup.status.phase() == BackupPhase::WaitingForPluginOperations
}

fn entries(archive: &Path) -> BTreeMap<String, Value> {
    let mut entries = BTreeMap::new();
    let bytes = fs::read(archive).unwrap();
    ArchiveReader::new(bytes.as_slice())
        .for_each::<Error, _>(|entry| {
            let body = serde_json::from_slice(entry.body).unwrap_or(Value::Null);
            assert!(entries.insert(entry.path.to_owned(), body).is_none(), "{} is there twice", entry.path);
            Ok(())
        })
        .unwrap();
    entries
}

#[test]
fn what_operations_have_changed_is_in_the_final_archive() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &[]).await;
        courses.add("plain", json!({})).await;
        courses.add("changing", json!({})).await;
        courses.add_updating("mover", "takes=4", "changing").await;
        courses.add_updating("maker", "takes=4", "made-later").await;
        courses.add_updating("seeker", "takes=2", "absent").await;
        server.create(Backup::new(&cluster.namespace, "moved", courses.spec())).await;
        server.until("moved", waits).await;
        assert!(!directory.path().join("backups/moved/velero-backup.json").exists(), "it has not ended");
        let archive = directory.path().join("backups/moved/moved.tar.gz");
        let path = |name: &str| format!("resources/configmaps/namespaces/{}/{name}.json", courses.namespace);
        let before = entries(&archive);
        assert_eq!(before[&path("changing")]["data"]["state"], "old");
        assert!(!before.contains_key(&path("made-later")));
        let change = Patch::Merge(json!({"data": {"state": "new"}}));
        courses.config_maps().patch("changing", &PatchParams::default(), &change).await.unwrap();
        courses.config_maps().patch("plain", &PatchParams::default(), &change).await.unwrap();
        courses.add("made-later", json!({})).await;

        let backup = server.ended("moved").await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!((backup.status.warnings, backup.status.errors), (1, 0), "an item that is gone is a warning");
        let after = entries(&archive);
        assert_eq!(after[&path("changing")]["data"]["state"], "new");
        assert_eq!(after[&path("made-later")]["data"]["state"], "old");
        assert_eq!(after[&path("plain")]["data"]["state"], "old", "nobody asked for it");
        assert_eq!(after.len(), before.len() + 2, "one new item under two paths");
        let list = fs::read(directory.path().join("backups/moved/moved-resource-list.json.gz")).unwrap();
        let list: ResourceList = gzjson::decode(&list, 1 << 20).unwrap();
        assert!(list["v1/ConfigMap"].contains(&format!("{}/made-later", courses.namespace)), "{list:?}");
        let progress = backup.status.progress.as_ref().unwrap();
        let listed = list.values().map(Vec::len).sum::<usize>() as i64;
        assert_eq!((progress.items_backed_up, progress.total_items), (listed, listed), "what came later counts");
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_that_waits_is_in_nobodys_way_and_cannot_be_restored() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let one_at_a_time = velero_controllers::server::Settings { concurrent_backups: 1, ..hasty(settings(&cluster)) };
        let server = Server::start_with_actions(cluster.clone(), one_at_a_time, steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let endless = Courses::new(&cluster, BACKUP_ACTION, &["never"]).await;
        let quick = Courses::new(&cluster, BACKUP_ACTION, &["takes=1"]).await;
        server.create(Backup::new(&cluster.namespace, "endless", endless.spec())).await;
        server.until("endless", waits).await;
        assert_phase(&server.backup("quick", quick.spec()).await, &BackupPhase::Completed);
        let spec = RestoreSpec { backup_name: "endless".to_owned(), ..RestoreSpec::default() };
        let refused = server.restore("early", spec).await;
        assert_restore_phase(&refused, &RestorePhase::FailedValidation);
        assert!(waits(&server.api::<Backup>().get("endless").await.unwrap()));
        endless.delete().await;
        quick.delete().await;
        server.stop().await;
    });
}

#[test]
fn the_operations_of_a_deleted_backup_are_cancelled_in_any_phase() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["never", "never"]).await;
        let slow = Courses::new(&cluster, BACKUP_ACTION, &["never"]).await;
        slow.add_slow("slow", "never", 10).await;
        for name in ["waiting", "removed"] {
            server.create(Backup::new(&cluster.namespace, name, courses.spec())).await;
            server.until(name, waits).await;
        }
        server.create(Backup::new(&cluster.namespace, "running", slow.spec())).await;
        while steering.started("running").len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        for name in ["waiting", "running"] {
            let spec = DeleteBackupRequestSpec { backup_name: name.to_owned(), ..Default::default() };
            server.create(DeleteBackupRequest::new(&cluster.namespace, &format!("delete-{name}"), spec)).await;
            server.until_gone::<Backup>(name).await;
            assert!(!directory.path().join("backups").join(name).exists(), "{name}");
        }
        assert_eq!(steering.cancelled("waiting"), steering.started("waiting"));
        assert_eq!(steering.started("waiting").len(), 2);
        // The action was waited for that had not said yet what it had started.
        assert_eq!(steering.cancelled("running"), steering.started("running"));
        assert_eq!(steering.started("running").len(), 2);
        // Nobody asked for the deletion of this one: its object was just removed.
        server.api::<Backup>().delete("removed", &DeleteParams::default()).await.unwrap();
        server.until_gone::<Backup>("removed").await;
        for _ in 0..100 {
            if steering.cancelled("removed").len() == 2 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(steering.cancelled("removed"), steering.started("removed"));
        courses.delete().await;
        slow.delete().await;
        server.stop().await;
    });
}

#[test]
fn the_operations_of_a_deleted_restore_are_cancelled() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, RESTORE_ACTION, &["never", "never"]).await;
        assert_phase(&server.backup("source", courses.spec()).await, &BackupPhase::Completed);
        let copies = [unique_name("copy"), unique_name("copy")];
        for (name, copy) in ["alone", "with-its-backup"].iter().zip(&copies) {
            let spec = RestoreSpec {
                backup_name: "source".to_owned(),
                namespace_mapping: [(courses.namespace.clone(), copy.clone())].into(),
                ..RestoreSpec::default()
            };
            server.create(Restore::new(&cluster.namespace, name, spec)).await;
            let waits = |restore: &Restore| *restore.status.phase() == RestorePhase::WaitingForPluginOperations;
            server.until(name, waits).await;
        }
        server.api::<Restore>().delete("alone", &DeleteParams::default()).await.unwrap();
        server.until_gone::<Restore>("alone").await;
        assert_eq!(steering.cancelled("alone").len(), 2);
        assert!(!directory.path().join("restores/alone").exists());
        let spec = DeleteBackupRequestSpec { backup_name: "source".to_owned(), ..Default::default() };
        server.create(DeleteBackupRequest::new(&cluster.namespace, "delete-source", spec)).await;
        server.until_gone::<Backup>("source").await;
        assert!(server.api::<Restore>().get_opt("with-its-backup").await.unwrap().is_none());
        assert_eq!(steering.cancelled("with-its-backup").len(), 2);
        courses.delete().await;
        for copy in copies {
            delete_namespace(&cluster, &copy).await;
        }
        server.stop().await;
    });
}

#[test]
fn who_downloads_the_operations_sees_how_far_they_are_now() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["takes=1000"]).await;
        server.create(Backup::new(&cluster.namespace, "long", courses.spec())).await;
        server.until("long", waits).await;
        while steering.asked("long") < 4 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let target = DownloadTarget {
            kind: DownloadTargetKind::BackupItemOperations,
            name: "long".to_owned(),
            ..Default::default()
        };
        let spec = DownloadRequestSpec { target, ..Default::default() };
        server.create(DownloadRequest::new(&cluster.namespace, "look", spec)).await;
        let processed = |request: &DownloadRequest| *request.status.phase() == DownloadRequestPhase::Processed;
        server.until("look", processed).await;
        let file = fs::read(directory.path().join("backups/long/long-itemoperations.json.gz")).unwrap();
        let operations: Vec<BackupOperation> = gzjson::decode(&file, 1 << 20).unwrap();
        assert!(operations[0].status.n_completed >= 3, "{operations:?}");
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn who_looks_at_the_page_sees_how_far_operations_are_now() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let address = free_address();
        let settings = Settings { web_address: address.clone(), ..hasty(settings(&cluster)) };
        let server = Server::start_with_actions(cluster.clone(), settings, steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["takes=1000"]).await;
        server.create(Backup::new(&cluster.namespace, "long", courses.spec())).await;
        server.until("long", waits).await;
        while steering.asked("long") < 4 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let people = People::make(&cluster);
        let page = Browser::signed_in(&address, &people.token("operator")).await.get("/backups/long").await;
        assert_eq!(page.code, 200, "{}", page.body);
        let is_told = (3..1000).any(|done| page.body.contains(&format!("max=\"1000\" value=\"{done}\"")));
        assert!(is_told, "{}", page.body);
        people.remove();
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn hooks_of_a_restore_go_on_while_it_waits_and_are_waited_for_after_that() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, RESTORE_ACTION, &["takes=3", "fails=2"]).await;
        // No node runs the pod, so its hook waits as long as it may and then fails.
        let pod = json!({
            "metadata": {"name": "web", "annotations": {
                "post.hook.restore.velero.io/command": "[\"/bin/true\"]",
                "post.hook.restore.velero.io/wait-timeout": "8s",
            }},
            "spec": {"containers": [{"name": "web", "image": "web:v1"}]},
        });
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &courses.namespace);
        pods.create(&Default::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        assert_phase(&server.backup("source", courses.spec()).await, &BackupPhase::Completed);
        let (watch, copy) =
            (PhaseWatch::start(&cluster, |restore: &Restore| restore.status.phase().to_string()), unique_name("copy"));
        let spec = RestoreSpec {
            backup_name: "source".to_owned(),
            namespace_mapping: [(courses.namespace.clone(), copy.clone())].into(),
            ..RestoreSpec::default()
        };
        let restore = server.restore("hooked", spec).await;
        assert_restore_phase(&restore, &RestorePhase::PartiallyFailed);
        assert_eq!(
            watch.of("hooked", "PartiallyFailed").await,
            [
                "InProgress",
                "WaitingForPluginOperations",
                "WaitingForPluginOperationsPartiallyFailed",
                "FinalizingPartiallyFailed",
                "PartiallyFailed",
            ]
        );
        let hooks = restore.status.hook_status.unwrap();
        assert_eq!((hooks.hooks_attempted, hooks.hooks_failed), (1, 1));
        let results = fs::read(directory.path().join("restores/hooked/restore-hooked-results.gz")).unwrap();
        let results: ResultsFile = gzjson::decode(&results, 1 << 20).unwrap();
        assert_eq!(results.errors.len() as i64, restore.status.errors);
        assert_says(&results.errors.namespaces[&copy], "no space left, plugin: test.velero.io/restore");
        courses.delete().await;
        delete_namespace(&cluster, &copy).await;
        server.stop().await;
    });
}

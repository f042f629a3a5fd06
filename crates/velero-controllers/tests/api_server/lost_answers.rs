//! Changes of backups and restores whose answers get lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use tempfile::TempDir;
use velero_api::annotations::{HOLDER_IDENTITY, RETRY_INTERRUPTED};
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestSpec, Restore, RestorePhase, RestoreSpec,
};
use velero_controllers::server::{PatienceSettings, Settings};
use velero_testkit::{TestCluster, cluster_test, storage_box_test};

use crate::lossy_proxy::{Fate, open, open_for};
use crate::moved_scene::{LOOKS, PAUSE, Scene, check_restore, done};
use crate::support::{Server, Workload, assert_phase, assert_restore_phase, assert_says, settings};

/// A rule that does this to the first changes of a kind of objects that bring them into a phase.
fn first(count: usize, plural: &'static str, phase: &str, fate: Fate) -> impl Fn(&str, &str) -> Fate + use<> {
    let (seen, phase) = (AtomicUsize::new(0), format!("\"phase\":\"{phase}\""));
    move |path, body| {
        let chosen = path.contains(&format!("/{plural}/")) && body.contains(&phase);
        if chosen && seen.fetch_add(1, Ordering::SeqCst) < count { fate } else { Fate::Answered }
    }
}

#[test]
fn work_that_was_taken_without_an_answer_is_found_again_and_goes_on() {
    cluster_test(|cluster| async move {
        let (directory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (of_backup, of_restore) =
            (first(1, "backups", "InProgress", Fate::Swallowed), first(1, "restores", "InProgress", Fate::Swallowed));
        let rule = move |path: &str, body: &str| match of_backup(path, body) {
            Fate::Answered => of_restore(path, body),
            fate => fate,
        };
        let kubeconfig = Some(open(&cluster, folder.path(), rule).await);
        let server = Server::start_with(cluster.clone(), Settings { kubeconfig, ..settings(&cluster) }).await;
        server.directory_location("default", directory.path()).await;
        let workload = Workload::new(&cluster, 2).await;
        assert_phase(&server.backup("lost", workload.spec()).await, &BackupPhase::Completed);
        let next = server.backup("next", workload.spec()).await;
        assert_phase(&next, &BackupPhase::Completed);
        let annotations = next.metadata.annotations.unwrap();
        assert!(!annotations.contains_key(HOLDER_IDENTITY), "nobody holds what has ended: {annotations:?}");
        let spec = RestoreSpec { backup_name: "lost".to_owned(), ..RestoreSpec::default() };
        assert_restore_phase(&server.restore("lost", spec).await, &RestorePhase::Completed);
        workload.delete().await;
        server.stop().await;
    });
}

/// How many changes get lost: all tries of one attempt.
const LOST: usize = 2;

/// The contents of snapshots of a namespace.
async fn contents_of(scene: &Scene) -> Vec<String> {
    let kind = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshotContent");
    let resource = ApiResource::from_gvk_with_plural(&kind, "volumesnapshotcontents");
    let contents: Api<DynamicObject> = Api::all_with(scene.cluster().client.clone(), &resource);
    let found = contents.list(&ListParams::default()).await.unwrap().items;
    let is_of = |content: &&DynamicObject| content.data["spec"]["volumeSnapshotRef"]["namespace"] == *scene.namespace;
    found.iter().filter(is_of).map(|content| content.metadata.name.clone().unwrap()).collect()
}

async fn until_no_contents(scene: &Scene) {
    for _ in 0..LOOKS {
        if contents_of(scene).await.is_empty() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("left are {:?}", contents_of(scene).await);
}

/// A scene with one claim in which the first changes of a kind of objects get lost, with the count of the changes and the folder of
/// its kubeconfig.
async fn losing(
    cluster: &TestCluster,
    methods: &'static [Method],
    plural: &'static str,
) -> (Scene, Arc<AtomicUsize>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let rule = move |path: &str, _: &str| {
        let is_chosen = path.contains(&format!("/{plural}/"));
        if is_chosen && counted.fetch_add(1, Ordering::SeqCst) < LOST { Fate::Lost } else { Fate::Answered }
    };
    let kubeconfig = Some(open_for(cluster, folder.path(), methods, rule).await);
    let scene = Scene::with_settings(cluster, &["data"], Settings { kubeconfig, ..settings(cluster) }).await;
    (scene, sent, folder)
}

#[test]
fn a_snapshot_whose_release_is_broken_off_half_way_leaves_no_object_in_the_cluster() {
    storage_box_test(|cluster| async move {
        let (scene, deletions, _folder) = losing(&cluster, &[Method::DELETE], "volumesnapshotcontents").await;
        scene.begin("b", BackupSpec { snapshot_move_data: None, ..scene.spec() }).await;
        assert_phase(&scene.ended("b").await, &BackupPhase::Completed);
        until_no_contents(&scene).await;
        assert!(scene.snapshots().await.is_empty());
        assert!(deletions.load(Ordering::SeqCst) > LOST, "no deletion of a content was lost and sent again");
        let deletion = DeleteBackupRequestSpec { backup_name: "b".to_owned(), ..Default::default() };
        scene.server.create(DeleteBackupRequest::new(&cluster.namespace, "gone", deletion)).await;
        scene.server.until_gone::<Backup>("b").await;
        scene.end(&[]).await;
    });
}

#[test]
fn the_snapshot_of_a_claim_that_failed_is_removed_by_the_last_step() {
    storage_box_test(|cluster| async move {
        // The snapshot can neither be followed nor, after that, be removed.
        let (scene, _, _folder) = losing(&cluster, &[Method::PATCH], "volumesnapshotcontents").await;
        scene.begin("b", BackupSpec { snapshot_move_data: None, ..scene.spec() }).await;
        let backup = scene.ended("b").await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        assert_eq!(backup.status.backup_item_operations_attempted, 0, "nothing is followed");
        scene.until_no_snapshots().await;
        until_no_contents(&scene).await;
        scene.end(&[]).await;
    });
}

#[test]
fn a_new_volume_gets_what_the_old_one_had_though_the_first_tries_are_lost() {
    storage_box_test(|cluster| async move {
        let (scene, _, _folder) = losing(&cluster, &[Method::PATCH], "persistentvolumes").await;
        scene.begin("b", scene.spec()).await;
        let upload = scene.uploads("b", 1).await.remove("data").unwrap();
        scene.write(&upload, done("k1")).await;
        assert_phase(&scene.ended("b").await, &BackupPhase::Completed);
        let copy = check_restore(&scene).await;
        scene.end(&[&copy]).await;
    });
}

#[test]
fn work_that_was_taken_and_could_not_be_looked_at_goes_on() {
    cluster_test(|cluster| async move {
        let (directory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sent = AtomicUsize::new(0);
        // From the first try to take it to the second one nobody learns how the object is.
        let rule = move |path: &str, body: &str| {
            if !path.contains("/backups/lost") {
                return Fate::Answered;
            }
            let is_try = body.contains("\"phase\":\"InProgress\"");
            match sent.fetch_add(usize::from(is_try), Ordering::SeqCst) {
                0 if is_try => Fate::Swallowed,
                1 if !is_try => Fate::Lost,
                _ => Fate::Answered,
            }
        };
        let kubeconfig = Some(open_for(&cluster, folder.path(), &[Method::GET, Method::PATCH], rule).await);
        let server = Server::start_with(cluster.clone(), Settings { kubeconfig, ..settings(&cluster) }).await;
        server.directory_location("default", directory.path()).await;
        let workload = Workload::new(&cluster, 2).await;
        assert_phase(&server.backup("lost", workload.spec()).await, &BackupPhase::Completed);
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn an_end_is_written_as_soon_as_the_api_server_takes_it_however_long_that_lasts() {
    cluster_test(|cluster| async move {
        let (directory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rule = first(7, "backups", "Completed", Fate::Lost);
        let kubeconfig = Some(open(&cluster, folder.path(), rule).await);
        // No limit for single requests is one for the end.
        let patience = PatienceSettings { resource_timeout: velero_api::GoDuration::from_secs(1) };
        let settings = Settings { kubeconfig, patience, ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        server.directory_location("default", directory.path()).await;
        let workload = Workload::new(&cluster, 2).await;
        assert_phase(&server.backup("late", workload.spec()).await, &BackupPhase::Completed);
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn what_nobody_works_on_ends_without_a_restart() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let slow = Settings { client_qps: Some(8.0), client_burst: Some(8), client_page_size: 1, ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), slow).await;
        server.directory_location("default", directory.path()).await;
        let workload = Workload::new(&cluster, 30).await;
        server.create(Backup::new(&cluster.namespace, "held", workload.spec())).await;
        let held = server.until("held", |backup: &Backup| *backup.status.phase() == BackupPhase::InProgress).await;
        let holder = held.metadata.annotations.unwrap()[HOLDER_IDENTITY].clone();
        let annotations = Some([(HOLDER_IDENTITY.to_owned(), holder)].into());

        let mut left = Backup::new(&cluster.namespace, "left", workload.spec());
        left.metadata.annotations.clone_from(&annotations);
        left.status.phase = Some(BackupPhase::InProgress);
        server.api::<Backup>().create(&PostParams::default(), &left).await.unwrap();
        let mut restore = Restore::new(&cluster.namespace, "left", RestoreSpec::default());
        restore.metadata.annotations = annotations;
        restore.status.phase = Some(RestorePhase::InProgress);
        server.api::<Restore>().create(&PostParams::default(), &restore).await.unwrap();

        let left = server.ended("left").await;
        assert_phase(&left, &BackupPhase::Failed);
        assert_says(&[left.status.failure_reason], "lost track");
        let restore = server.restore_ended("left").await;
        assert_restore_phase(&restore, &RestorePhase::Failed);
        let held = server.ended("held").await;
        assert_phase(&held, &BackupPhase::Completed);
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn what_a_server_that_is_gone_took_by_a_late_write_ends_and_is_taken_again() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        let workload = Workload::new(&cluster, 1).await;
        let notes = [(HOLDER_IDENTITY, "another_1"), (RETRY_INTERRUPTED, "true")];
        let annotations = Some(notes.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let mut late = Backup::new(&cluster.namespace, "late", workload.spec());
        late.spec.storage_location = "default".to_owned();
        late.metadata.annotations.clone_from(&annotations);
        late.status.phase = Some(BackupPhase::InProgress);
        server.api::<Backup>().create(&PostParams::default(), &late).await.unwrap();
        let mut restore = Restore::new(&cluster.namespace, "late", RestoreSpec::default());
        restore.metadata.annotations = annotations;
        restore.status.phase = Some(RestorePhase::InProgress);
        server.api::<Restore>().create(&PostParams::default(), &restore).await.unwrap();

        let late = server.ended("late").await;
        assert_phase(&late, &BackupPhase::Failed);
        assert_says(&[late.status.failure_reason], "the server that took the backup into work is gone");
        assert_phase(&server.ended("late-retry-1").await, &BackupPhase::Completed);
        assert_restore_phase(&server.restore_ended("late").await, &RestorePhase::Failed);
        workload.delete().await;
        server.stop().await;
    });
}

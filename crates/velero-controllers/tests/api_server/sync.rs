//! Backups found in a bucket.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use velero_api::GoDuration;
use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation};
use velero_store::{Credentials, StoreConfig};
use velero_testkit::cluster_test;
use velero_testkit::faulty_proxy::{self, Action};

use crate::s3_support::{s3, s3_behind, s3_keys};
use crate::support::{Server, Workload, assert_phase, assert_says, settings};

fn store(directory: &std::path::Path, name: &str, phase: BackupPhase) {
    let mut backup = Backup::new("elsewhere", name, Default::default());
    backup.metadata.uid = Some("0000".to_owned());
    backup.metadata.resource_version = Some("1".to_owned());
    backup.spec.storage_location = "theirs".to_owned();
    backup.status.phase = Some(phase);
    let folder = directory.join("backups").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("velero-backup.json"), serde_json::to_vec(&backup).unwrap()).unwrap();
}

#[test]
fn backups_of_the_bucket_come_into_the_cluster_and_go_with_their_files() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        store(directory.path(), "done", BackupPhase::Completed);
        store(directory.path(), "half", BackupPhase::Finalizing);
        fs::create_dir_all(directory.path().join("backups/unfinished")).unwrap();
        fs::write(directory.path().join("backups/unfinished/unfinished.tar.gz"), "x").unwrap();
        fs::create_dir_all(directory.path().join("backups/garbage")).unwrap();
        fs::write(directory.path().join("backups/garbage/velero-backup.json"), "no JSON").unwrap();
        let settings =
            velero_controllers::server::Settings { backup_sync_period: GoDuration::from_secs(1), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("ours", directory.path()).await;

        let synced = server.until("done", |_: &Backup| true).await;
        assert_phase(&synced, &BackupPhase::Completed);
        assert_eq!(synced.spec.storage_location, "ours");
        assert_phase(&server.backup("own", workload.spec()).await, &BackupPhase::Completed);
        for absent in ["half", "unfinished", "garbage"] {
            assert!(server.api::<Backup>().get_opt(absent).await.unwrap().is_none(), "{absent}");
        }
        server.until_metrics(&["velero_backup_orphans{backup_location_name=\"ours\"} 1"]).await;
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let mut notes = Vec::new();
        for _ in 0..300 {
            let listed = events.list(&ListParams::default()).await.unwrap();
            notes = listed.into_iter().filter_map(|event| event.note).collect::<Vec<String>>();
            if !notes.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_says(&notes, "not known in this cluster: unfinished");
        assert!(directory.path().join("backups/unfinished").exists(), "what is reported stays");
        fs::remove_dir_all(directory.path().join("backups/done")).unwrap();
        server.until_gone::<Backup>("done").await;
        assert!(server.api::<Backup>().get_opt("own").await.unwrap().is_some());
        workload.delete().await;
        server.stop().await;
    });
}

/// The requests to a store, as method and path.
type Requests = Arc<Mutex<Vec<String>>>;

/// Waits until a location has been synced once more.
async fn until_synced(server: &Server, location: &str) {
    let last = server.api::<BackupStorageLocation>().get(location).await.unwrap().status.last_synced_time;
    server.until(location, |found: &BackupStorageLocation| found.status.last_synced_time != last).await;
}

#[test]
fn a_backup_that_is_known_is_not_read_again_and_a_new_one_is_read_once() {
    cluster_test(|cluster| async move {
        let requests = Requests::default();
        let seen = requests.clone();
        let rule = move |request: &faulty_proxy::Request| {
            seen.lock().unwrap().push(format!("{} {}", request.method, request.path));
            Action::Forward
        };
        let behind = s3_behind(&cluster, rule).await;
        let mut config = StoreConfig::from_spec(&s3(&cluster));
        config.credentials = Some(Credentials::Content(s3_keys()));
        let store = config.open().await.unwrap();
        let names: Vec<String> = (0..20).map(|number| format!("b{number}")).collect();
        for name in &names {
            let mut backup = Backup::new("elsewhere", name, Default::default());
            backup.status.phase = Some(BackupPhase::Completed);
            let key = format!("{}/backups/{name}/velero-backup.json", cluster.namespace);
            store.put(&key, serde_json::to_vec(&backup).unwrap().into()).await.unwrap();
        }
        let settings =
            velero_controllers::server::Settings { backup_sync_period: GoDuration::from_secs(1), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        server.location("default", behind).await;
        for name in &names {
            server.until(name, |_: &Backup| true).await;
        }
        until_synced(&server, "default").await;
        let of = |name: &str| {
            let file = format!("/backups/{name}/velero-backup.json");
            requests.lock().unwrap().iter().filter(|request| request.contains(&file)).count()
        };
        for name in &names {
            assert_eq!(of(name), 1, "{name}: {:?}", requests.lock().unwrap());
        }
        until_synced(&server, "default").await;
        requests.lock().unwrap().clear();
        for _ in 0..3 {
            until_synced(&server, "default").await;
        }
        let later = requests.lock().unwrap().clone();
        assert!(later.len() >= 3, "{later:?}");
        assert!(later.iter().all(|request| request.contains("list-type=2")), "{later:?}");
        server.stop().await;
    });
}

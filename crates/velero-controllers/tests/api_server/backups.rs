//! Backups that succeed, and what they leave.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use velero_api::annotations::CLEAN_UP_OWED;
use velero_api::metadata::annotation;
use velero_api::v1::{Backup, BackupPhase};
use velero_archive::{ArchiveReader, gzjson};
use velero_store::{Credentials, StoreConfig};
use velero_testkit::cluster_test;
use velero_testkit::faulty_proxy::{self, Action, Request};

use crate::s3_support::{s3, s3_behind, s3_keys};
use crate::support::{Server, Workload, assert_phase, secret};

fn paths(archive: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let reader = ArchiveReader::new(fs::File::open(archive).unwrap());
    let read = reader.for_each(|entry| {
        paths.push(entry.path.to_owned());
        Ok::<_, velero_archive::Error>(())
    });
    read.unwrap();
    paths
}

fn json(file: &Path) -> Value {
    gzjson::decode(&fs::read(file).unwrap(), gzjson::DEFAULT_LIMIT).unwrap()
}

#[test]
fn a_backup_into_a_directory_completes_with_all_its_files() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 3).await;
        server.directory_location("default", directory.path()).await;

        let backup = server.backup("first", workload.spec()).await;
        assert_phase(&backup, &BackupPhase::Completed);
        let progress = backup.status.progress.clone().unwrap();
        assert_eq!(progress.total_items, progress.items_backed_up);
        assert!(backup.status.start_timestamp.is_some() && backup.status.completion_timestamp.is_some());
        assert_eq!(backup.spec.storage_location, "default");

        let folder = directory.path().join("backups/first");
        let found = paths(&folder.join("first.tar.gz"));
        assert_eq!(found[0], "metadata/version");
        let item = format!("resources/configmaps/namespaces/{}/settings-0.json", workload.namespace);
        assert!(found.contains(&item), "{found:?}");
        let stored: Backup = serde_json::from_slice(&fs::read(folder.join("velero-backup.json")).unwrap()).unwrap();
        assert_phase(&stored, &BackupPhase::Completed);
        assert_eq!(stored.status, backup.status);
        let resources: BTreeMap<String, Vec<String>> =
            serde_json::from_value(json(&folder.join("first-resource-list.json.gz"))).unwrap();
        assert!(resources["v1/ConfigMap"].contains(&format!("{}/settings-1", workload.namespace)), "{resources:?}");
        assert_eq!(resources.values().map(Vec::len).sum::<usize>() as i64, progress.items_backed_up);
        assert_eq!(json(&folder.join("first-itemoperations.json.gz")), serde_json::json!([]));
        let log = gzjson::decompress(&fs::read(folder.join("first-logs.gz")).unwrap(), 10_000_000).unwrap();
        let log = String::from_utf8(log).unwrap();
        assert!(log.contains("level=info") && log.contains(&format!("backup={}/first", cluster.namespace)), "{log}");
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_into_s3_completes_with_the_keys_of_a_secret() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 2).await;
        secret(&cluster, "cloud-credentials", "cloud", &s3_keys()).await;
        let location = server.location("default", s3(&cluster)).await;
        assert!(location.is_available(), "{:?}", location.status);
        let backup = server.backup("first", workload.spec()).await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.status.errors, 0);
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_name_that_could_not_be_given_back_at_the_end_of_a_backup_is_given_back_later() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        let deletes = Arc::new(AtomicBool::new(false));
        let may = Arc::clone(&deletes);
        let rule = move |request: &Request| {
            let refusal = "<Error><Code>AccessDenied</Code><Message>not now</Message></Error>";
            match request.method == "DELETE" && !may.load(Ordering::SeqCst) {
                true => faulty_proxy::answer("403 Forbidden", "application/xml", refusal),
                false => Action::Forward,
            }
        };
        let spec = s3_behind(&cluster, rule).await;
        server.location("default", spec.clone()).await;
        let completed = server.backup("b", workload.spec()).await;
        assert_phase(&completed, &BackupPhase::Completed);
        assert!(annotation(&completed, CLEAN_UP_OWED).contains("reservation"), "{:?}", completed.metadata);
        deletes.store(true, Ordering::SeqCst);
        let paid = server.until("b", |backup: &Backup| annotation(backup, CLEAN_UP_OWED).is_empty()).await;
        assert_eq!(paid.status, completed.status);
        let config =
            StoreConfig { credentials: Some(Credentials::Content(s3_keys())), ..StoreConfig::from_spec(&spec) };
        let folder = format!("{}/backups/b/", cluster.namespace);
        let files = config.open().await.unwrap().list_objects(&folder).await.unwrap();
        assert!(files.len() > 5 && !files.iter().any(|file| file.contains("reservation")), "{files:?}");
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn backups_that_come_together_all_complete() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        let names = ["one", "two", "three"];
        for name in names {
            server.create(Backup::new(&cluster.namespace, name, workload.spec())).await;
        }
        for name in names {
            let backup = server.ended(name).await;
            assert_phase(&backup, &BackupPhase::Completed);
            assert_eq!(backup.status.queue_position, 0);
        }
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_malformed_backup_is_refused_and_hinders_nobody() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        let resource = kube::api::ApiResource::erase::<Backup>(&());
        let api: kube::Api<kube::api::DynamicObject> =
            kube::Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource);
        let mut broken = kube::api::DynamicObject::new("broken", &resource);
        broken.data = serde_json::json!({"spec": {"ttl": "banana"}});
        api.create(&Default::default(), &broken).await.unwrap();

        let backup = server.backup("sound", workload.spec()).await;
        assert_phase(&backup, &BackupPhase::Completed);
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            let broken = api.get("broken").await.unwrap();
            if broken.data["status"]["phase"] == "FailedValidation" {
                let errors = broken.data["status"]["validationErrors"].to_string();
                assert!(errors.contains("banana"), "{errors}");
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "{:?}", broken.data);
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        workload.delete().await;
        server.stop().await;
    });
}

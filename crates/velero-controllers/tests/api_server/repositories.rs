//! BackupRepositories: made, connected, refused, maintained; the Secret with their password.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use velero_api::repository::{self, KOPIA, PASSWORD_KEY, PASSWORD_SECRET, STATIC_PASSWORD};
use velero_api::v1::{
    BackupRepository, BackupRepositoryMaintenanceResult, BackupRepositoryPhase, BackupRepositorySpec,
    BackupStorageLocation,
};
use velero_controllers::server::LogSettings;
use velero_controllers::{MaintenanceSettings, run_maintenance};
use velero_repo::clock::system_clock;
use velero_repo::store::{BlobStore, FolderStore};
use velero_repo::{Repository, RepositoryState, repository_state};
use velero_testkit::{TestCluster, cluster_test};

use crate::s3_support::{s3, s3_keys};
use crate::support::{Server, assert_says, config_map, secret, settings};

/// The BackupRepository of a namespace in location `default`.
pub(crate) fn of(cluster: &TestCluster, volume_namespace: &str) -> BackupRepository {
    let spec = BackupRepositorySpec {
        volume_namespace: volume_namespace.to_owned(),
        backup_storage_location: "default".to_owned(),
        repository_type: KOPIA.to_owned(),
        ..BackupRepositorySpec::default()
    };
    let name = repository::name(volume_namespace, "default", KOPIA);
    let mut made = BackupRepository::new(&cluster.namespace, &name, spec);
    made.metadata.labels = Some(repository::labels(volume_namespace, "default", KOPIA));
    made
}

pub(crate) fn is_ready(repository: &BackupRepository) -> bool {
    *repository.status.phase() == BackupRepositoryPhase::Ready
}

fn is_not_ready(repository: &BackupRepository) -> bool {
    *repository.status.phase() == BackupRepositoryPhase::NotReady
}

/// The blobs of the repository of a namespace below a directory.
pub(crate) fn blobs(directory: &Path, volume_namespace: &str) -> Arc<dyn BlobStore> {
    Arc::new(FolderStore::open(directory.join("kopia").join(volume_namespace)).unwrap())
}

/// Makes a repository as another cluster would have.
fn make(directory: &Path, volume_namespace: &str, password: &str) {
    let day = Duration::from_secs(24 * 3600);
    Repository::create(blobs(directory, volume_namespace), password, day, &system_clock()).unwrap();
}

/// The password of the cluster; `None` when there is none.
pub(crate) async fn password(cluster: &TestCluster) -> Option<String> {
    let api: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let found = api.get_opt(PASSWORD_SECRET).await.unwrap()?;
    Some(String::from_utf8(found.data.unwrap()[PASSWORD_KEY].0.clone()).unwrap())
}

#[test]
fn a_new_repository_is_made_and_the_password_with_it_once_and_told() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        config_map(&cluster, "repositories", KOPIA, r#"{"cacheLimitMB": 100, "fullMaintenanceInterval": "eagerGC"}"#)
            .await;
        let mut settings = settings(&cluster);
        settings.repositories.backup_repository_configmap = "repositories".to_owned();
        let server = Server::start_with(cluster.clone(), settings).await;
        server.directory_location("default", directory.path()).await;
        assert_eq!(password(&cluster).await, None, "nobody needs one yet");
        server.create(of(&cluster, "shop")).await;
        let ready = server.until("shop-default-kopia", is_ready).await;
        assert_eq!(ready.spec.maintenance_frequency.to_string(), "1h0m0s");
        assert_eq!(ready.spec.repository_config["cacheLimitMB"], "100");
        assert!(ready.status.last_maintenance_time.is_some() && ready.status.message.is_empty());

        let made = password(&cluster).await.unwrap();
        assert!(made.len() >= 32 && made != STATIC_PASSWORD, "{made}");
        let store = blobs(directory.path(), "shop");
        assert_eq!(repository_state(store.as_ref()).unwrap(), RepositoryState::Ready);
        Repository::open(store, &made).unwrap();
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let events = events.list(&ListParams::default()).await.unwrap();
        let notes: Vec<String> = events.items.into_iter().filter_map(|event| event.note).collect();
        assert_says(&notes, "Keep a copy outside the cluster");

        server.create(of(&cluster, "other")).await;
        server.until("other-default-kopia", is_ready).await;
        assert_eq!(password(&cluster).await.unwrap(), made, "one for all");
        server.stop().await;
    });
}

#[test]
fn a_repository_in_a_bucket_lies_where_velero_looks_for_it() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        secret(&cluster, "cloud-credentials", "cloud", &s3_keys()).await;
        let spec = s3(&cluster);
        let location = server.location("default", spec.clone()).await;
        assert!(location.is_available(), "{:?}", location.status);
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;
        let mut config = velero_store::StoreConfig::from_spec(&spec);
        config.credentials = Some(velero_store::Credentials::Content(s3_keys()));
        let store = config.open().await.unwrap();
        let folder = repository::folder(&spec.object_storage.prefix, "shop");
        for blob in ["kopia.repository", "kopia.blobcfg", "udmrepo.Repository"] {
            assert!(store.exists(&format!("{folder}/{blob}")).await.unwrap(), "{folder}/{blob}");
        }
        server.stop().await;
    });
}

#[test]
fn repositories_of_velero_are_opened_with_its_password_and_others_are_asked_for() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        make(directory.path(), "shop", STATIC_PASSWORD);
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        server.create(of(&cluster, "new")).await;
        server.until("new-default-kopia", is_ready).await;
        assert_eq!(password(&cluster).await.as_deref(), Some(STATIC_PASSWORD), "what exists must open");
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;

        make(directory.path(), "foreign", "another password");
        server.create(of(&cluster, "foreign")).await;
        let foreign = server.until("foreign-default-kopia", is_not_ready).await;
        assert_says(&[foreign.status.message], "the password does not open the repository");
        server.stop().await;
    });
}

#[test]
fn no_password_is_made_where_repositories_have_one_that_nobody_knows() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        make(directory.path(), "shop", "kept elsewhere");
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        server.create(of(&cluster, "shop")).await;
        let refused = server.until("shop-default-kopia", is_not_ready).await;
        assert_says(&[&refused.status.message], "a password that is not known here");
        assert_says(&[&refused.status.message], "kubectl -n");
        assert_eq!(password(&cluster).await, None);

        // With its last line break, as files have it.
        secret(&cluster, PASSWORD_SECRET, PASSWORD_KEY, "kept elsewhere\n").await;
        server.api::<BackupRepository>().delete("shop-default-kopia", &DeleteParams::default()).await.unwrap();
        server.until_gone::<BackupRepository>("shop-default-kopia").await;
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;
        server.stop().await;
    });
}

#[test]
fn nothing_is_made_in_a_location_that_is_read_only() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        secret(&cluster, PASSWORD_SECRET, PASSWORD_KEY, "p").await;
        make(directory.path(), "there", "p");
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        server.patch::<BackupStorageLocation>("default", json!({"spec": {"accessMode": "ReadOnly"}})).await;
        for namespace in ["absent", "there"] {
            server.create(of(&cluster, namespace)).await;
        }
        server.until("there-default-kopia", is_ready).await;
        let absent = server.until("absent-default-kopia", is_not_ready).await;
        assert_says(&[absent.status.message], "is ReadOnly (spec.accessMode)");
        assert!(!directory.path().join("kopia/absent").exists());
        server.stop().await;
    });
}

#[test]
fn foreign_data_and_nonsense_are_named() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("kopia/mixed")).unwrap();
        std::fs::write(directory.path().join("kopia/mixed/holiday.f"), "x").unwrap();
        secret(&cluster, PASSWORD_SECRET, PASSWORD_KEY, "p").await;
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        let mut elsewhere = of(&cluster, "elsewhere");
        elsewhere.spec.backup_storage_location = "gone".to_owned();
        let mut escaping = of(&cluster, "escaping");
        escaping.spec.volume_namespace = "../backups".to_owned();
        let mut restic = of(&cluster, "restic");
        restic.spec.repository_type = "restic".to_owned();
        let mut hasty = of(&cluster, "hasty");
        hasty.spec.repository_config.insert("fullMaintenanceInterval".to_owned(), "always".to_owned());
        for (repository, piece) in [
            (of(&cluster, "mixed"), "is not empty (holiday)"),
            (elsewhere, "BackupStorageLocation \"gone\" (spec.backupStorageLocation) does not exist"),
            (escaping, "spec.volumeNamespace \"../backups\" cannot be a namespace"),
            (restic, "only \"kopia\" can be used"),
            (hasty, "normalGC, fastGC or eagerGC"),
        ] {
            let name = repository.metadata.name.clone().unwrap();
            server.create(repository).await;
            let refused = server.until(&name, is_not_ready).await;
            assert_says(&[refused.status.message], piece);
        }
        server.stop().await;
    });
}

#[test]
fn a_location_that_goes_and_comes_back_elsewhere_has_its_repositories_established_again() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(&cluster);
        settings.store_validation_frequency = velero_api::GoDuration::from_secs(1);
        let server = Server::start_with(cluster.clone(), settings).await;
        server.directory_location("default", &directory.path().join("first")).await;
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;

        server.api::<BackupStorageLocation>().delete("default", &DeleteParams::default()).await.unwrap();
        let away = server.until("shop-default-kopia", is_not_ready).await;
        let told = ["re-establish on BSL change", "does not exist"];
        assert!(told.iter().any(|piece| away.status.message.contains(piece)), "{}", away.status.message);
        server.directory_location("default", &directory.path().join("second")).await;
        server.until("shop-default-kopia", is_ready).await;
        let moved = blobs(&directory.path().join("second"), "shop");
        assert_eq!(repository_state(moved.as_ref()).unwrap(), RepositoryState::Ready);

        let third = directory.path().join("third").display().to_string();
        server.patch::<BackupStorageLocation>("default", json!({"spec": {"config": {"path": third}}})).await;
        let deadline = tokio::time::Instant::now() + crate::support::PATIENCE;
        while !directory.path().join("third/kopia/shop").exists() {
            assert!(tokio::time::Instant::now() < deadline, "it is not made in the new place");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        server.until("shop-default-kopia", is_ready).await;
        server.stop().await;
    });
}

#[test]
fn a_server_without_a_deployment_maintains_itself_and_says_how_it_went() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;
        let due = json!({"spec": {"maintenanceFrequency": "1s"}});
        server.patch::<BackupRepository>("shop-default-kopia", due).await;
        let done = |repository: &BackupRepository| !repository.status.recent_maintenance.is_empty();
        let done = server.until("shop-default-kopia", done).await;
        let run = &done.status.recent_maintenance[0];
        assert_eq!(run.result, Some(BackupRepositoryMaintenanceResult::Succeeded), "{run:?}");
        assert!(directory.path().join("kopia/shop/kopia.maintenance.f").exists());
        let series = "velero_repo_maintenance_success_total{repository_name=\"shop-default-kopia\"}";
        server.until_metrics(&[series]).await;
        server.stop().await;
    });
}

#[test]
fn maintenance_is_a_job_that_is_told_of_once_also_after_a_restart() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let deployment = json!({
            "metadata": {"name": "velero"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"serviceAccountName": "default", "containers": [{"name": "velero", "image": "velero:none"}]},
            }},
        });
        deployments.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;
        let due = json!({"spec": {"maintenanceFrequency": "1s"}});
        server.patch::<BackupRepository>("shop-default-kopia", due).await;
        let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let parameters = ListParams::default().labels("velero.io/repo-name=shop-default-kopia");
        let deadline = tokio::time::Instant::now() + crate::support::PATIENCE;
        let job = loop {
            assert!(tokio::time::Instant::now() < deadline, "no Job was begun");
            if let Some(job) = jobs.list(&parameters).await.unwrap().items.into_iter().next() {
                break job.metadata.name.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert!(job.starts_with("shop-default-kopia-maintain-job-"), "{job}");
        server.stop().await;

        let server = Server::start(cluster.clone()).await;
        assert_eq!(jobs.list(&parameters).await.unwrap().items.len(), 1, "the one that runs is waited for");
        // What the job controller writes when the pod has ended; it has written the beginning, which cannot change.
        let begun = loop {
            assert!(tokio::time::Instant::now() < deadline, "the Job was not taken up");
            if let Some(time) = jobs.get(&job).await.unwrap().status.and_then(|status| status.start_time) {
                break time;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now, "reason": "Test"});
        let status = json!({"status": {
            "startTime": begun, "completionTime": now, "succeeded": 1, "active": 0, "ready": 0, "terminating": 0,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        }});
        jobs.patch_status(&job, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let told = |repository: &BackupRepository| !repository.status.recent_maintenance.is_empty();
        let told = server.until("shop-default-kopia", told).await;
        let results: Vec<_> = told.status.recent_maintenance.iter().map(|run| run.result.clone().unwrap()).collect();
        assert_eq!(results, [BackupRepositoryMaintenanceResult::Succeeded]);
        let series = "velero_repo_maintenance_success_total{repository_name=\"shop-default-kopia\"} 1";
        server.until_metrics(&[series]).await;
        server.stop().await;
    });
}

#[test]
fn what_a_job_runs_maintains_the_repository_and_names_its_errors() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;
        let told = |namespace: &str, location: &str| MaintenanceSettings {
            namespace: cluster.namespace.clone(),
            kubeconfig: Some(cluster.test_box.kubeconfig()),
            context: None,
            version: "test".to_owned(),
            volume_namespace: namespace.to_owned(),
            location: location.to_owned(),
            repository_type: KOPIA.to_owned(),
            log: LogSettings::default(),
        };
        run_maintenance(&told("shop", "default")).await.unwrap();
        assert!(directory.path().join("kopia/shop/kopia.maintenance.f").exists());
        run_maintenance(&told("shop", "default")).await.expect("nothing is due, which is no error");
        for (namespace, location, piece) in [
            ("shop", "gone", "BackupStorageLocation \"gone\": it does not exist"),
            ("other", "default", "there is no repository in"),
            ("", "default", "--repo-name"),
        ] {
            let error = run_maintenance(&told(namespace, location)).await.unwrap_err().to_string();
            assert!(error.starts_with("Repo maintenance error: ") && error.contains(piece), "{error}");
        }
        server.stop().await;
    });
}

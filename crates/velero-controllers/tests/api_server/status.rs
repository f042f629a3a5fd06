//! What the server says about itself.

use std::time::Duration;

use kube::api::DeleteParams;
use velero_api::GoDuration;
use velero_api::v1::{
    BackupStorageLocation, BackupStorageLocationSpec, SERVER_STATUS_NAME, ServerStatus, ServerStatusRequest,
    ServerStatusRequestPhase,
};
use velero_controllers::server::run_until;
use velero_testkit::cluster_test;

use crate::support::{Server, install_definitions, settings};

#[test]
fn a_status_request_is_answered_with_version_plugins_and_readiness() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let request = ServerStatusRequest::new(&cluster.namespace, "velero-cli-x", Default::default());
        server.create(request).await;
        let processed = |request: &ServerStatusRequest| *request.status.phase() == ServerStatusRequestPhase::Processed;
        let answered = server.until("velero-cli-x", processed).await;
        assert_eq!(answered.status.server_status, Some(ServerStatus::Waiting));
        assert!(answered.status.server_version.starts_with('v'));
        assert!(answered.status.plugins.iter().any(|plugin| plugin.name == "velero.io/pod"));

        server.directory_location("default", directory.path()).await;
        let ready = |request: &ServerStatusRequest| request.status.server_status == Some(ServerStatus::Ready);
        server.until(SERVER_STATUS_NAME, ready).await;
        server.stop().await;
    });
}

#[test]
fn the_kept_status_follows_locations_comes_back_and_is_written_only_when_it_changes() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(&cluster);
        settings.store_validation_frequency = GoDuration::from_secs(1);
        let server = Server::start_with(cluster.clone(), settings).await;
        let is = |status: ServerStatus| {
            move |request: &ServerStatusRequest| request.status.server_status.as_ref() == Some(&status)
        };
        server.until(SERVER_STATUS_NAME, is(ServerStatus::Waiting)).await;
        server.directory_location("default", directory.path()).await;
        server.until(SERVER_STATUS_NAME, is(ServerStatus::Ready)).await;
        let mut broken = BackupStorageLocationSpec { provider: "example.io/tape".to_owned(), ..Default::default() };
        broken.object_storage.bucket = "tape".to_owned();
        server.location("broken", broken).await;
        let before = server.until(SERVER_STATUS_NAME, is(ServerStatus::PartiallyReady)).await;
        // The locations are validated, and so written, several times.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let after = server.until(SERVER_STATUS_NAME, is(ServerStatus::PartiallyReady)).await;
        assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
        server.api::<BackupStorageLocation>().delete("broken", &DeleteParams::default()).await.unwrap();
        server.until(SERVER_STATUS_NAME, is(ServerStatus::Ready)).await;
        let deleted = server.api::<ServerStatusRequest>().delete(SERVER_STATUS_NAME, &DeleteParams::default()).await;
        deleted.unwrap();
        let again = server.until(SERVER_STATUS_NAME, is(ServerStatus::Ready)).await;
        assert_ne!(again.metadata.uid, before.metadata.uid);
        server.stop().await;
    });
}

#[test]
fn health_and_metrics_are_served() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        assert_eq!(server.http("/healthz").await.unwrap().text(), "ok");
        let metrics = server.http("/metrics").await.unwrap().text();
        for name in ["velero_backup_total", "velero_backup_attempt_total", "process_resident_memory_bytes"] {
            assert!(metrics.contains(name), "{name} is missing in\n{metrics}");
        }
        server.stop().await;
    });
}

#[test]
fn a_namespace_that_does_not_exist_ends_the_start_with_a_remedy() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let mut settings = settings(&cluster);
        settings.namespace = "no-such-namespace".to_owned();
        let error = run_until(settings, Default::default()).await.unwrap_err().to_string();
        assert!(error.contains("no-such-namespace") && error.contains("--namespace"), "{error}");
    });
}

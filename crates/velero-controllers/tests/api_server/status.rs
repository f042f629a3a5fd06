//! What the server says about itself.

use velero_api::v1::{SERVER_STATUS_NAME, ServerStatus, ServerStatusRequest, ServerStatusRequestPhase};
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

//! Files handed out.

use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DownloadRequest, DownloadRequestPhase, DownloadRequestSpec, DownloadTarget,
    DownloadTargetKind,
};
use velero_archive::gzjson;
use velero_controllers::{DOWNLOAD_TOKEN_ANNOTATION, SERVER_URL_SCHEME};
use velero_testkit::cluster_test;

use crate::s3_support::{s3, s3_keys};
use crate::support::{Server, Workload, assert_phase, assert_says, get, secret};

/// Asks for a file.
async fn ask(server: &Server, name: &str, kind: DownloadTargetKind, of: &str) {
    let target = DownloadTarget { kind, name: of.to_owned(), ..Default::default() };
    let spec = DownloadRequestSpec { target, ..Default::default() };
    server.create(DownloadRequest::new(&server.cluster.namespace, name, spec)).await;
}

/// Asks for a file and waits for the answer.
pub(crate) async fn download(server: &Server, name: &str, kind: DownloadTargetKind, of: &str) -> DownloadRequest {
    ask(server, name, kind, of).await;
    server.until(name, |request: &DownloadRequest| *request.status.phase() == DownloadRequestPhase::Processed).await
}

#[test]
fn a_request_that_can_never_be_answered_fails_at_once_and_says_why() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let refused = server.backup("refused", BackupSpec::default()).await;
        assert_phase(&refused, &BackupPhase::FailedValidation);
        let mut homeless = Backup::new(&cluster.namespace, "homeless", BackupSpec::default());
        homeless.spec.storage_location = "nowhere".to_owned();
        homeless.status.phase = Some(BackupPhase::Completed);
        server.create(homeless).await;
        for (kind, of, expected) in [
            (DownloadTargetKind::BackupLog, "refused", "`velero backup describe refused` says why"),
            (DownloadTargetKind::BackupLog, "absent", "backup \"absent\" does not exist"),
            (DownloadTargetKind::RestoreResults, "absent", "restore \"absent\" does not exist"),
            (DownloadTargetKind::BackupContents, "homeless", "backup storage location \"nowhere\" does not exist"),
        ] {
            let name = format!("{}-{of}", kind.as_str().to_lowercase());
            ask(&server, &name, kind, of).await;
            let failed = |request: &DownloadRequest| *request.status.phase() == DownloadRequestPhase::Failed;
            let request = server.until(&name, failed).await;
            assert_says(&[&request.status.message], expected);
            assert!(request.status.download_url.is_empty() && request.status.expiration.is_some(), "{request:?}");
        }
        server.stop().await;
    });
}

#[test]
fn a_directory_hands_its_files_out_through_the_server_to_who_knows_the_token() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("first", workload.spec()).await, &BackupPhase::Completed);

        let request = download(&server, "the-log", DownloadTargetKind::BackupLog, "first").await;
        let path = request.status.download_url.strip_prefix(SERVER_URL_SCHEME).expect("a directory has no URLs");
        let answer = server.http(path).await.unwrap();
        assert_eq!(answer.code, 200);
        let log = gzjson::decompress(&answer.body, 10_000_000).unwrap();
        assert!(String::from_utf8(log).unwrap().contains("level=info"));
        for wrong in ["/downloads/the-log", "/downloads/the-log?token=guess", "/downloads/other?token=guess"] {
            assert_eq!(server.http(wrong).await.unwrap().code, 404, "{wrong}");
        }
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn s3_hands_its_files_out_by_signed_url_and_the_server_does_too() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        secret(&cluster, "cloud-credentials", "cloud", &s3_keys()).await;
        server.location("default", s3(&cluster)).await;
        assert_phase(&server.backup("first", workload.spec()).await, &BackupPhase::Completed);

        let request = download(&server, "list", DownloadTargetKind::BackupResourceList, "first").await;
        let url = request.status.download_url.strip_prefix("http://").expect("a signed URL");
        let (address, path) = url.split_once('/').unwrap();
        let signed = get(address, &format!("/{path}")).await.unwrap();
        assert_eq!(signed.code, 200, "{}", String::from_utf8_lossy(&signed.body));
        let token = &request.metadata.annotations.as_ref().unwrap()[DOWNLOAD_TOKEN_ANNOTATION];
        let served = server.http(&format!("/downloads/list?token={token}")).await.unwrap();
        assert_eq!(served.body, signed.body);
        workload.delete().await;
        server.stop().await;
    });
}

//! Locations that can and cannot be used.

use std::fs;

use velero_api::v1::{BackupPhase, BackupSpec, BackupStorageLocation, BackupStorageLocationPhase};
use velero_testkit::cluster_test;
use velero_testkit::parts::ACCESS_KEY;

use crate::s3_support::s3;
use crate::support::{Server, assert_phase, assert_says, secret};

#[test]
fn foreign_folders_make_a_location_unavailable_until_they_are_gone() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("holiday-photos")).unwrap();
        fs::write(directory.path().join("holiday-photos/beach.jpg"), "x").unwrap();
        let mut settings = crate::support::settings(&cluster);
        settings.store_validation_frequency = velero_api::GoDuration::from_secs(1);
        let server = Server::start_with(cluster.clone(), settings).await;
        let location = server.directory_location("default", directory.path()).await;
        assert_eq!(location.status.phase, Some(BackupStorageLocationPhase::Unavailable));
        assert_says(&[location.status.message], "holiday-photos");
        let backup = server.backup("refused", BackupSpec::default()).await;
        assert_phase(&backup, &BackupPhase::FailedValidation);
        assert_says(&backup.status.validation_errors, "Unavailable");

        fs::remove_dir_all(directory.path().join("holiday-photos")).unwrap();
        let location = server.until("default", BackupStorageLocation::is_available).await;
        assert_eq!(location.status.message, "");
        server.stop().await;
    });
}

#[test]
fn wrong_keys_make_a_location_unavailable_and_stay_secret() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let keys = format!("[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key=not-the-secret\n");
        secret(&cluster, "cloud-credentials", "cloud", &keys).await;
        let location = server.location("default", s3(&cluster)).await;
        assert_eq!(location.status.phase, Some(BackupStorageLocationPhase::Unavailable), "{:?}", location.status);
        assert!(!location.status.message.contains("not-the-secret"), "{}", location.status.message);
        assert_says(&[location.status.message], "the secret does not belong to the access key (SignatureDoesNotMatch)");
        server.stop().await;
    });
}

#[test]
fn a_store_that_does_not_answer_is_soon_unavailable() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let mut spec = s3(&cluster);
        spec.config.insert("s3Url".to_owned(), "http://127.0.0.1:9".to_owned());
        secret(&cluster, "cloud-credentials", "cloud", "[default]\naws_access_key_id=a\naws_secret_access_key=b\n")
            .await;
        let location = server.location("default", spec).await;
        assert_eq!(location.status.phase, Some(BackupStorageLocationPhase::Unavailable), "{:?}", location.status);
        assert_says(&[location.status.message], "nothing listens at http://127.0.0.1:9; correct host and port");
        server.stop().await;
    });
}

#[test]
fn a_missing_secret_and_an_unknown_provider_are_named() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let location = server.location("no-secret", s3(&cluster)).await;
        assert_says(&[location.status.message], "cloud-credentials");
        let mut spec = s3(&cluster);
        spec.provider = "example.io/tape".to_owned();
        spec.credential = None;
        let location = server.location("no-provider", spec).await;
        assert_says(&[location.status.message], "example.io/tape");
        server.stop().await;
    });
}

#[test]
fn of_two_default_locations_the_younger_stays_one() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("older", &directory.path().join("older")).await;
        // Creation times have whole seconds.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        server.directory_location("younger", &directory.path().join("younger")).await;
        server.until("older", |location: &BackupStorageLocation| !location.spec.default).await;
        server.until("younger", |location: &BackupStorageLocation| location.spec.default).await;
        server.stop().await;
    });
}

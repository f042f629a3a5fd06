//! Reports that the server writes into the default location.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation};
use velero_controllers::server::Settings;
use velero_testkit::cluster_test;

use crate::support::{PATIENCE, Server, Workload, assert_phase, settings};

/// Waits for the newest report of a form; gives its text.
async fn newest(folder: &Path, form: &str, earlier: usize) -> String {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let mut found: Vec<_> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        found.retain(|path| path.extension().is_some_and(|extension| extension == form));
        found.sort();
        if let Some(newest) = found.last().filter(|_| found.len() > earlier) {
            return std::fs::read_to_string(newest).unwrap();
        }
        assert!(tokio::time::Instant::now() < deadline, "no report in {}", folder.display());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn a_report_is_written_beside_the_backups_and_disturbs_nobody() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        server.stop().await;

        let often = Settings { report_schedule: "@every 2s".to_owned(), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), often).await;
        let workload = Workload::new(&cluster, 1).await;
        let backup = server.backup("protected", workload.spec()).await;
        assert_phase(&backup, &BackupPhase::Completed);
        let folder = directory.path().join("metadata/reports");
        newest(&folder, "html", 0).await;
        let written = std::fs::read_dir(&folder).unwrap().count();
        // One that was begun after the backup had ended.
        let page = newest(&folder, "html", written / 2 + 1).await;
        assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"), "{page}");
        let data: Value = serde_json::from_str(&newest(&folder, "json", 0).await).unwrap();
        assert_eq!(
            (&data["summary"]["completed"], &data["serverNamespace"]),
            (&1.into(), &cluster.namespace.as_str().into())
        );

        let location: BackupStorageLocation = server.api().get("default").await.unwrap();
        assert!(location.is_available(), "{:?}", location.status);
        let backups = server.api::<Backup>().list(&Default::default()).await.unwrap().items;
        assert_eq!(backups.len(), 1, "a report is no backup");
        workload.delete().await;
        server.stop().await;
    });
}

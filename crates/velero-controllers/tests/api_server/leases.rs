//! Several servers in one namespace: one works, the others wait.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use velero_api::GoDuration;
use velero_api::v1::{Backup, BackupPhase, DeleteBackupRequest, DeleteBackupRequestSpec, DownloadTargetKind};
use velero_controllers::SERVER_URL_SCHEME;
use velero_controllers::server::{Settings, run_until};
use velero_testkit::faulty_proxy::{Action, Request};
use velero_testkit::{TestCluster, cluster_test};

use crate::downloads::download;
use crate::lossy_proxy::{Fate, open, open_without_creations};
use crate::s3_support::s3_behind;
use crate::support::{PATIENCE, Server, Workload, api, assert_phase, get, install_definitions, settings};

const LEASE: &str = "velero-server";

fn leases(cluster: &TestCluster) -> Api<Lease> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// Settings of a server whose Lease is worth as little as it may be.
fn brief(cluster: &TestCluster) -> Settings {
    Settings { lease_duration: GoDuration::from_secs(5), ..settings(cluster) }
}

async fn holder(cluster: &TestCluster) -> Option<String> {
    leases(cluster).get_opt(LEASE).await.unwrap()?.spec?.holder_identity
}

/// Waits until somebody holds the Lease who is as wanted.
async fn until_held(cluster: &TestCluster, wanted: impl Fn(&str) -> bool) -> String {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match holder(cluster).await {
            Some(holder) if wanted(&holder) => return holder,
            found => assert!(tokio::time::Instant::now() < deadline, "the Lease is in the hands of {found:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for the end of a server that must stop, and gives what it says.
async fn last_words(running: impl Future<Output = velero_controllers::Result<()>>) -> String {
    tokio::time::timeout(PATIENCE, running).await.expect("it must stop").unwrap_err().to_string()
}

#[test]
fn of_two_servers_one_works_and_the_other_takes_over_when_it_ends() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 1).await;
        let first = Server::start(cluster.clone()).await;
        first.directory_location("default", directory.path()).await;
        let leader = until_held(&cluster, |_| true).await;
        let second = Server::start(cluster.clone()).await;
        let told = second.http("/readyz").await.unwrap().text();
        assert_eq!(told, "ok: another server leads or may lead, this one waits");
        assert_eq!(first.http("/readyz").await.unwrap().text(), "ok");
        first.until_metrics(&["velero_leader 1"]).await;
        second.until_metrics(&["velero_leader 0", "velero_backup_total"]).await;
        assert_phase(&first.backup("one", workload.spec()).await, &BackupPhase::Completed);
        assert_eq!(holder(&cluster).await.as_ref(), Some(&leader));
        let request = download(&second, "the-log", DownloadTargetKind::BackupLog, "one").await;
        let path = request.status.download_url.strip_prefix(SERVER_URL_SCHEME).expect("a directory has no URLs");
        assert_eq!(second.http(path).await.unwrap().code, 200, "it does not hand out what the leader promised");

        first.stop().await;
        let next = until_held(&cluster, |holder| holder != leader).await;
        assert_ne!(next, leader);
        second.until_metrics(&["velero_leader 1"]).await;
        assert_phase(&second.backup("two", workload.spec()).await, &BackupPhase::Completed);
        second.stop().await;
        assert_eq!(holder(&cluster).await, None, "it was not given back");
        let lease = leases(&cluster).get(LEASE).await.unwrap();
        let labels = lease.metadata.labels.unwrap_or_default();
        assert_eq!(labels.get("velero.io/exclude-from-backup").map(String::as_str), Some("true"));
        workload.delete().await;
    });
}

#[test]
fn a_server_that_waits_ends_when_it_is_told_to_and_leaves_the_leader_alone() {
    cluster_test(|cluster| async move {
        let first = Server::start(cluster.clone()).await;
        let leader = until_held(&cluster, |_| true).await;
        Server::start(cluster.clone()).await.stop().await;
        assert_eq!(holder(&cluster).await, Some(leader));
        first.stop().await;
    });
}

#[test]
fn a_server_that_is_stopped_gives_its_lease_back_soon_although_its_store_does_not_answer() {
    cluster_test(|cluster| async move {
        let (is_silent, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (silent, seen) = (is_silent.clone(), asked.clone());
        let rule = move |request: &Request| {
            if !silent.load(Ordering::SeqCst) {
                return Action::Forward;
            }
            seen.lock().unwrap().push(request.path.clone());
            Action::Delay(Duration::from_secs(120))
        };
        let often = GoDuration::from_secs(1);
        let settings = Settings { backup_sync_period: often, store_validation_frequency: often, ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        server.location("default", s3_behind(&cluster, rule).await).await;
        let workload = Workload::new(&cluster, 1).await;
        assert_phase(&server.backup("b", workload.spec()).await, &BackupPhase::Completed);
        is_silent.store(true, Ordering::SeqCst);
        let spec = DeleteBackupRequestSpec { backup_name: "b".to_owned(), ..Default::default() };
        server.create(DeleteBackupRequest::new(&cluster.namespace, "delete-b", spec)).await;
        let count = |piece: &str| {
            let asked: &Vec<String> = &asked.lock().unwrap();
            asked.iter().filter(|path| path.contains(piece)).count()
        };
        // A deletion, a sync and a check of the location.
        while count("velero-backup-reservation.json") == 0 || count("list-type=2") < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let begin = Instant::now();
        server.stop().await;
        assert!(begin.elapsed() < Duration::from_secs(5), "it waited for {:?}", begin.elapsed());
        assert_eq!(holder(&cluster).await, None, "it was not given back");
        workload.delete().await;
    });
}

#[test]
fn a_server_whose_lease_was_taken_stops_at_once_and_the_next_one_waits_until_it_expires() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let running = tokio::spawn(run_until(brief(&cluster), CancellationToken::new()));
        until_held(&cluster, |_| true).await;
        let theirs = json!({"spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 6}});
        leases(&cluster).patch(LEASE, &PatchParams::default(), &Patch::Merge(theirs)).await.unwrap();
        let told = last_words(async { running.await.unwrap() }).await;
        assert!(told.contains("\"somebody-else\" has taken it") && told.contains(LEASE), "{told}");

        let next = Server::start_with(cluster.clone(), brief(&cluster)).await;
        assert_eq!(holder(&cluster).await.as_deref(), Some("somebody-else"), "it was not waited for");
        until_held(&cluster, |holder| holder != "somebody-else").await;
        next.until_metrics(&["velero_leader 1"]).await;
        next.stop().await;
    });
}

#[test]
fn a_lease_that_was_deleted_is_made_again_by_who_held_it_and_not_by_who_waits() {
    cluster_test(|cluster| async move {
        let first = Server::start_with(cluster.clone(), brief(&cluster)).await;
        let leader = until_held(&cluster, |_| true).await;
        let second = Server::start_with(cluster.clone(), brief(&cluster)).await;
        leases(&cluster).delete(LEASE, &DeleteParams::default()).await.unwrap();
        assert_eq!(until_held(&cluster, |_| true).await, leader);
        first.stop().await;
        second.stop().await;
    });
}

#[test]
fn renewals_whose_answers_are_lost_are_known_again() {
    cluster_test(|cluster| async move {
        let folder = tempfile::tempdir().unwrap();
        let swallowed = Arc::new(AtomicUsize::new(0));
        let count = swallowed.clone();
        let rule = move |path: &str, _: &str| match path.contains("/leases/") {
            true if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => Fate::Swallowed,
            _ => Fate::Answered,
        };
        let kubeconfig = Some(open(&cluster, folder.path(), rule).await);
        let server = Server::start_with(cluster.clone(), Settings { kubeconfig, ..brief(&cluster) }).await;
        let leader = until_held(&cluster, |_| true).await;
        while swallowed.load(Ordering::SeqCst) < 8 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(holder(&cluster).await, Some(leader));
        assert_eq!(server.http("/readyz").await.unwrap().text(), "ok");
        server.stop().await;
    });
}

#[test]
fn a_lease_whose_making_was_not_answered_is_known_again_and_given_back_at_the_end() {
    cluster_test(|cluster| async move {
        let folder = tempfile::tempdir().unwrap();
        let (kubeconfig, lost) = open_without_creations(&cluster, folder.path(), &["leases"]).await;
        let settings = Settings { kubeconfig: Some(kubeconfig), ..brief(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        lost.assert_all();
        assert_eq!(server.http("/readyz").await.unwrap().text(), "ok");
        server.stop().await;
        assert_eq!(holder(&cluster).await, None, "it was not given back");
    });
}

/// A way to the API server on which renewals get lost while the switch is on.
async fn without_renewals(cluster: &TestCluster, folder: &Path) -> (Arc<AtomicBool>, Settings) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = is_cut.clone();
    let rule = move |path: &str, _: &str| match path.contains("/leases") && cut.load(Ordering::SeqCst) {
        true => Fate::Lost,
        false => Fate::Answered,
    };
    let kubeconfig = Some(open(cluster, folder, rule).await);
    (is_cut, Settings { kubeconfig, ..brief(cluster) })
}

#[test]
fn a_server_that_cannot_renew_its_lease_writes_nothing_and_stops_when_it_learns_that_another_leads() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let folder = tempfile::tempdir().unwrap();
        let (is_cut, settings) = without_renewals(&cluster, folder.path()).await;
        let address = settings.metrics.metrics_address.clone();
        let running = tokio::spawn(run_until(settings, CancellationToken::new()));
        let leader = until_held(&cluster, |_| true).await;
        let second = Server::start_with(cluster.clone(), brief(&cluster)).await;
        is_cut.store(true, Ordering::SeqCst);
        until_held(&cluster, |holder| holder != leader).await;
        let told = get(&address, "/readyz").await.unwrap().text();
        assert_ne!(told, "ok", "two servers lead");
        let backup = Backup::new(&cluster.namespace, "meantime", Default::default());
        api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        let ended = second.ended("meantime").await;
        assert_phase(&ended, &BackupPhase::FailedValidation);
        is_cut.store(false, Ordering::SeqCst);
        let told = last_words(async { running.await.unwrap() }).await;
        assert!(told.contains("has taken it"), "{told}");
        assert_eq!(
            api::<Backup>(&cluster).get("meantime").await.unwrap().metadata,
            ended.metadata,
            "it was written to"
        );
        second.stop().await;
    });
}

#[test]
fn a_server_that_could_not_renew_its_lease_for_a_while_goes_on_if_nobody_took_it() {
    cluster_test(|cluster| async move {
        let [folder, directory] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let workload = Workload::new(&cluster, 1).await;
        let (is_cut, settings) = without_renewals(&cluster, folder.path()).await;
        let server = Server::start_with(cluster.clone(), settings).await;
        server.directory_location("default", directory.path()).await;
        let leader = until_held(&cluster, |_| true).await;
        is_cut.store(true, Ordering::SeqCst);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while server.http("/readyz").await.unwrap().text() == "ok" {
            assert!(tokio::time::Instant::now() < deadline, "it goes on without a renewal");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        server.create(Backup::new(&cluster.namespace, "waits", workload.spec())).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let waits = api::<Backup>(&cluster).get("waits").await.unwrap();
        assert_phase(&waits, &BackupPhase::New);
        is_cut.store(false, Ordering::SeqCst);
        let ended = server.ended("waits").await;
        assert_phase(&ended, &BackupPhase::Completed);
        assert_eq!(holder(&cluster).await, Some(leader));
        workload.delete().await;
        server.stop().await;
    });
}

//! Repositories in a bucket of a real S3: made, filled, restored, shared with Velero's packages, maintained, and none the
//! worse for connections that fail.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Runtime;
use velero_repo::clock::system_clock;
use velero_repo::maintenance::{MaintenanceOptions, Mode, maintain};
use velero_repo::manifest::Snapshot;
use velero_repo::restore::{RestoreOptions, restore_into_folder};
use velero_repo::store::{BlobStore, BucketStore, list_all};
use velero_repo::upload::{Counters, Saved, SnapshotRequest, UploadOptions, forget, upload_folder};
use velero_repo::verify::{VerifyOptions, verify_repository};
use velero_repo::{Clock, Error, Repository, restore};
use velero_store::{Credentials, StoreConfig};
use velero_testkit::faulty_proxy::{self, Action, Request, first_uploads};
use velero_testkit::harness::{SHARED_BOX, unique_name};
use velero_testkit::kopia::KopiaPeer;
use velero_testkit::server::credentials_file;
use velero_testkit::{BoxKind, TestBox};

use crate::sample::PASSWORD;
use crate::trees::{Random, Tree, describe};

const BUCKET: &str = "repository-tests";
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A folder of the bucket for one repository, as Velero names it.
struct Place {
    runtime: Runtime,
    folder: String,
}

impl Place {
    fn new() -> Self {
        static READY: OnceLock<()> = OnceLock::new();
        READY.get_or_init(|| {
            TestBox::up(SHARED_BOX, BoxKind::ControlPlane).unwrap();
            TestBox::make_bucket(BUCKET).unwrap();
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { runtime, folder: format!("kopia/{}/", unique_name("shop")) }
    }

    fn store_at(&self, endpoint: &str) -> Arc<BucketStore> {
        let mut config = StoreConfig::new("velero.io/aws", BUCKET)
            .with("region", "us-east-1")
            .with("s3ForcePathStyle", "true")
            .with("s3Url", endpoint);
        config.credentials = Some(Credentials::Content(credentials_file()));
        config.transfer.retries = 6;
        let store = self.runtime.block_on(config.open()).unwrap();
        Arc::new(BucketStore::new(store, &*self.folder, self.runtime.handle().clone()))
    }

    fn store(&self) -> Arc<BucketStore> {
        self.store_at(&TestBox::store_url())
    }

    /// The same folder through a proxy that follows a rule.
    fn store_behind(&self, rule: impl Fn(&Request) -> Action + Send + Sync + 'static) -> Arc<BucketStore> {
        let endpoint = self.runtime.block_on(faulty_proxy::start(&TestBox::store_url(), rule)).unwrap();
        self.store_at(&endpoint)
    }

    fn create(&self) -> Repository {
        Repository::create(self.store(), PASSWORD, DAY, &system_clock()).unwrap()
    }

    fn check(&self, repository: &Repository) {
        let format = repository.format().clone();
        let report = verify_repository(self.store(), format, &VerifyOptions::default()).unwrap();
        assert!(report.is_good(), "{:?}", report.problems);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let store = self.store();
        for blob in list_all(store.as_ref(), "").unwrap_or_default() {
            let _ = store.delete(&blob.id);
        }
    }
}

fn upload(repository: &Repository, folder: &Path) -> velero_repo::Result<Saved> {
    let request = SnapshotRequest::of_velero("snapshot-pod-volume", "shop/data", BTreeMap::new());
    upload_folder(repository, folder, &request, &UploadOptions::default(), &Counters::default())
}

fn restored(repository: &Repository, snapshot: &Snapshot) -> Tree {
    let target = tempfile::tempdir().unwrap();
    let (root, options) = (snapshot.root().unwrap(), RestoreOptions::default());
    restore_into_folder(repository, root, target.path(), &options, &restore::Counters::default()).unwrap();
    describe(target.path())
}

/// A volume with several packs' worth of files.
fn volume(seed: u64) -> tempfile::TempDir {
    let volume = tempfile::tempdir().unwrap();
    let mut random = Random::new(seed);
    random.tree(volume.path());
    std::fs::write(volume.path().join("large"), random.bytes(50 << 20)).unwrap();
    volume
}

#[test]
fn a_repository_in_a_bucket_is_made_filled_restored_forgotten_and_maintained() {
    let place = Place::new();
    let repository = place.create();
    let volume = volume(1);
    let first = upload(&repository, volume.path()).unwrap();
    assert_eq!(restored(&repository, &first.snapshot), describe(volume.path()));

    std::fs::write(volume.path().join("more"), "more").unwrap();
    let reopened = Repository::open(place.store(), PASSWORD).unwrap();
    let second = upload(&reopened, volume.path()).unwrap();
    assert_eq!(second.snapshot.stats.non_cached_files, 1, "the rest is taken over from the first");
    assert_eq!(restored(&reopened, &second.snapshot), describe(volume.path()));

    forget(&reopened, std::slice::from_ref(&first.id), &system_clock()).unwrap();
    for (mode, dry_run) in [(Mode::Full, true), (Mode::Full, false), (Mode::Quick, false)] {
        let before = list_all(place.store().as_ref(), "").unwrap();
        // Others did not move the next times: nobody else is here.
        let ours =
            Some(velero_repo::maintenance::Schedule::load(place.store().as_ref(), reopened.format()).unwrap().next());
        let options = MaintenanceOptions { mode: Some(mode), dry_run, ours, ..MaintenanceOptions::default() };
        let report = maintain(&reopened, &options, &system_clock()).unwrap();
        assert_eq!((report.skipped, report.mode), (None, Some(mode)));
        assert!(!dry_run || list_all(place.store().as_ref(), "").unwrap() == before);
    }
    place.check(&reopened);
    let reopened = Repository::open(place.store(), PASSWORD).unwrap();
    assert_eq!(reopened.snapshots().unwrap().into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [second.id]);
    assert_eq!(restored(&reopened, &second.snapshot), describe(volume.path()));
}

#[test]
fn a_maintenance_whose_clock_is_far_from_that_of_the_bucket_ends_at_once() {
    let place = Place::new();
    let repository = place.create();
    let ahead: Clock = Arc::new(|| jiff::Timestamp::now() + jiff::SignedDuration::from_hours(30));
    let options = MaintenanceOptions { mode: Some(Mode::Full), ..MaintenanceOptions::default() };
    assert!(matches!(maintain(&repository, &options, &ahead), Err(Error::ClockSkew { .. })));
    place.check(&repository);
}

#[test]
fn velero_restores_what_we_put_into_a_bucket_and_continues_it() {
    let place = Place::new();
    let volume = tempfile::tempdir().unwrap();
    Random::new(3).tree(volume.path());
    let mut peer = KopiaPeer::start_in_bucket(BUCKET, &place.folder, &TestBox::store_url()).unwrap();
    peer.create().unwrap();
    let repository = Repository::open(place.store(), PASSWORD).unwrap();
    let ours = upload(&repository, volume.path()).unwrap();
    let target = tempfile::tempdir().unwrap();
    peer.restore(&ours.id, &target.path().join("restored")).unwrap();
    let theirs = peer.backup(volume.path(), "shop/data").unwrap();
    repository.refresh().unwrap();
    let theirs = repository.snapshot(&theirs.snapshot).unwrap();
    assert_eq!(theirs.root().unwrap(), ours.snapshot.root().unwrap());
    assert_eq!(theirs.stats.non_cached_files, 0, "Velero continues our snapshot");
    assert_eq!(restored(&repository, &theirs), describe(volume.path()));
    place.check(&repository);
}

#[test]
fn uploads_and_restores_outlive_connections_that_fail() {
    let place = Place::new();
    let volume = volume(2);
    drop(place.create());
    for rule in [Action::Unavailable, Action::Cut(1 << 20)] {
        let repository = Repository::open(place.store_behind(first_uploads(3, rule)), PASSWORD).unwrap();
        upload(&repository, volume.path()).unwrap();
    }
    let seen = std::sync::atomic::AtomicUsize::new(0);
    let every_fifth = move |request: &Request| {
        let chosen = request.method == "GET" && seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 5 == 4;
        if chosen { Action::CutAnswer(2_000) } else { Action::Forward }
    };
    let repository = Repository::open(place.store_behind(every_fifth), PASSWORD).unwrap();
    let (_, snapshot) = repository.snapshots().unwrap().pop().unwrap();
    assert_eq!(restored(&repository, &snapshot), describe(volume.path()));
    place.check(&repository);
}

#[test]
fn an_upload_to_a_bucket_that_stays_away_fails_with_the_blob_and_leaves_no_snapshot() {
    let place = Place::new();
    drop(place.create());
    let volume = volume(4);
    let from_now = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let away = Arc::clone(&from_now);
    let rule = move |request: &Request| {
        let refused = request.is_upload() && away.load(std::sync::atomic::Ordering::SeqCst);
        if refused { Action::Unavailable } else { Action::Forward }
    };
    let repository = Repository::open(place.store_behind(rule), PASSWORD).unwrap();
    from_now.store(true, std::sync::atomic::Ordering::SeqCst);
    let failure = upload(&repository, volume.path()).err().unwrap().to_string();
    assert!(failure.contains("could not write blob") && failure.contains("503"), "{failure}");
    let again = Repository::open(place.store(), PASSWORD).unwrap();
    assert!(again.snapshots().unwrap().is_empty());
    upload(&again, volume.path()).unwrap();
    place.check(&again);
}

//! The plugin binary under our host, against a stand-in for EC2 that checks signatures; the stand-in runs in the store
//! of the shared box.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tempfile::TempDir;
use velero_plugin::host::{HostSettings, PluginDirectory, PluginManager};
use velero_plugin::{Result, VolumeInfo, VolumeSnapshotter};
use velero_plugin_aws::PLUGIN_NAME;
use velero_testkit::ec2_proxy::{Ec2Course, SnapshotState};
use velero_testkit::harness::SHARED_BOX;
use velero_testkit::parts::{MOTO_REGION, Moto};
use velero_testkit::{BoxKind, TestBox};

/// A snapshotter in its process, and the course of what it meets at EC2.
struct Stage {
    folder: TempDir,
    manager: PluginManager,
    course: Ec2Course,
    url: String,
}

impl Stage {
    async fn set() -> Self {
        static READY: OnceLock<()> = OnceLock::new();
        READY.get_or_init(|| {
            TestBox::up(SHARED_BOX, BoxKind::ControlPlane).unwrap();
            TestBox::start_in_store(&Moto).unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path().join("plugins");
        fs::create_dir(&plugins).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_velero-plugin-aws"), plugins.join("aws")).unwrap();
        fs::write(folder.path().join("cloud"), Moto::credentials().unwrap()).unwrap();
        let manager = PluginDirectory::discover(&plugins, HostSettings::default()).await.unwrap().manager();
        let course = Ec2Course::default();
        let url = course.start(&Moto::url()).await.unwrap();
        Self { folder, manager, course, url }
    }

    async fn open(&self, further: &[(&str, &str)]) -> Result<Arc<dyn VolumeSnapshotter>> {
        let credentials = self.folder.path().join("cloud").display().to_string();
        let usual = [("region", MOTO_REGION), ("ec2Url", self.url.as_str()), ("credentialsFile", &credentials)];
        let entries = usual.iter().chain(further).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.manager.volume_snapshotter(PLUGIN_NAME, &entries.collect()).await
    }

    async fn snapshotter(&self) -> Arc<dyn VolumeSnapshotter> {
        self.open(&[]).await.unwrap()
    }
}

fn backup_tags() -> BTreeMap<String, String> {
    [("velero.io/backup", "nightly"), ("velero.io/pv", "pv-1")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn persistent_volume(id: &str) -> Value {
    json!({"kind": "PersistentVolume", "metadata": {"name": "pv-1"}, "spec": {"awsElasticBlockStore": {"volumeID": id}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_snapshotted_and_made_again_with_type_speed_and_tags() {
    let stage = Stage::set().await;
    let snapshotter = stage.snapshotter().await;
    let tag =
        "&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=team&TagSpecification.1.Tag.1.Value=shop";
    let volume = Moto::make_volume("io1", &format!("&Iops=150&Encrypted=true{tag}")).unwrap();
    let id = snapshotter.get_volume_id(&persistent_volume(&format!("aws://zone/{volume}"))).await.unwrap().unwrap();
    assert_eq!(id, volume);
    let info = snapshotter.get_volume_info(&id, "").await.unwrap();
    assert_eq!(info, VolumeInfo { volume_type: "io1".to_owned(), iops: Some(150) });

    let snapshot = snapshotter.create_snapshot(&id, "", &backup_tags()).await.unwrap();
    let described = Moto::ask(&format!("Action=DescribeSnapshots&SnapshotId.1={snapshot}")).unwrap();
    for tag in ["<key>velero.io/backup</key><value>nightly</value>", "<key>team</key><value>shop</value>"] {
        assert!(described.contains(tag), "{described}");
    }
    let zone = format!("{MOTO_REGION}b");
    let restored = snapshotter.create_volume_from_snapshot(&snapshot, &info, &zone).await.unwrap();
    let described = Moto::ask(&format!("Action=DescribeVolumes&VolumeId.1={restored}")).unwrap();
    let facts = [&snapshot, "<volumeType>io1<", "<iops>150<", &zone, "<encrypted>true<", "<value>shop</value>"];
    assert!(facts.iter().all(|fact| described.contains(fact)), "{described}");
    let changed = snapshotter.set_volume_id(&persistent_volume(&volume), &restored).await.unwrap();
    assert_eq!(changed, persistent_volume(&restored));

    snapshotter.delete_snapshot(&snapshot).await.unwrap();
    assert_eq!(Moto::snapshots_of(&volume).unwrap(), [""; 0]);
    snapshotter.delete_snapshot(&snapshot).await.unwrap();
    let error = snapshotter.create_volume_from_snapshot(&snapshot, &info, &zone).await.unwrap_err().to_string();
    assert!(error.contains(&snapshot) && error.contains("does not exist"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_followed_to_its_end_and_cancelled_only_before() {
    let stage = Stage::set().await;
    let snapshotter = stage.snapshotter().await;
    assert!(snapshotter.follows_uploads());
    let volume = Moto::make_volume("gp3", "").unwrap();
    let snapshot = snapshotter.create_snapshot(&volume, "", &backup_tags()).await.unwrap();
    for percent in [0, 40, 99] {
        stage.course.set(&volume, SnapshotState::Pending(percent));
        let progress = snapshotter.progress(&snapshot).await.unwrap();
        let seen = (progress.completed, progress.n_completed, progress.n_total, progress.operation_units.as_str());
        assert_eq!(seen, (false, i64::from(percent), 100, "Percent"));
        assert!(progress.started.is_some());
    }
    stage.course.set(&volume, SnapshotState::Failed("the key is disabled".to_owned()));
    let progress = snapshotter.progress(&snapshot).await.unwrap();
    assert!(progress.completed && progress.error.contains("the key is disabled"), "{progress:?}");
    stage.course.set(&volume, SnapshotState::Complete);
    let progress = snapshotter.progress(&snapshot).await.unwrap();
    assert_eq!((progress.completed, progress.n_completed, progress.error.as_str()), (true, 100, ""));

    snapshotter.cancel(&snapshot).await.unwrap();
    assert_eq!(Moto::snapshots_of(&volume).unwrap(), [snapshot.as_str()]);
    stage.course.set(&volume, SnapshotState::Pending(50));
    snapshotter.cancel(&snapshot).await.unwrap();
    assert_eq!(Moto::snapshots_of(&volume).unwrap(), [""; 0]);
    snapshotter.cancel(&snapshot).await.unwrap();
    // Somebody has deleted it, as far as the snapshotter can tell.
    let progress = snapshotter.progress(&snapshot).await.unwrap();
    assert!(progress.completed && progress.error.contains("was deleted"), "{progress:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_throttled_are_made_again_and_none_that_may_have_been_done() {
    let stage = Stage::set().await;
    let snapshotter = stage.snapshotter().await;
    let volume = Moto::make_volume("gp3", "").unwrap();
    stage.course.throttle(4);
    let first = snapshotter.create_snapshot(&volume, "", &backup_tags()).await.unwrap();
    assert_eq!(Moto::snapshots_of(&volume).unwrap(), [first.as_str()]);
    stage.course.throttle(2);
    assert!(snapshotter.progress(&first).await.unwrap().completed);
    snapshotter.delete_snapshot(&first).await.unwrap();

    // The answer is lost, not the snapshot: it is found, and no second one is taken.
    stage.course.lose_answers("CreateSnapshot", 1);
    let second = snapshotter.create_snapshot(&volume, "", &backup_tags()).await.unwrap();
    assert_eq!(Moto::snapshots_of(&volume).unwrap(), [second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_expire_are_an_error_that_names_the_volume_until_they_are_renewed() {
    let stage = Stage::set().await;
    let snapshotter = stage.snapshotter().await;
    let volume = Moto::make_volume("gp3", "").unwrap();
    stage.course.expire(true);
    let error = snapshotter.create_snapshot(&volume, "", &backup_tags()).await.unwrap_err().to_string();
    for part in [volume.as_str(), "ExpiredToken", "renew the credentials"] {
        assert!(error.contains(part), "{error}");
    }
    stage.course.expire(false);
    // The same process, once the file has new keys; those it began with were good for nothing.
    let file = stage.folder.path().join("cloud");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace("secret_access_key=", "secret_access_key=wrong")).unwrap();
    let stale = stage.open(&[("profile", "default")]).await.unwrap();
    let error = stale.get_volume_info(&volume, "").await.unwrap_err().to_string();
    assert!(error.contains("AuthFailure") && !error.contains("wrong"), "{error}");
    fs::write(&file, good).unwrap();
    assert_eq!(stale.get_volume_info(&volume, "").await.unwrap().volume_type, "gp3");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_with_what_is_wrong() {
    let stage = Stage::set().await;
    for (further, problem) in [
        (("regoin", "x"), "invalid keys [regoin]"),
        (("region", ""), "missing region"),
        (("ec2Url", "nowhere"), "\"nowhere\" is no address"),
        (("profile", "absent"), "no profile \"absent\""),
        (("credentialsFile", "/does/not/exist"), "/does/not/exist"),
    ] {
        let error = stage.open(&[further]).await.map(drop).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let snapshotter = stage.snapshotter().await;
    let error = snapshotter.create_snapshot("vol-0123456789abcdef0", "", &backup_tags()).await.unwrap_err().to_string();
    assert!(error.contains("InvalidVolume.NotFound") && error.contains("vol-0123456789abcdef0"), "{error}");
    let foreign = json!({"spec": {"hostPath": {"path": "/data"}}});
    assert_eq!(snapshotter.get_volume_id(&foreign).await.unwrap(), None);
}

#[test]
fn the_binary_copies_itself_beside_the_server() {
    let binary = env!("CARGO_BIN_EXE_velero-plugin-aws");
    let folder = tempfile::tempdir().unwrap();
    let installed = std::process::Command::new(binary).arg("install").arg(folder.path()).output().unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let copy = std::fs::metadata(folder.path().join("velero-plugin-aws")).unwrap();
    assert_eq!(copy.len(), std::fs::metadata(binary).unwrap().len());
}

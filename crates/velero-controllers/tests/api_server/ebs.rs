//! Snapshots of Amazon EBS, by the snapshotter that is built in, on a stand-in for EC2: many volumes, followed to their
//! end, one that fails, requests that are throttled, and a backup that is deleted while it waits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, SecretKeySelector};
use kube::Api;
use kube::api::PostParams;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use velero_api::records::{BackupOperation, ResultsFile, Snapshot};
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestSpec, DownloadTargetKind, RestorePhase,
    RestoreSpec, VolumeSnapshotLocation, VolumeSnapshotLocationSpec,
};
use velero_archive::gzjson;
use velero_testkit::ec2_proxy::{Ec2Course, SnapshotState};
use velero_testkit::harness::{SHARED_BOX, unique_name};
use velero_testkit::parts::{MOTO_REGION, Moto};
use velero_testkit::{BoxKind, TestBox, TestCluster, cluster_test};

use crate::downloads::download;
use crate::operation_table::hasty;
use crate::support::{Server, api, assert_phase, assert_restore_phase, assert_says, secret, settings};
use crate::volumes::remove;

const VOLUMES: usize = 20;

/// Volumes at EC2 with a claim each; every other one is of the CSI driver.
struct Disks {
    cluster: TestCluster,
    namespace: String,
    /// The volume at EC2 behind each PersistentVolume.
    volumes: BTreeMap<String, String>,
}

impl Disks {
    async fn new(cluster: &TestCluster, count: usize) -> Self {
        let namespace = unique_name("disks");
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        create(&namespaces, json!({"metadata": {"name": namespace}})).await;
        let mut disks = Self { cluster: cluster.clone(), namespace, volumes: BTreeMap::new() };
        for number in 0..count {
            disks.volumes.insert(disks.volume(number), Moto::make_volume("gp3", "").unwrap());
        }
        join_all((0..count).map(|number| disks.add(number))).await;
        disks
    }

    fn volume(&self, number: usize) -> String {
        format!("{}-{number:02}", self.namespace)
    }

    fn id(&self, number: usize) -> &str {
        &self.volumes[&self.volume(number)]
    }

    async fn add(&self, number: usize) {
        let (name, id, claim) = (self.volume(number), self.id(number), format!("data-{number:02}"));
        let (size, modes) = (json!({"storage": "1Gi"}), json!(["ReadWriteOnce"]));
        let mut spec = json!({"capacity": size, "accessModes": modes, "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "", "claimRef": {"namespace": self.namespace, "name": claim}});
        if number.is_multiple_of(2) {
            spec["csi"] = json!({"driver": "ebs.csi.aws.com", "volumeHandle": id});
        } else {
            spec["awsElasticBlockStore"] = json!({"volumeID": format!("aws://{MOTO_REGION}a/{id}"), "fsType": "ext4"});
        }
        let labels = json!({"topology.kubernetes.io/zone": format!("{MOTO_REGION}a")});
        let volumes: Api<PersistentVolume> = Api::all(self.cluster.client.clone());
        create(&volumes, json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).await;
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.cluster.client.clone(), &self.namespace);
        let spec = json!({"accessModes": modes, "storageClassName": "", "volumeName": name,
            "resources": {"requests": size}});
        create(&claims, json!({"metadata": {"name": claim}, "spec": spec})).await;
        bound(&self.cluster, &self.namespace, &claim).await;
    }

    fn spec(&self) -> BackupSpec {
        BackupSpec { included_namespaces: vec![self.namespace.clone()], ..BackupSpec::default() }
    }

    /// The snapshots of all volumes that EC2 has.
    fn snapshots(&self) -> Vec<String> {
        self.volumes.values().flat_map(|volume| Moto::snapshots_of(volume).unwrap()).collect()
    }
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Waits until a claim is bound, and gives its volume.
async fn bound(cluster: &TestCluster, namespace: &str, claim: &str) -> PersistentVolume {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client.clone(), namespace);
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    for _ in 0..600 {
        let found = claims.get_opt(claim).await.unwrap().unwrap_or_default();
        let phase = found.status.and_then(|status| status.phase);
        if let Some("Bound") = phase.as_deref() {
            return volumes.get(&found.spec.unwrap().volume_name.unwrap()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{namespace}/{claim} is not bound");
}

/// A server whose snapshots go to the stand-in, through the proxy.
async fn serve(cluster: &TestCluster, directory: &Path, course: &Ec2Course) -> Server {
    let server = Server::start_with(cluster.clone(), hasty(settings(cluster))).await;
    server.directory_location("default", directory).await;
    secret(cluster, "ec2-account", "cloud", &Moto::credentials().unwrap()).await;
    let url = course.start(&Moto::url_in_boxes()).await.unwrap();
    let entries = [("region", MOTO_REGION.to_owned()), ("ec2Url", url)];
    let credential = SecretKeySelector { name: "ec2-account".to_owned(), key: "cloud".to_owned(), optional: None };
    let spec = VolumeSnapshotLocationSpec {
        provider: "aws".to_owned(),
        config: entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        credential: Some(credential),
        ..Default::default()
    };
    server.create(VolumeSnapshotLocation::new(&cluster.namespace, "ebs", spec)).await;
    server
}

fn read<T: DeserializeOwned>(directory: &Path, file: &str) -> T {
    let content = std::fs::read(directory.join("backups/b").join(format!("b-{file}")));
    gzjson::decode(&content.unwrap_or_else(|error| panic!("{file}: {error}")), 1 << 20).unwrap()
}

/// Waits until every operation of the backup says that it is that far, to who asks for a description.
async fn until_all_are_at(server: &Server, directory: &Path, percent: i64) {
    let mut seen = Vec::new();
    for _ in 0..100 {
        download(server, &unique_name("operations"), DownloadTargetKind::BackupItemOperations, "b").await;
        let operations: Vec<BackupOperation> = read(directory, "itemoperations.json.gz");
        seen = operations.iter().map(|operation| operation.status.n_completed).collect();
        if seen.len() == VOLUMES && seen.iter().all(|done| *done == percent) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("not all are at {percent} %: {seen:?}");
}

/// Runs a test beside the stand-in.
fn ebs_test<F: Future<Output = ()>>(test: impl FnOnce(TestCluster) -> F + Send + 'static) {
    TestBox::up(SHARED_BOX, BoxKind::ControlPlane).unwrap();
    TestBox::start_in_store(&Moto).unwrap();
    cluster_test(test);
}

fn waits(backup: &Backup) -> bool {
    *backup.status.phase() == BackupPhase::WaitingForPluginOperations
}

#[test]
fn twenty_volumes_are_followed_to_their_end_and_one_that_fails_is_named() {
    ebs_test(|cluster| async move {
        let (directory, course) = (tempfile::tempdir().unwrap(), Ec2Course::default());
        let server = serve(&cluster, directory.path(), &course).await;
        let disks = Disks::new(&cluster, VOLUMES).await;
        course.set_all(SnapshotState::Pending(0));
        course.throttle(15);
        server.create(Backup::new(&cluster.namespace, "b", disks.spec())).await;
        server.until("b", waits).await;
        assert_eq!(disks.snapshots().len(), VOLUMES, "one each, whatever was throttled");
        course.throttle(10);
        for percent in [0_u8, 35, 90] {
            course.set_all(SnapshotState::Pending(percent));
            until_all_are_at(&server, directory.path(), i64::from(percent)).await;
        }
        course.set_all(SnapshotState::Complete);
        course.set(disks.id(3), SnapshotState::Failed("the key is disabled".to_owned()));
        let backup = server.ended("b").await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        let status = &backup.status;
        let counters = (status.volume_snapshots_attempted, status.volume_snapshots_completed, status.errors);
        assert_eq!(counters, (VOLUMES as i64, VOLUMES as i64 - 1, 1));
        let results: ResultsFile = read(directory.path(), "results.gz");
        assert_says(&results.errors.cluster, &disks.volume(3));
        assert_says(&results.errors.cluster, "the key is disabled");
        let snapshots: Vec<Snapshot> = read(directory.path(), "volumesnapshots.json.gz");
        let volumes: BTreeSet<&str> =
            snapshots.iter().map(|snapshot| snapshot.spec.provider_volume_id.as_str()).collect();
        assert_eq!(volumes, disks.volumes.values().map(String::as_str).collect());

        restores_two(&server, &disks).await;
        let spec = DeleteBackupRequestSpec { backup_name: "b".to_owned(), ..Default::default() };
        server.create(DeleteBackupRequest::new(&cluster.namespace, "delete-b", spec)).await;
        server.until_gone::<Backup>("b").await;
        assert_eq!(disks.snapshots(), [""; 0]);
        remove(&cluster, &disks.namespace).await;
        server.stop().await;
    });
}

/// One volume of each kind comes back as a new volume of EC2.
async fn restores_two(server: &Server, disks: &Disks) {
    let copy = unique_name("copy");
    let spec = RestoreSpec {
        backup_name: "b".to_owned(),
        namespace_mapping: [(disks.namespace.clone(), copy.clone())].into(),
        ..RestoreSpec::default()
    };
    // The volume whose snapshot failed has none to come back from.
    assert_restore_phase(&server.restore("back", spec).await, &RestorePhase::PartiallyFailed);
    for number in [0, 1] {
        let volume = bound(&server.cluster, &copy, &format!("data-{number:02}")).await;
        let spec = volume.spec.unwrap();
        let handle = spec.csi.map(|csi| csi.volume_handle);
        let id = handle.or_else(|| spec.aws_elastic_block_store.map(|disk| disk.volume_id)).unwrap();
        let id = &id[id.find("vol-").unwrap()..];
        assert_ne!(id, disks.id(number));
        let described = Moto::ask(&format!("Action=DescribeVolumes&VolumeId.1={id}")).unwrap();
        let tag = format!("<key>velero.io/pv</key><value>{}</value>", disks.volume(number));
        assert!(described.contains("<snapshotId>snap-") && described.contains(&tag), "{described}");
    }
    remove(&server.cluster, &copy).await;
}

#[test]
fn a_snapshot_whose_answer_is_still_to_come_when_the_server_is_stopped_goes_with_its_backup() {
    ebs_test(|cluster| async move {
        let (directory, course) = (tempfile::tempdir().unwrap(), Ec2Course::default());
        let server = serve(&cluster, directory.path(), &course).await;
        let disks = Disks::new(&cluster, 1).await;
        course.set_all(SnapshotState::Pending(0));
        // It is asked for some seconds what became of the request whose answer was lost.
        course.lose_answers("CreateSnapshot", 1);
        course.lose_answers("DescribeSnapshots", 4);
        server.create(Backup::new(&cluster.namespace, "b", disks.spec())).await;
        while disks.snapshots().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server.stop().await;
        assert_phase(&api::<Backup>(&cluster).get("b").await.unwrap(), &BackupPhase::Failed);
        assert_eq!(disks.snapshots(), [""; 0]);
        remove(&cluster, &disks.namespace).await;
    });
}

#[test]
fn a_backup_deleted_while_it_waits_takes_its_unfinished_snapshots_along() {
    ebs_test(|cluster| async move {
        let (directory, course) = (tempfile::tempdir().unwrap(), Ec2Course::default());
        let server = serve(&cluster, directory.path(), &course).await;
        let disks = Disks::new(&cluster, 2).await;
        course.set(disks.id(0), SnapshotState::Pending(12));
        server.create(Backup::new(&cluster.namespace, "b", disks.spec())).await;
        server.until("b", waits).await;
        assert_eq!(disks.snapshots().len(), 2);
        let spec = DeleteBackupRequestSpec { backup_name: "b".to_owned(), ..Default::default() };
        server.create(DeleteBackupRequest::new(&cluster.namespace, "delete-b", spec)).await;
        server.until_gone::<Backup>("b").await;
        assert_eq!(disks.snapshots(), [""; 0]);
        remove(&cluster, &disks.namespace).await;
        server.stop().await;
    });
}

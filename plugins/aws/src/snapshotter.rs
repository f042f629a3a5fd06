//! The volume snapshotter: which requests a call makes, in which order.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use velero_plugin::{Error, OperationProgress, Result, VolumeInfo, VolumeSnapshotter};

use crate::ec2::{
    self, Client, CreateSnapshotResponse, CreateVolumeResponse, DescribeSnapshotsResponse, DescribeVolumesResponse,
    Done, Query, Repeat, Snapshot, Trouble, Volume,
};
use crate::settings::Settings;
use crate::{progress, tags, volume_id};

/// How long a call may be repeated that does something; hosts wait for ten minutes.
const WORK: Duration = Duration::from_secs(300);

/// How long a question may be repeated; hosts wait for a minute, and ask again later.
const QUESTION: Duration = Duration::from_secs(20);

/// How long EC2 may say that it does not have a snapshot which it has begun.
const SETTLING: Duration = Duration::from_secs(10);

/// How far the clocks of EC2 and this machine may be apart.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The types of volumes whose operations a second are chosen by who makes them.
const IOPS_TYPES: [&str; 2] = ["io1", "io2"];

/// The name of the cluster that restored volumes belong to.
const CLUSTER_VARIABLE: &str = "AWS_CLUSTER_NAME";

/// Takes snapshots of EBS volumes.
pub struct Snapshotter {
    name: &'static str,
    client: RwLock<Option<Arc<Client>>>,
}

impl Snapshotter {
    /// A snapshotter of that name, not prepared yet.
    pub fn new(name: &'static str) -> Self {
        Self { name, client: RwLock::default() }
    }

    fn client(&self) -> Result<Arc<Client>> {
        let client = self.client.read().unwrap_or_else(PoisonError::into_inner).clone();
        client.ok_or_else(|| Error::Failed("called before Init".to_owned()))
    }
}

#[async_trait]
impl VolumeSnapshotter for Snapshotter {
    fn name(&self) -> &str {
        self.name
    }

    async fn init(&self, config: &BTreeMap<String, String>) -> Result<()> {
        let settings = Settings::read(config, variable)?;
        let client = Arc::new(Client::new(settings, config).await?);
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = Some(client);
        Ok(())
    }

    async fn create_volume_from_snapshot(&self, snapshot_id: &str, volume: &VolumeInfo, zone: &str) -> Result<String> {
        let client = self.client()?;
        let snapshot = describe_snapshot(&client, snapshot_id, WORK).await?;
        let gone =
            || Error::Failed(format!("snapshot {snapshot_id} does not exist (any more); restore another backup"));
        let snapshot = snapshot.ok_or_else(gone)?;
        let kms_key = client.settings().kms_key.as_deref();
        let query = new_volume(&snapshot, volume, zone, kms_key, variable(CLUSTER_VARIABLE).as_deref());
        // With a token, EC2 makes one volume however often it is asked.
        let query = query.with("ClientToken", uuid::Uuid::new_v4().to_string());
        let answer: CreateVolumeResponse = client.call(&query, Repeat::Freely, WORK).await?;
        Ok(answer.volume_id)
    }

    async fn get_volume_info(&self, volume_id: &str, _: &str) -> Result<VolumeInfo> {
        let volume = describe_volume(&*self.client()?, volume_id).await?;
        let iops = volume.iops.filter(|_| has_iops(&volume.volume_type));
        Ok(VolumeInfo { volume_type: volume.volume_type, iops })
    }

    async fn create_snapshot(&self, volume_id: &str, _: &str, tags: &BTreeMap<String, String>) -> Result<String> {
        let client = self.client()?;
        let volume = describe_volume(&client, volume_id).await?;
        let query = Query::new("CreateSnapshot", format!("volume {volume_id}"))
            .with("VolumeId", volume_id)
            .tags("snapshot", &tags::of_snapshot(tags, volume.tags()));
        let begin = Timestamp::now();
        match client.call::<CreateSnapshotResponse>(&query, Repeat::UnlessBegun, WORK).await {
            Ok(answer) => Ok(answer.snapshot_id),
            // Another request would leave a snapshot behind that nobody knows of.
            Err(error) if error.trouble == Trouble::Unclear => {
                find_begun(&client, volume_id, tags, begin).await?.ok_or_else(|| error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<()> {
        let query = Query::new("DeleteSnapshot", format!("snapshot {snapshot_id}")).with("SnapshotId", snapshot_id);
        match self.client()?.call::<Done>(&query, Repeat::Freely, WORK).await {
            Err(error) if error.trouble != Trouble::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn get_volume_id(&self, persistent_volume: &Value) -> Result<Option<String>> {
        volume_id::of(persistent_volume)
    }

    async fn set_volume_id(&self, persistent_volume: &Value, volume_id: &str) -> Result<Value> {
        volume_id::set(persistent_volume, volume_id)
    }

    async fn progress(&self, snapshot_id: &str) -> Result<OperationProgress> {
        let (client, begin) = (self.client()?, tokio::time::Instant::now());
        loop {
            match describe_snapshot(&client, snapshot_id, QUESTION).await {
                Ok(Some(snapshot)) => return Ok(progress::of(&snapshot, Timestamp::now())),
                Ok(None) if begin.elapsed() < SETTLING => tokio::time::sleep(SETTLING / 5).await,
                Ok(None) => return Ok(progress::of_missing(snapshot_id, Timestamp::now())),
                Err(error) if matches!(error.trouble, Trouble::NotBegun | Trouble::Unclear) => {
                    return Ok(progress::unknown(&error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes the snapshot while it is not complete; one that is complete is safe already.
    async fn cancel(&self, snapshot_id: &str) -> Result<()> {
        match describe_snapshot(&*self.client()?, snapshot_id, QUESTION).await? {
            Some(snapshot) if snapshot.status == "pending" => self.delete_snapshot(snapshot_id).await,
            _ => Ok(()),
        }
    }
}

async fn describe_volume(client: &Client, volume_id: &str) -> Result<Volume> {
    let query = Query::new("DescribeVolumes", format!("volume {volume_id}")).with("VolumeId.1", volume_id);
    let answer: DescribeVolumesResponse = client.call(&query, Repeat::Freely, WORK).await?;
    let found = answer.into_volumes();
    let count = found.len();
    let one = found.into_iter().next().filter(|_| count == 1);
    one.ok_or_else(|| Error::Failed(format!("volume {volume_id}: EC2 describes {count} volumes, not one")))
}

/// The snapshot; `None` when there is none.
async fn describe_snapshot(client: &Client, id: &str, patience: Duration) -> Result<Option<Snapshot>, ec2::Error> {
    let query = Query::new("DescribeSnapshots", format!("snapshot {id}")).with("SnapshotId.1", id);
    match client.call::<DescribeSnapshotsResponse>(&query, Repeat::Freely, patience).await {
        Ok(answer) => Ok(answer.into_snapshots().pop()),
        Err(error) if error.trouble == Trouble::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The snapshot of a volume that was begun since then with those tags; for a request whose answer never came.
async fn find_begun(
    client: &Client,
    volume_id: &str,
    tags: &BTreeMap<String, String>,
    since: Timestamp,
) -> Result<Option<String>> {
    let mut query = Query::new("DescribeSnapshots", format!("volume {volume_id}"))
        .with("Owner.1", "self")
        .filter("volume-id", volume_id);
    for (key, value) in tags.iter().filter(|(key, _)| key.starts_with("velero.io/")) {
        query = query.filter(&format!("tag:{key}"), value);
    }
    let answer: DescribeSnapshotsResponse = client.call(&query, Repeat::Freely, QUESTION).await?;
    let is_ours = |snapshot: &Snapshot| {
        let started: Option<Timestamp> = snapshot.start_time.parse().ok();
        started.is_some_and(|started| started + CLOCK_SKEW >= since)
    };
    Ok(answer.into_snapshots().into_iter().find(is_ours).map(|snapshot| snapshot.id))
}

/// The request for a volume like the one a snapshot was taken of.
fn new_volume(
    snapshot: &Snapshot,
    volume: &VolumeInfo,
    zone: &str,
    kms_key: Option<&str>,
    cluster: Option<&str>,
) -> Query {
    let VolumeInfo { volume_type, iops } = volume;
    let mut query = Query::new("CreateVolume", format!("snapshot {} in zone {zone:?}", snapshot.id))
        .with("SnapshotId", &snapshot.id)
        .with("AvailabilityZone", zone);
    if !volume_type.is_empty() {
        query = query.with("VolumeType", volume_type);
    }
    if let Some(iops) = iops.filter(|_| has_iops(volume_type)) {
        query = query.with("Iops", iops.to_string());
    }
    query = match (kms_key, snapshot.encrypted) {
        (Some(key), _) => query.with("Encrypted", "true").with("KmsKeyId", key),
        (None, Some(encrypted)) => query.with("Encrypted", encrypted.to_string()),
        (None, None) => query,
    };
    query.tags("volume", &tags::of_volume(snapshot.tags(), cluster))
}

fn has_iops(volume_type: &str) -> bool {
    IOPS_TYPES.contains(&volume_type)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(volume_type: &str, iops: Option<i64>, encrypted: Option<bool>, kms_key: Option<&str>) -> String {
        let snapshot = Snapshot { id: "snap-1".to_owned(), encrypted, ..Snapshot::default() };
        let volume = VolumeInfo { volume_type: volume_type.to_owned(), iops };
        let form = new_volume(&snapshot, &volume, "eu-west-1a", kms_key, None).form();
        form.split_once("AvailabilityZone=eu-west-1a").unwrap().1.to_owned()
    }

    #[test]
    fn a_volume_is_asked_for_as_the_one_before_was() {
        for (volume_type, iops, encrypted, kms_key, expected) in [
            ("gp2", None, None, None, "&VolumeType=gp2"),
            ("gp3", Some(4000), Some(false), None, "&VolumeType=gp3&Encrypted=false"),
            ("io1", Some(100), Some(true), None, "&VolumeType=io1&Iops=100&Encrypted=true"),
            ("io2", None, None, None, "&VolumeType=io2"),
            ("gp3", None, Some(false), Some("alias/k"), "&VolumeType=gp3&Encrypted=true&KmsKeyId=alias%2Fk"),
            ("", None, None, None, ""),
        ] {
            assert_eq!(form(volume_type, iops, encrypted, kms_key), expected, "{volume_type}");
        }
    }

    #[tokio::test]
    async fn a_call_before_init_is_refused() {
        let snapshotter = Snapshotter::new("velero.io/aws");
        let error = snapshotter.progress("snap-1").await.unwrap_err();
        assert!(error.to_string().contains("called before Init"), "{error}");
    }
}

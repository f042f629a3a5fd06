//! Snapshots: taken by copying, ready when the settings say so.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tonic::Status;

use crate::driver::{Driver, internal, new_handle, on_disk, required};
use crate::settings::Settings;
use crate::storage::Snapshot;
use crate::wire::csi::list_snapshots_response::Entry;
use crate::wire::csi::{self, ListSnapshotsRequest, ListSnapshotsResponse};

impl Driver {
    /// Takes a snapshot; one of that name and volume is given as it is.
    pub(crate) async fn take_snapshot(
        &self,
        name: String,
        volume: String,
        parameters: BTreeMap<String, String>,
        group: Option<String>,
    ) -> Result<Snapshot, Status> {
        new_handle(&name)?;
        required(&volume, "source_volume_id")?;
        let settings = self.settings(&parameters)?;
        if let Some(message) = settings.fail_create_snapshot {
            return Err(Status::internal(message));
        }
        if settings.hang_create_snapshot {
            pending::<()>().await;
        }
        let held = self.busy.take(&name)?;
        if let Some(snapshot) = self.storage.snapshots.get(&name).map_err(internal)? {
            return if snapshot.source_volume_id == volume {
                Ok(snapshot)
            } else {
                let other = snapshot.source_volume_id;
                Err(Status::already_exists(format!("there is a snapshot {name} of another volume, {other}")))
            };
        }
        let source = self.find_volume(&volume)?;
        tokio::time::sleep(Duration::from_secs(settings.create_snapshot_seconds.into())).await;
        let (storage, devices) = (self.storage.clone(), self.devices.clone());
        on_disk(move || {
            let _held = held;
            devices.flush(&volume)?;
            let snapshot = Snapshot {
                id: name,
                source_volume_id: volume,
                mode: source.mode,
                size_bytes: source.capacity_bytes,
                created: Timestamp::now(),
                group,
                parameters,
            };
            storage.snapshots.put(&snapshot, Some(&storage.volumes.data(&snapshot.source_volume_id)))?;
            Ok(snapshot)
        })
        .await
    }

    pub(crate) async fn remove_snapshot(&self, id: String) -> Result<(), Status> {
        required(&id, "snapshot_id")?;
        if let Some(message) = self.settings(&BTreeMap::new())?.fail_delete_snapshot {
            return Err(Status::internal(message));
        }
        let held = self.busy.take(&id)?;
        let storage = self.storage.clone();
        on_disk(move || {
            let _held = held;
            storage.snapshots.remove(&id)
        })
        .await
    }

    pub(crate) fn find_snapshot(&self, id: &str) -> Result<Snapshot, Status> {
        let found = self.storage.snapshots.get(id).map_err(internal)?;
        found.ok_or_else(|| Status::not_found(format!("there is no snapshot {id}")))
    }

    /// A snapshot as it is now.
    pub(crate) fn describe(&self, snapshot: &Snapshot) -> Result<csi::Snapshot, Status> {
        let settings = self.settings(&snapshot.parameters)?;
        Ok(csi::Snapshot {
            size_bytes: snapshot.size_bytes,
            snapshot_id: snapshot.id.clone(),
            source_volume_id: snapshot.source_volume_id.clone(),
            creation_time: Some(to_wire(snapshot.created)),
            ready_to_use: is_ready(&settings, snapshot.created, Timestamp::now()),
            group_snapshot_id: snapshot.group.clone().unwrap_or_default(),
        })
    }

    pub(crate) fn page_of_snapshots(&self, request: &ListSnapshotsRequest) -> Result<ListSnapshotsResponse, Status> {
        let wanted = |value: &str, own: &str| value.is_empty() || value == own;
        let mut snapshots = self.storage.snapshots.all().map_err(internal)?;
        snapshots.retain(|snapshot| {
            wanted(&request.snapshot_id, &snapshot.id) && wanted(&request.source_volume_id, &snapshot.source_volume_id)
        });
        let (page, next_token) = page(&snapshots, &request.starting_token, request.max_entries)?;
        let entries = page.iter().map(|snapshot| Ok(Entry { snapshot: Some(self.describe(snapshot)?) }));
        Ok(ListSnapshotsResponse { entries: entries.collect::<Result<_, Status>>()?, next_token })
    }
}

fn is_ready(settings: &Settings, created: Timestamp, now: Timestamp) -> bool {
    let age = now.duration_since(created);
    !settings.never_ready && age >= SignedDuration::from_secs(settings.ready_after_seconds.into())
}

/// The wanted stretch of a list, and the token of the next one: the place where it begins.
fn page<'a, T>(all: &'a [T], token: &str, most: i32) -> Result<(&'a [T], String), Status> {
    let start = if token.is_empty() { Some(0) } else { token.parse().ok() };
    let start = start.filter(|start| *start <= all.len());
    let start = start.ok_or_else(|| Status::aborted(format!("{token:?} is no token of ours: begin again without")))?;
    let most = usize::try_from(most).map_err(|_| Status::invalid_argument("max_entries is negative"))?;
    let end = if most == 0 { all.len() } else { all.len().min(start + most) };
    Ok((&all[start..end], if end < all.len() { end.to_string() } else { String::new() }))
}

pub(crate) fn to_wire(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;
    use tonic::Code;

    use super::*;
    use crate::driver::tests::driver;

    async fn take(driver: &Driver) -> Result<Snapshot, Status> {
        driver.take_snapshot("snapshot".into(), "volume".into(), BTreeMap::new(), None).await
    }

    #[tokio::test]
    async fn a_driver_that_fails_or_hangs_takes_the_snapshot_once_the_settings_change() {
        let folder = tempfile::tempdir().unwrap();
        let driver = driver(folder.path());
        let set = |settings: Settings| settings.write(&driver.settings_file).unwrap();
        set(Settings { fail_create_snapshot: Some("on fire".into()), ..Settings::default() });
        assert_eq!(take(&driver).await.unwrap_err().message(), "on fire");
        set(Settings { hang_create_snapshot: true, ..Settings::default() });
        timeout(Duration::from_millis(200), take(&driver)).await.unwrap_err();
        assert_eq!(driver.storage.snapshots.all().unwrap(), []);
        set(Settings::default());
        let snapshot = take(&driver).await.unwrap();
        assert_eq!(driver.storage.snapshots.all().unwrap(), [snapshot]);
    }

    #[tokio::test]
    async fn a_caller_that_comes_again_while_the_snapshot_is_taken_is_told_to_wait() {
        let folder = tempfile::tempdir().unwrap();
        let driver = driver(folder.path());
        Settings { create_snapshot_seconds: 600, ..Settings::default() }.write(&driver.settings_file).unwrap();
        let (first, again) = tokio::join!(
            timeout(Duration::from_millis(200), take(&driver)),
            timeout(Duration::from_millis(200), take(&driver))
        );
        assert!(first.is_err(), "the snapshot was taken at once");
        assert_eq!(again.unwrap().unwrap_err().code(), Code::Aborted);
    }

    #[tokio::test]
    async fn a_snapshot_that_cannot_be_removed_stays() {
        let folder = tempfile::tempdir().unwrap();
        let driver = driver(folder.path());
        take(&driver).await.unwrap();
        let failing = Settings { fail_delete_snapshot: Some("locked".into()), ..Settings::default() };
        failing.write(&driver.settings_file).unwrap();
        assert_eq!(driver.remove_snapshot("snapshot".into()).await.unwrap_err().message(), "locked");
        assert_eq!(driver.storage.snapshots.all().unwrap().len(), 1);
    }

    #[test]
    fn a_snapshot_is_ready_after_the_delay_and_not_before() {
        let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (delay, never, age, wanted) in
            [(0, false, 0, true), (30, false, 29, false), (30, false, 30, true), (0, true, 99, false)]
        {
            let settings = Settings { ready_after_seconds: delay, never_ready: never, ..Settings::default() };
            let now = created + SignedDuration::from_secs(age);
            assert_eq!(is_ready(&settings, created, now), wanted, "delay {delay}, never {never}, age {age}");
        }
    }

    #[test]
    fn pages_follow_each_other_to_the_end() {
        let all = ["a", "b", "c"];
        assert_eq!(page(&all, "", 0).unwrap(), (&all[..], String::new()));
        assert_eq!(page(&all, "", 2).unwrap(), (&all[..2], "2".to_owned()));
        assert_eq!(page(&all, "2", 2).unwrap(), (&all[2..], String::new()));
        assert!(page(&all, "x", 2).is_err());
        assert!(page(&all, "4", 2).is_err());
        assert!(page(&all, "", -1).is_err());
    }
}

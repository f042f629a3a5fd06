//! Volume snapshotters that run in a plugin binary.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Value;

use super::actions::client;
use super::call::Remote;
use crate::item::describe;
use crate::wire::generated::volume_snapshotter_client::VolumeSnapshotterClient as VolumeSnapshotterV1Client;
use crate::wire::generated::{
    CreateSnapshotRequest, CreateVolumeRequest, GetVolumeIdRequest, GetVolumeInfoRequest, SetVolumeIdRequest,
    SnapshotRequest,
};
use crate::wire::v2::volume_snapshotter_client::VolumeSnapshotterClient;
use crate::{OperationProgress, PluginKind, Result, VolumeInfo, VolumeSnapshotter};

/// A volume snapshotter of either version. Its process initialises it whenever it starts.
pub(crate) struct RemoteVolumeSnapshotter(pub(crate) Remote);

/// Makes the same call over the client of the version at hand: both carry the same messages.
macro_rules! call {
    ($self:ident, $name:literal, $object:expr, $method:ident, $request:expr) => {{
        let (request, deadline) = ($request, $self.0.deadlines().work);
        let first = $self.is_first_version();
        let call = async |connection| {
            if first {
                client!(VolumeSnapshotterV1Client, connection).$method(request).await
            } else {
                client!(VolumeSnapshotterClient, connection).$method(request).await
            }
        };
        $self.0.call($name, $object, deadline, call).await
    }};
}

impl RemoteVolumeSnapshotter {
    fn is_first_version(&self) -> bool {
        self.0.kind == PluginKind::VolumeSnapshotter
    }

    fn plugin(&self) -> String {
        self.0.name.clone()
    }

    fn snapshot(&self, snapshot_id: &str) -> SnapshotRequest {
        SnapshotRequest { plugin: self.plugin(), snapshot_id: snapshot_id.to_owned() }
    }
}

#[async_trait]
impl VolumeSnapshotter for RemoteVolumeSnapshotter {
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Does nothing: the process was told its config when it started, and is told again when it is restarted.
    async fn init(&self, _: &BTreeMap<String, String>) -> Result<()> {
        Ok(())
    }

    async fn create_volume_from_snapshot(&self, snapshot_id: &str, volume: &VolumeInfo, zone: &str) -> Result<String> {
        let request = CreateVolumeRequest {
            plugin: self.plugin(),
            snapshot_id: snapshot_id.to_owned(),
            volume_type: volume.volume_type.clone(),
            volume_az: zone.to_owned(),
            iops: volume.iops.unwrap_or_default(),
        };
        let answer = call!(self, "CreateVolumeFromSnapshot", snapshot_id, create_volume_from_snapshot, request)?;
        Ok(answer.volume_id)
    }

    async fn get_volume_info(&self, volume_id: &str, zone: &str) -> Result<VolumeInfo> {
        let (plugin, volume_az) = (self.plugin(), zone.to_owned());
        let request = GetVolumeInfoRequest { plugin, volume_id: volume_id.to_owned(), volume_az };
        let answer = call!(self, "GetVolumeInfo", volume_id, get_volume_info, request)?;
        let iops = Some(answer.iops).filter(|iops| *iops != 0);
        Ok(VolumeInfo { volume_type: answer.volume_type, iops })
    }

    async fn create_snapshot(&self, volume_id: &str, zone: &str, tags: &BTreeMap<String, String>) -> Result<String> {
        let request = CreateSnapshotRequest {
            plugin: self.plugin(),
            volume_id: volume_id.to_owned(),
            volume_az: zone.to_owned(),
            tags: tags.clone().into_iter().collect(),
        };
        Ok(call!(self, "CreateSnapshot", volume_id, create_snapshot, request)?.snapshot_id)
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<()> {
        call!(self, "DeleteSnapshot", snapshot_id, delete_snapshot, self.snapshot(snapshot_id)).map(drop)
    }

    async fn get_volume_id(&self, persistent_volume: &Value) -> Result<Option<String>> {
        let object = describe(persistent_volume);
        let persistent_volume = self.0.encode("GetVolumeID", &object, persistent_volume)?;
        let request = GetVolumeIdRequest { plugin: self.plugin(), persistent_volume };
        let answer = call!(self, "GetVolumeID", &object, get_volume_id, request)?;
        Ok(Some(answer.volume_id).filter(|id| !id.is_empty()))
    }

    async fn set_volume_id(&self, persistent_volume: &Value, volume_id: &str) -> Result<Value> {
        let object = describe(persistent_volume);
        let persistent_volume = self.0.encode("SetVolumeID", &object, persistent_volume)?;
        let request = SetVolumeIdRequest { plugin: self.plugin(), persistent_volume, volume_id: volume_id.to_owned() };
        let answer = call!(self, "SetVolumeID", &object, set_volume_id, request)?;
        let unreadable = |error| {
            self.0.error("SetVolumeID", &object, format!("the volume the plugin returned is not JSON: {error}"))
        };
        serde_json::from_slice(&answer.persistent_volume).map_err(unreadable)
    }

    fn follows_uploads(&self) -> bool {
        !self.is_first_version()
    }

    async fn progress(&self, snapshot_id: &str) -> Result<OperationProgress> {
        if self.is_first_version() {
            return Ok(OperationProgress { completed: true, ..OperationProgress::default() });
        }
        let request = self.snapshot(snapshot_id);
        let call = async |connection| client!(VolumeSnapshotterClient, connection).progress(request).await;
        let answer = self.0.try_call("Progress", snapshot_id, self.0.deadlines().question, call).await;
        self.0.progress(snapshot_id, self.0.operation_answer("Progress", snapshot_id, answer)?)
    }

    async fn cancel(&self, snapshot_id: &str) -> Result<()> {
        if self.is_first_version() {
            return Ok(());
        }
        let request = self.snapshot(snapshot_id);
        let call = async |connection| client!(VolumeSnapshotterClient, connection).cancel(request).await;
        let answer = self.0.try_call("Cancel", snapshot_id, self.0.deadlines().question, call).await;
        self.0.operation_answer("Cancel", snapshot_id, answer)
    }
}

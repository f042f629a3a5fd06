//! The controller service: volumes come and go. What it says of snapshots is in [`crate::snapshots`].

use std::path::PathBuf;

use tonic::{Request, Response, Status};

use crate::capabilities::{check_mode, common_mode};
use crate::driver::{Driver, internal, new_handle, on_disk, required, sorted};
use crate::storage::{Source, Volume, VolumeMode};
use crate::wire::csi::controller_server::Controller;
use crate::wire::csi::controller_service_capability::{self, Rpc, rpc};
use crate::wire::csi::validate_volume_capabilities_response::Confirmed;
use crate::wire::csi::volume_content_source::{self, SnapshotSource, VolumeSource};
use crate::wire::csi::{
    self, CapacityRange, ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerServiceCapability, CreateSnapshotRequest, CreateSnapshotResponse, CreateVolumeRequest,
    CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    ListSnapshotsRequest, ListSnapshotsResponse, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    VolumeContentSource,
};

/// The size of a volume for which none was asked.
const USUAL_SIZE: i64 = 1 << 30;

/// What devices are made of: bytes beyond the last whole sector could not be reached.
const SECTOR: i64 = 512;

const CAPABILITIES: [rpc::Type; 4] =
    [rpc::Type::CreateDeleteVolume, rpc::Type::CreateDeleteSnapshot, rpc::Type::ListSnapshots, rpc::Type::CloneVolume];

#[tonic::async_trait]
impl Controller for Driver {
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let capability = |call: rpc::Type| ControllerServiceCapability {
            r#type: Some(controller_service_capability::Type::Rpc(Rpc { r#type: call.into() })),
        };
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities: CAPABILITIES.map(capability).into() }))
    }

    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let volume = self.make_volume(request.into_inner()).await?;
        Ok(Response::new(CreateVolumeResponse { volume: Some(to_wire(volume)) }))
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let id = request.into_inner().volume_id;
        required(&id, "volume_id")?;
        let held = self.busy.take(&id)?;
        let storage = self.storage.clone();
        on_disk(move || {
            let _held = held;
            storage.volumes.remove(&id)
        })
        .await?;
        Ok(Response::new(DeleteVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        required(&request.volume_id, "volume_id")?;
        if request.volume_capabilities.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities is empty: set it"));
        }
        let volume = self.find_volume(&request.volume_id)?;
        let able = common_mode(&request.volume_capabilities).and_then(|mode| check_mode(&volume, mode));
        let confirmed = Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
        };
        Ok(Response::new(match able {
            Ok(()) => ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() },
            Err(reason) => ValidateVolumeCapabilitiesResponse { confirmed: None, message: reason.message().to_owned() },
        }))
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        let CreateSnapshotRequest { source_volume_id, name, parameters } = request.into_inner();
        let snapshot = self.take_snapshot(name, source_volume_id, sorted(parameters), None).await?;
        Ok(Response::new(CreateSnapshotResponse { snapshot: Some(self.describe(&snapshot)?) }))
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        self.remove_snapshot(request.into_inner().snapshot_id).await?;
        Ok(Response::new(DeleteSnapshotResponse {}))
    }

    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        self.page_of_snapshots(&request.into_inner()).map(Response::new)
    }
}

impl Driver {
    async fn make_volume(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        new_handle(&request.name)?;
        let mode = common_mode(&request.volume_capabilities)?;
        if let Some(message) = self.settings(&sorted(request.parameters))?.fail_create_volume {
            return Err(Status::internal(message));
        }
        let held = self.busy.take(&request.name)?;
        let range = request.capacity_range.unwrap_or_default();
        let source = request.volume_content_source.and_then(|source| source.r#type).map(from_wire);
        if let Some(volume) = self.storage.volumes.get(&request.name).map_err(internal)? {
            return if volume.source == source && volume.mode == mode && fits(volume.capacity_bytes, range) {
                Ok(volume)
            } else {
                Err(Status::already_exists(format!("there is another volume {}", volume.id)))
            };
        }
        let (least, data) = self.first_data(source.as_ref(), mode)?;
        let volume = Volume { id: request.name, mode, capacity_bytes: capacity(range, least, mode)?, source };
        let (storage, devices) = (self.storage.clone(), self.devices.clone());
        on_disk(move || {
            let _held = held;
            if let Some(Source::Volume(id)) = &volume.source {
                devices.flush(id)?;
            }
            storage.volumes.put(&volume, data.as_deref())?;
            Ok(volume)
        })
        .await
    }

    /// What a new volume begins with: the least size it can have, and the data.
    fn first_data(&self, source: Option<&Source>, mode: VolumeMode) -> Result<(i64, Option<PathBuf>), Status> {
        match source {
            None => Ok((0, None)),
            Some(Source::Snapshot(id)) => {
                let snapshot = self.find_snapshot(id)?;
                if snapshot.mode != mode {
                    let own = snapshot.mode;
                    let refusal =
                        format!("the snapshot {id} is of a volume for volumeMode {own} and cannot become one");
                    return Err(Status::invalid_argument(format!("{refusal} for {mode}: ask for {own}")));
                }
                if !self.describe(&snapshot)?.ready_to_use {
                    return Err(Status::unavailable(format!("the snapshot {id} is not ready to use")));
                }
                Ok((snapshot.size_bytes, Some(self.storage.snapshots.data(id))))
            }
            Some(Source::Volume(id)) => {
                let volume = self.find_volume(id)?;
                check_mode(&volume, mode)?;
                Ok((volume.capacity_bytes, Some(self.storage.volumes.data(id))))
            }
        }
    }

    pub(crate) fn find_volume(&self, id: &str) -> Result<Volume, Status> {
        let found = self.storage.volumes.get(id).map_err(internal)?;
        found.ok_or_else(|| Status::not_found(format!("there is no volume {id}")))
    }
}

fn fits(capacity: i64, range: CapacityRange) -> bool {
    capacity >= range.required_bytes && (range.limit_bytes == 0 || capacity <= range.limit_bytes)
}

/// The capacity of a new volume: what is required, and no less than its source has.
fn capacity(range: CapacityRange, least: i64, mode: VolumeMode) -> Result<i64, Status> {
    let wanted = match (range.required_bytes, range.limit_bytes) {
        (0, 0) => USUAL_SIZE,
        (0, limit) => limit.min(USUAL_SIZE),
        (required, _) => required,
    };
    // A volume for which no size was asked is as large as its source.
    let wanted = if range.required_bytes == 0 { wanted.max(least) } else { wanted };
    let wanted = match mode {
        VolumeMode::Filesystem => wanted,
        VolumeMode::Block => wanted.saturating_add(SECTOR - 1) / SECTOR * SECTOR,
    };
    if wanted >= least && fits(wanted, range) {
        return Ok(wanted);
    }
    let (required, limit) = (range.required_bytes, range.limit_bytes);
    Err(Status::out_of_range(format!("no size is right: required {required}, limit {limit}, of the source {least}")))
}

fn from_wire(source: volume_content_source::Type) -> Source {
    match source {
        volume_content_source::Type::Snapshot(SnapshotSource { snapshot_id }) => Source::Snapshot(snapshot_id),
        volume_content_source::Type::Volume(VolumeSource { volume_id }) => Source::Volume(volume_id),
    }
}

fn to_wire(volume: Volume) -> csi::Volume {
    let content = volume.source.map(|source| match source {
        Source::Snapshot(snapshot_id) => volume_content_source::Type::Snapshot(SnapshotSource { snapshot_id }),
        Source::Volume(volume_id) => volume_content_source::Type::Volume(VolumeSource { volume_id }),
    });
    csi::Volume {
        capacity_bytes: volume.capacity_bytes,
        volume_id: volume.id,
        volume_context: Default::default(),
        content_source: content.map(|content| VolumeContentSource { r#type: Some(content) }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic::Code;

    use super::*;
    use crate::driver::tests::driver;
    use crate::wire::csi::VolumeCapability;
    use crate::wire::csi::volume_capability::{AccessType, BlockVolume, MountVolume};

    fn request(name: &str, source: Option<Source>, parameters: &[(&str, &str)]) -> CreateVolumeRequest {
        let mount = AccessType::Mount(MountVolume::default());
        let volume = Volume { id: String::new(), mode: VolumeMode::Filesystem, capacity_bytes: 0, source };
        let content = to_wire(volume).content_source;
        CreateVolumeRequest {
            name: name.into(),
            volume_capabilities: vec![VolumeCapability { access_type: Some(mount), access_mode: None }],
            parameters: parameters
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect::<HashMap<_, _>>(),
            volume_content_source: content,
            capacity_range: None,
        }
    }

    #[tokio::test]
    async fn making_a_volume_fails_when_its_class_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let driver = driver(folder.path());
        let error = driver.make_volume(request("new", None, &[("failCreateVolume", "no space")])).await.unwrap_err();
        assert_eq!(error.message(), "no space");
        let error = driver.make_volume(request("new", None, &[("colour", "red")])).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains("colour"), "{error}");
        driver.make_volume(request("new", None, &[])).await.unwrap();
    }

    #[tokio::test]
    async fn a_volume_from_a_snapshot_waits_until_the_snapshot_is_ready() {
        let folder = tempfile::tempdir().unwrap();
        let driver = driver(folder.path());
        let slow = [("neverReady".to_owned(), "true".to_owned())].into();
        driver.take_snapshot("slow".into(), "volume".into(), slow, None).await.unwrap();
        let from = |snapshot: &str| request("new", Some(Source::Snapshot(snapshot.into())), &[]);
        assert_eq!(driver.make_volume(from("slow")).await.unwrap_err().code(), Code::Unavailable);
        assert_eq!(driver.make_volume(from("missing")).await.unwrap_err().code(), Code::NotFound);
        driver.take_snapshot("quick".into(), "volume".into(), Default::default(), None).await.unwrap();
        driver.make_volume(from("quick")).await.unwrap();
        let other = request("new", Some(Source::Volume("volume".into())), &[]);
        assert_eq!(driver.make_volume(other).await.unwrap_err().code(), Code::AlreadyExists);
    }

    fn device_request(name: &str, source: Option<Source>) -> CreateVolumeRequest {
        let block = VolumeCapability { access_type: Some(AccessType::Block(BlockVolume {})), access_mode: None };
        CreateVolumeRequest { volume_capabilities: vec![block], ..request(name, source, &[]) }
    }

    #[tokio::test]
    async fn what_is_made_of_a_volume_or_its_snapshot_has_the_mode_of_the_volume() {
        let folder = tempfile::tempdir().unwrap();
        let driver = driver(folder.path());
        for volume in ["volume", "device"] {
            driver.take_snapshot(format!("of-{volume}"), volume.into(), Default::default(), None).await.unwrap();
            let sources = [Source::Volume(volume.into()), Source::Snapshot(format!("of-{volume}"))];
            for (number, source) in sources.into_iter().enumerate() {
                let name = format!("{volume}-{number}");
                let (mount, block) = (request(&name, Some(source.clone()), &[]), device_request(&name, Some(source)));
                let (same, other) = if volume == "device" { (block, mount) } else { (mount, block) };
                let refusal = driver.make_volume(other.clone()).await.unwrap_err();
                assert_eq!(refusal.code(), Code::InvalidArgument, "{refusal}");
                assert!(refusal.message().contains("volumeMode"), "{refusal}");
                driver.make_volume(same).await.unwrap();
                assert_eq!(driver.make_volume(other).await.unwrap_err().code(), Code::AlreadyExists);
            }
        }
    }

    #[test]
    fn a_device_has_whole_sectors() {
        for (required, limit, least, wanted) in
            [(1, 0, 0, Some(512)), (512, 512, 512, Some(512)), (513, 0, 512, Some(1024)), (1, 511, 0, None)]
        {
            let range = CapacityRange { required_bytes: required, limit_bytes: limit };
            let capacity = capacity(range, least, VolumeMode::Block);
            assert_eq!(capacity.ok(), wanted, "required {required}, limit {limit}, least {least}");
        }
    }

    #[test]
    fn the_capacity_is_what_is_required_and_no_less_than_the_source() {
        for (required, limit, least, wanted) in [
            (0, 0, 0, Some(USUAL_SIZE)),
            (5, 0, 0, Some(5)),
            (5, 9, 0, Some(5)),
            (0, 9, 0, Some(9)),
            (0, 0, USUAL_SIZE * 2, Some(USUAL_SIZE * 2)),
            (5, 0, 5, Some(5)),
            (5, 0, 6, None),
            (0, 5, 6, None),
            (9, 5, 0, None),
        ] {
            let range = CapacityRange { required_bytes: required, limit_bytes: limit };
            let capacity = capacity(range, least, VolumeMode::Filesystem);
            assert_eq!(capacity.ok(), wanted, "required {required}, limit {limit}, least {least}");
        }
    }
}

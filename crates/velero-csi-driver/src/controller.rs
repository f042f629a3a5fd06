//! The controller service: volumes come and go. What it says of snapshots is in [`crate::snapshots`].

use tonic::{Request, Response, Status};

use crate::driver::{Driver, internal, new_handle, on_disk, required, sorted};
use crate::storage::{Source, Volume};
use crate::wire::csi::controller_server::Controller;
use crate::wire::csi::controller_service_capability::{self, Rpc, rpc};
use crate::wire::csi::validate_volume_capabilities_response::Confirmed;
use crate::wire::csi::volume_capability::AccessType;
use crate::wire::csi::volume_content_source::{self, SnapshotSource, VolumeSource};
use crate::wire::csi::{
    self, CapacityRange, ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerServiceCapability, CreateSnapshotRequest, CreateSnapshotResponse, CreateVolumeRequest,
    CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    ListSnapshotsRequest, ListSnapshotsResponse, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    VolumeCapability, VolumeContentSource,
};

/// The size of a volume for which none was asked.
const USUAL_SIZE: i64 = 1 << 30;

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
        self.find_volume(&request.volume_id)?;
        let able = request.volume_capabilities.iter().try_for_each(|capability| check_capability(Some(capability)));
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
        if request.volume_capabilities.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities is empty: set it"));
        }
        request.volume_capabilities.iter().try_for_each(|capability| check_capability(Some(capability)))?;
        if let Some(message) = self.settings(&sorted(request.parameters))?.fail_create_volume {
            return Err(Status::internal(message));
        }
        let held = self.busy.take(&request.name)?;
        let range = request.capacity_range.unwrap_or_default();
        let source = request.volume_content_source.and_then(|source| source.r#type).map(from_wire);
        if let Some(volume) = self.storage.volumes.get(&request.name).map_err(internal)? {
            return if volume.source == source && fits(volume.capacity_bytes, range) {
                Ok(volume)
            } else {
                Err(Status::already_exists(format!("there is another volume {}", volume.id)))
            };
        }
        let (least, data) = match &source {
            None => (0, None),
            Some(Source::Snapshot(id)) => {
                let snapshot = self.find_snapshot(id)?;
                if !self.describe(&snapshot)?.ready_to_use {
                    return Err(Status::unavailable(format!("the snapshot {id} is not ready to use")));
                }
                (snapshot.size_bytes, Some(self.storage.snapshots.data(id)))
            }
            Some(Source::Volume(id)) => (self.find_volume(id)?.capacity_bytes, Some(self.storage.volumes.data(id))),
        };
        let volume = Volume { id: request.name, capacity_bytes: capacity(range, least)?, source };
        let storage = self.storage.clone();
        on_disk(move || {
            let _held = held;
            storage.volumes.put(&volume, data.as_deref())?;
            Ok(volume)
        })
        .await
    }

    pub(crate) fn find_volume(&self, id: &str) -> Result<Volume, Status> {
        let found = self.storage.volumes.get(id).map_err(internal)?;
        found.ok_or_else(|| Status::not_found(format!("there is no volume {id}")))
    }
}

/// Volumes are directories: they can be mounted, and nothing else.
pub(crate) fn check_capability(capability: Option<&VolumeCapability>) -> Result<(), Status> {
    match capability.and_then(|capability| capability.access_type.as_ref()) {
        Some(AccessType::Mount(_)) => Ok(()),
        Some(AccessType::Block(_)) => {
            Err(Status::invalid_argument("block volumes are not supported: use volumeMode Filesystem"))
        }
        None => Err(Status::invalid_argument("volume_capability is empty: set it")),
    }
}

fn fits(capacity: i64, range: CapacityRange) -> bool {
    capacity >= range.required_bytes && (range.limit_bytes == 0 || capacity <= range.limit_bytes)
}

/// The capacity of a new volume: what is required, and no less than its source has.
fn capacity(range: CapacityRange, least: i64) -> Result<i64, Status> {
    let wanted = match (range.required_bytes, range.limit_bytes) {
        (0, 0) => USUAL_SIZE,
        (0, limit) => limit.min(USUAL_SIZE),
        (required, _) => required,
    };
    // A volume for which no size was asked is as large as its source.
    let wanted = if range.required_bytes == 0 { wanted.max(least) } else { wanted };
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
    use crate::wire::csi::volume_capability::MountVolume;

    fn request(name: &str, source: Option<Source>, parameters: &[(&str, &str)]) -> CreateVolumeRequest {
        let mount = AccessType::Mount(MountVolume::default());
        let content = to_wire(Volume { id: String::new(), capacity_bytes: 0, source }).content_source;
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
            assert_eq!(capacity(range, least).ok(), wanted, "required {required}, limit {limit}, least {least}");
        }
    }
}

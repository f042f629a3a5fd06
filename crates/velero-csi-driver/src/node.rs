//! What the driver does on the node: a volume's data appears where kubelet wants it, as a folder or as a device.

use std::path::Path;

use tonic::{Request, Response, Status};

use crate::capabilities::{check_mode, mode_of};
use crate::driver::{Driver, internal, on_disk, required};
use crate::mounts;
use crate::storage::VolumeMode;
use crate::wire::csi::node_server::Node;
use crate::wire::csi::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
};

#[tonic::async_trait]
impl Node for Driver {
    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(NodeGetCapabilitiesResponse {}))
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Result<Response<NodeGetInfoResponse>, Status> {
        Ok(Response::new(NodeGetInfoResponse { node_id: self.node.clone() }))
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        required(&request.volume_id, "volume_id")?;
        required(&request.target_path, "target_path")?;
        let mode = mode_of(request.volume_capability.as_ref())?;
        let held = self.busy.take(&request.target_path)?;
        check_mode(&self.find_volume(&request.volume_id)?, mode)?;
        let data = self.storage.volumes.data(&request.volume_id);
        let devices = self.devices.clone();
        on_disk(move || {
            let _held = held;
            let target = Path::new(&request.target_path);
            match mode {
                VolumeMode::Filesystem => mounts::bind(&data, target, request.readonly),
                VolumeMode::Block => devices.publish(&request.volume_id, &data, target, request.readonly),
            }
        })
        .await?;
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        required(&request.volume_id, "volume_id")?;
        required(&request.target_path, "target_path")?;
        let held = self.busy.take(&request.target_path)?;
        // A pod must be able to end even where its volume is gone: what is there is taken away first.
        let known = self.storage.volumes.get(&request.volume_id).map_err(internal)?.is_some();
        let (devices, id) = (self.devices.clone(), request.volume_id.clone());
        let found = on_disk(move || {
            let _held = held;
            devices.unpublish(&id, Path::new(&request.target_path))
        })
        .await?;
        if !known && !found {
            return Err(Status::not_found(format!("there is no volume {}", request.volume_id)));
        }
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }
}

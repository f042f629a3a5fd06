//! What the driver does on the node: a volume's data appears where kubelet wants it, by a bind mount.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
use tonic::{Request, Response, Status};

use crate::controller::check_capability;
use crate::driver::{Driver, internal, on_disk, required};
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
        check_capability(request.volume_capability.as_ref())?;
        let _held = self.busy.take(&request.target_path)?;
        if self.storage.volumes.get(&request.volume_id).map_err(internal)?.is_none() {
            return Err(Status::not_found(format!("there is no volume {}", request.volume_id)));
        }
        let data = self.storage.volumes.data(&request.volume_id);
        on_disk(move || publish(&data, Path::new(&request.target_path), request.readonly)).await?;
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        required(&request.volume_id, "volume_id")?;
        required(&request.target_path, "target_path")?;
        let _held = self.busy.take(&request.target_path)?;
        // A pod must be able to end even where its volume is gone: what is there is taken away first.
        let known = self.storage.volumes.get(&request.volume_id).map_err(internal)?.is_some();
        let found = on_disk(move || unpublish(Path::new(&request.target_path))).await?;
        if !known && !found {
            return Err(Status::not_found(format!("there is no volume {}", request.volume_id)));
        }
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }
}

fn publish(data: &Path, target: &Path, readonly: bool) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("cannot create {}", target.display()))?;
    if is_mounted(target)? {
        return Ok(());
    }
    let mount = || {
        mount_bind(data, target)?;
        if readonly { mount_remount(target, MountFlags::BIND | MountFlags::RDONLY, "") } else { Ok(()) }
    };
    mount().with_context(|| format!("cannot mount {} at {}", data.display(), target.display())).inspect_err(|_| {
        let _ = unpublish(target);
    })
}

/// Takes the mount and its folder away; false where there was none.
fn unpublish(target: &Path) -> Result<bool> {
    if !target.exists() {
        return Ok(false);
    }
    if is_mounted(target)? {
        unmount(target, UnmountFlags::empty()).with_context(|| format!("cannot unmount {}", target.display()))?;
    }
    fs::remove_dir(target).with_context(|| format!("cannot remove {}", target.display()))?;
    Ok(true)
}

fn is_mounted(target: &Path) -> Result<bool> {
    let target = fs::canonicalize(target)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|place| Path::new(place) == target))
}

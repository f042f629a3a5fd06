//! Snapshots of several volumes taken together. A group has no record of its own: it is what its snapshots say.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tonic::{Request, Response, Status};

use crate::driver::{Driver, internal, new_handle, required, sorted};
use crate::snapshots::to_wire;
use crate::storage::Snapshot;
use crate::wire::csi::group_controller_server::GroupController;
use crate::wire::csi::group_controller_service_capability::{self, Rpc, rpc};
use crate::wire::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse, DeleteVolumeGroupSnapshotRequest,
    DeleteVolumeGroupSnapshotResponse, GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse,
    GroupControllerGetCapabilitiesRequest, GroupControllerGetCapabilitiesResponse, GroupControllerServiceCapability,
    VolumeGroupSnapshot,
};

#[tonic::async_trait]
impl GroupController for Driver {
    async fn group_controller_get_capabilities(
        &self,
        _: Request<GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<GroupControllerGetCapabilitiesResponse>, Status> {
        let call = Rpc { r#type: rpc::Type::CreateDeleteGetVolumeGroupSnapshot.into() };
        let capability = group_controller_service_capability::Type::Rpc(call);
        let capabilities = vec![GroupControllerServiceCapability { r#type: Some(capability) }];
        Ok(Response::new(GroupControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> Result<Response<CreateVolumeGroupSnapshotResponse>, Status> {
        let CreateVolumeGroupSnapshotRequest { name, source_volume_ids, parameters } = request.into_inner();
        new_handle(&name)?;
        if source_volume_ids.is_empty() {
            return Err(Status::invalid_argument("source_volume_ids is empty: set it"));
        }
        let wanted: BTreeSet<String> = source_volume_ids.into_iter().collect();
        if self.members(&name)?.iter().any(|snapshot| !wanted.contains(&snapshot.source_volume_id)) {
            return Err(Status::already_exists(format!("there is a group {name} of other volumes")));
        }
        wanted.iter().try_for_each(|volume| self.find_volume(volume).map(drop))?;
        let parameters = sorted(parameters);
        for volume in wanted {
            let snapshot = format!("{name}-{volume}");
            self.take_snapshot(snapshot, volume, parameters.clone(), Some(name.clone())).await?;
        }
        Ok(Response::new(CreateVolumeGroupSnapshotResponse { group_snapshot: Some(self.describe_group(name)?) }))
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<DeleteVolumeGroupSnapshotRequest>,
    ) -> Result<Response<DeleteVolumeGroupSnapshotResponse>, Status> {
        let DeleteVolumeGroupSnapshotRequest { group_snapshot_id, snapshot_ids } = request.into_inner();
        required(&group_snapshot_id, "group_snapshot_id")?;
        self.check_members(&group_snapshot_id, &snapshot_ids)?;
        for snapshot in self.members(&group_snapshot_id)? {
            self.remove_snapshot(snapshot.id).await?;
        }
        Ok(Response::new(DeleteVolumeGroupSnapshotResponse {}))
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<GetVolumeGroupSnapshotRequest>,
    ) -> Result<Response<GetVolumeGroupSnapshotResponse>, Status> {
        let GetVolumeGroupSnapshotRequest { group_snapshot_id, snapshot_ids } = request.into_inner();
        required(&group_snapshot_id, "group_snapshot_id")?;
        self.check_members(&group_snapshot_id, &snapshot_ids)?;
        let group_snapshot = Some(self.describe_group(group_snapshot_id)?);
        Ok(Response::new(GetVolumeGroupSnapshotResponse { group_snapshot }))
    }
}

impl Driver {
    fn members(&self, group: &str) -> Result<Vec<Snapshot>, Status> {
        let mut snapshots = self.storage.snapshots.all().map_err(internal)?;
        snapshots.retain(|snapshot| snapshot.group.as_deref() == Some(group));
        Ok(snapshots)
    }

    /// Refuses snapshots that are not of the group: the caller mixed something up. Those that are gone are fine.
    fn check_members(&self, group: &str, named: &[String]) -> Result<(), Status> {
        for id in named {
            let snapshot = self.storage.snapshots.get(id).map_err(internal)?;
            if snapshot.is_some_and(|snapshot| snapshot.group.as_deref() != Some(group)) {
                return Err(Status::invalid_argument(format!("the snapshot {id} is not of the group {group}")));
            }
        }
        Ok(())
    }

    fn describe_group(&self, group: String) -> Result<VolumeGroupSnapshot, Status> {
        let members = self.members(&group)?;
        let first = members.iter().map(|snapshot| snapshot.created).min();
        let first: Timestamp = first.ok_or_else(|| Status::not_found(format!("there is no group {group}")))?;
        let snapshots: Vec<_> = members.iter().map(|snapshot| self.describe(snapshot)).collect::<Result<_, _>>()?;
        Ok(VolumeGroupSnapshot {
            group_snapshot_id: group,
            creation_time: Some(to_wire(first)),
            ready_to_use: snapshots.iter().all(|snapshot| snapshot.ready_to_use),
            snapshots,
        })
    }
}

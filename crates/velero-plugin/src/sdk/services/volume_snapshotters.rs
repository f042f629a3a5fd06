//! Volume snapshotters, in both versions of the protocol.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::{decode, encode, find};
use crate::sdk::guard::answer;
use crate::sdk::plugins::Plugins;
use crate::wire::generated::volume_snapshotter_server::VolumeSnapshotter as VolumeSnapshotterV1Service;
use crate::wire::generated::{
    CreateSnapshotRequest, CreateSnapshotResponse, CreateVolumeRequest, Empty, GetVolumeIdRequest,
    GetVolumeInfoRequest, GetVolumeInfoResponse, InitRequest, ProgressResponse, SetVolumeIdRequest,
    SetVolumeIdResponse, SnapshotRequest, VolumeIdResponse,
};
use crate::wire::progress_to;
use crate::wire::v2::volume_snapshotter_server::VolumeSnapshotter as VolumeSnapshotterService;
use crate::{PluginKind, Result, VolumeInfo, VolumeSnapshotter};

type Answer<T> = Result<Response<T>, Status>;

/// The volume snapshotters of this process.
#[derive(Clone)]
pub(crate) struct VolumeSnapshotters(pub(crate) Arc<Plugins>);

impl VolumeSnapshotters {
    fn find(&self, name: &str) -> Result<Arc<dyn VolumeSnapshotter>> {
        find(&self.0.snapshotters, PluginKind::VolumeSnapshotter, name)
    }

    async fn init(&self, request: InitRequest) -> Result<Empty> {
        let config = request.config.into_iter().collect();
        self.find(&request.plugin)?.init(&config).await.map(|()| Empty {})
    }

    async fn create_volume_from_snapshot(&self, request: CreateVolumeRequest) -> Result<VolumeIdResponse> {
        let iops = Some(request.iops).filter(|iops| *iops != 0);
        let volume = VolumeInfo { volume_type: request.volume_type, iops };
        let snapshotter = self.find(&request.plugin)?;
        let volume_id =
            snapshotter.create_volume_from_snapshot(&request.snapshot_id, &volume, &request.volume_az).await?;
        Ok(VolumeIdResponse { volume_id })
    }

    async fn get_volume_info(&self, request: GetVolumeInfoRequest) -> Result<GetVolumeInfoResponse> {
        let info = self.find(&request.plugin)?.get_volume_info(&request.volume_id, &request.volume_az).await?;
        Ok(GetVolumeInfoResponse { volume_type: info.volume_type, iops: info.iops.unwrap_or_default() })
    }

    async fn create_snapshot(&self, request: CreateSnapshotRequest) -> Result<CreateSnapshotResponse> {
        let tags = request.tags.into_iter().collect();
        let snapshotter = self.find(&request.plugin)?;
        let snapshot_id = snapshotter.create_snapshot(&request.volume_id, &request.volume_az, &tags).await?;
        Ok(CreateSnapshotResponse { snapshot_id })
    }

    async fn delete_snapshot(&self, request: SnapshotRequest) -> Result<Empty> {
        self.find(&request.plugin)?.delete_snapshot(&request.snapshot_id).await.map(|()| Empty {})
    }

    async fn get_volume_id(&self, request: GetVolumeIdRequest) -> Result<VolumeIdResponse> {
        let volume = decode("persistent volume", &request.persistent_volume)?;
        let volume_id = self.find(&request.plugin)?.get_volume_id(&volume).await?;
        Ok(VolumeIdResponse { volume_id: volume_id.unwrap_or_default() })
    }

    async fn set_volume_id(&self, request: SetVolumeIdRequest) -> Result<SetVolumeIdResponse> {
        let volume = decode("persistent volume", &request.persistent_volume)?;
        let volume = self.find(&request.plugin)?.set_volume_id(&volume, &request.volume_id).await?;
        Ok(SetVolumeIdResponse { persistent_volume: encode("persistent volume", &volume)? })
    }
}

/// Answers the calls that both versions have, and those that only one has.
macro_rules! service {
    ($service:ident, $($further:item)*) => {
        #[tonic::async_trait]
        impl $service for VolumeSnapshotters {
            async fn init(&self, request: Request<InitRequest>) -> Answer<Empty> {
                answer(Self::init(self, request.into_inner())).await
            }

            async fn create_volume_from_snapshot(
                &self,
                request: Request<CreateVolumeRequest>,
            ) -> Answer<VolumeIdResponse> {
                answer(Self::create_volume_from_snapshot(self, request.into_inner())).await
            }

            async fn get_volume_info(&self, request: Request<GetVolumeInfoRequest>) -> Answer<GetVolumeInfoResponse> {
                answer(Self::get_volume_info(self, request.into_inner())).await
            }

            async fn create_snapshot(
                &self,
                request: Request<CreateSnapshotRequest>,
            ) -> Answer<CreateSnapshotResponse> {
                answer(Self::create_snapshot(self, request.into_inner())).await
            }

            async fn delete_snapshot(&self, request: Request<SnapshotRequest>) -> Answer<Empty> {
                answer(Self::delete_snapshot(self, request.into_inner())).await
            }

            async fn get_volume_id(&self, request: Request<GetVolumeIdRequest>) -> Answer<VolumeIdResponse> {
                answer(Self::get_volume_id(self, request.into_inner())).await
            }

            async fn set_volume_id(&self, request: Request<SetVolumeIdRequest>) -> Answer<SetVolumeIdResponse> {
                answer(Self::set_volume_id(self, request.into_inner())).await
            }

            $($further)*
        }
    };
}

service! { VolumeSnapshotterV1Service, }

service! {
    VolumeSnapshotterService,

    async fn progress(&self, request: Request<SnapshotRequest>) -> Answer<ProgressResponse> {
        answer(async {
            let request = request.into_inner();
            let progress = self.find(&request.plugin)?.progress(&request.snapshot_id).await?;
            Ok(ProgressResponse { progress: Some(progress_to(progress)) })
        })
        .await
    }

    async fn cancel(&self, request: Request<SnapshotRequest>) -> Answer<()> {
        answer(async {
            let request = request.into_inner();
            self.find(&request.plugin)?.cancel(&request.snapshot_id).await
        })
        .await
    }
}

//! Who the driver is.

use tonic::{Request, Response, Status};

use crate::DRIVER_NAME;
use crate::driver::Driver;
use crate::wire::csi::identity_server::Identity;
use crate::wire::csi::plugin_capability::{self, Service, service};
use crate::wire::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let vendor_version = env!("CARGO_PKG_VERSION").into();
        Ok(Response::new(GetPluginInfoResponse { name: DRIVER_NAME.into(), vendor_version }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let services = [service::Type::ControllerService, service::Type::GroupControllerService];
        let capability = |service: service::Type| PluginCapability {
            r#type: Some(plugin_capability::Type::Service(Service { r#type: service.into() })),
        };
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities: services.map(capability).into() }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}

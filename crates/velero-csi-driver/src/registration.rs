//! How kubelet learns of the driver.

use std::path::PathBuf;

use tonic::{Request, Response, Status};

use crate::DRIVER_NAME;
use crate::wire::kubelet::registration_server::Registration;
use crate::wire::kubelet::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

/// Tells kubelet where the driver listens.
pub(crate) struct Announcement {
    pub(crate) socket: PathBuf,
}

#[tonic::async_trait]
impl Registration for Announcement {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".into(),
            name: DRIVER_NAME.into(),
            endpoint: self.socket.display().to_string(),
            supported_versions: vec!["1.0.0".into()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        match status.plugin_registered {
            true => println!("kubelet knows the driver"),
            false => eprintln!("kubelet does not take the driver: {}", status.error),
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

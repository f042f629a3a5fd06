//! The services of the process itself: health, its end, what it prints, and the list of its plugins.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use crate::PluginKind;
use crate::sdk::stdio::Printed;
use crate::wire::generated::plugin_lister_server::PluginLister;
use crate::wire::generated::{self, ListPluginsResponse, PluginIdentifier};
use crate::wire::go_plugin::grpc_broker_server::GrpcBroker;
use crate::wire::go_plugin::grpc_controller_server::GrpcController;
use crate::wire::go_plugin::grpc_stdio_server::GrpcStdio;
use crate::wire::go_plugin::stdio_data::Channel;
use crate::wire::go_plugin::{self, ConnInfo, StdioData};
use crate::wire::health::health_check_response::ServingStatus;
use crate::wire::health::health_server::Health;
use crate::wire::health::{HealthCheckRequest, HealthCheckResponse};

type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// The process that serves.
#[derive(Clone)]
pub(crate) struct Process {
    listed: Arc<Vec<(PluginKind, String)>>,
    printed: Arc<Printed>,
    shutdown: watch::Sender<bool>,
}

impl Process {
    pub(crate) fn new(listed: Vec<(PluginKind, String)>, printed: Printed, shutdown: watch::Sender<bool>) -> Self {
        Self { listed: Arc::new(listed), printed: Arc::new(printed), shutdown }
    }

    /// Ends when the process does, so that no open stream holds it back.
    fn end(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.shutdown.subscribe();
        async move {
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }
}

#[tonic::async_trait]
impl PluginLister for Process {
    async fn list_plugins(&self, _: Request<generated::Empty>) -> Result<Response<ListPluginsResponse>, Status> {
        let command = std::env::args().next().unwrap_or_default();
        let identify = |(kind, name): &(PluginKind, String)| PluginIdentifier {
            command: command.clone(),
            kind: kind.to_string(),
            name: name.clone(),
        };
        Ok(Response::new(ListPluginsResponse { plugins: self.listed.iter().map(identify).collect() }))
    }
}

#[tonic::async_trait]
impl GrpcController for Process {
    async fn shutdown(&self, _: Request<go_plugin::Empty>) -> Result<Response<go_plugin::Empty>, Status> {
        self.shutdown.send_replace(true);
        Ok(Response::new(go_plugin::Empty {}))
    }
}

#[tonic::async_trait]
impl GrpcStdio for Process {
    type StreamStdioStream = Answers<StdioData>;

    async fn stream_stdio(&self, _: Request<()>) -> Result<Response<Self::StreamStdioStream>, Status> {
        let taken = || Status::failed_precondition("the output was asked for before");
        let pieces = self.printed.take().ok_or_else(taken)?;
        let pieces = stream::unfold(pieces, |mut pieces| async move { Some((pieces.recv().await?, pieces)) });
        let pieces = pieces.map(|data| Ok(StdioData { channel: Channel::Stdout.into(), data }));
        Ok(Response::new(pieces.take_until(self.end()).boxed()))
    }
}

#[tonic::async_trait]
impl GrpcBroker for Process {
    type StartStreamStream = Answers<ConnInfo>;

    /// Stays open and silent: our plugins make no connections of their own.
    async fn start_stream(&self, _: Request<Streaming<ConnInfo>>) -> Result<Response<Self::StartStreamStream>, Status> {
        Ok(Response::new(stream::pending().take_until(self.end()).boxed()))
    }
}

#[tonic::async_trait]
impl Health for Process {
    type WatchStream = Answers<HealthCheckResponse>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        match request.get_ref().service.as_str() {
            "" | "plugin" => Ok(Response::new(serving())),
            other => Err(Status::not_found(format!("unknown service {other}"))),
        }
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let now = stream::once(async { Ok(serving()) });
        Ok(Response::new(now.chain(stream::pending()).take_until(self.end()).boxed()))
    }
}

fn serving() -> HealthCheckResponse {
    HealthCheckResponse { status: ServingStatus::Serving.into() }
}

//! Serving: from the first line on stdout to the end.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::transport::server::Router;

use super::install;
use super::listener::Listener;
use super::logs;
use super::plugins::Plugins;
use super::services::{Actions, ObjectStores, Process, VolumeSnapshotters};
use super::stdio::Printed;
use crate::host::handshake::{ENVIRONMENT, FURTHER_KINDS};
use crate::wire::generated::backup_item_action_server::BackupItemActionServer as BackupItemActionV1Server;
use crate::wire::generated::delete_item_action_server::DeleteItemActionServer;
use crate::wire::generated::object_store_server::ObjectStoreServer;
use crate::wire::generated::plugin_lister_server::PluginListerServer;
use crate::wire::generated::restore_item_action_server::RestoreItemActionServer as RestoreItemActionV1Server;
use crate::wire::generated::volume_snapshotter_server::VolumeSnapshotterServer as VolumeSnapshotterV1Server;
use crate::wire::go_plugin::grpc_broker_server::GrpcBrokerServer;
use crate::wire::go_plugin::grpc_controller_server::GrpcControllerServer;
use crate::wire::go_plugin::grpc_stdio_server::GrpcStdioServer;
use crate::wire::health::health_server::HealthServer;
use crate::wire::v1::item_block_action_server::ItemBlockActionServer;
use crate::wire::v2::backup_item_action_server::BackupItemActionServer;
use crate::wire::v2::restore_item_action_server::RestoreItemActionServer;
use crate::wire::v2::volume_snapshotter_server::VolumeSnapshotterServer;

/// How long calls may go on after the host asked the process to end.
const LAST_CALLS: Duration = Duration::from_millis(500);

/// How often a plugin looks whether its host still lives.
const LOOK_FOR_HOST: Duration = Duration::from_secs(2);

/// Serves plugins to the host that started this process, until the host asks it to end or is gone itself.
///
/// Call it first in `main` and return what it returns.
pub async fn serve(plugins: Plugins) -> ExitCode {
    let (cookie, value) = ENVIRONMENT[0];
    if std::env::var(cookie).as_deref() != Ok(value) {
        if let Some(done) = install::run(&std::env::args().skip(1).collect::<Vec<_>>()) {
            return done;
        }
        eprintln!(
            "This binary is a plugin. These are not meant to be executed directly.\n\
             Please execute the program that consumes these plugins, which will\n\
             load any plugins automatically"
        );
        return ExitCode::FAILURE;
    }
    logs::install();
    match run(plugins).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the plugin cannot be served: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(plugins: Plugins) -> Result<(), Box<dyn Error>> {
    plugins.check()?;
    let listener = Listener::bind().await?;
    let (shutdown, ended) = watch::channel(false);
    let mut stdout = std::io::stdout();
    stdout.write_all(listener.handshake()?.as_bytes())?;
    stdout.flush()?;
    let printed = Printed::redirect()?;
    // The host ends its plugins itself; an interrupt meant for the host must not end them first.
    tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
    tokio::spawn(end_with_host(shutdown.clone()));
    let router = router(plugins, printed, shutdown);
    let mut patience = ended.clone();
    let served = async move {
        let end = until(ended);
        match listener {
            Listener::Unix(listener, _, _folder) => {
                router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), end).await
            }
            Listener::Tcp(listener) => router.serve_with_incoming_shutdown(TcpListenerStream::new(listener), end).await,
        }
    };
    tokio::pin!(served);
    tokio::select! {
        outcome = &mut served => return Ok(outcome?),
        _ = patience.wait_for(|ended| *ended) => {}
    }
    // Calls that still run are lost with the process, as the host knows.
    timeout(LAST_CALLS, served).await.unwrap_or(Ok(())).map_err(Into::into)
}

async fn until(mut ended: watch::Receiver<bool>) {
    let _ = ended.wait_for(|ended| *ended).await;
}

/// Ends the plugin when the process that started it is gone.
async fn end_with_host(shutdown: watch::Sender<bool>) {
    let host = rustix::process::getppid();
    while rustix::process::getppid() == host {
        sleep(LOOK_FOR_HOST).await;
    }
    shutdown.send_replace(true);
}

fn router(plugins: Plugins, printed: Printed, shutdown: watch::Sender<bool>) -> Router {
    // An item may be larger than the 4 MiB that are usual.
    macro_rules! large {
        ($server:ident, $service:expr) => {
            $server::new($service).max_decoding_message_size(usize::MAX)
        };
    }
    let (further, kind) = FURTHER_KINDS;
    let knows = std::env::var(further).is_ok_and(|kinds| kinds.split(',').any(|known| known == kind));
    let plugins = Arc::new(plugins);
    let process = Process::new(plugins.list(knows), printed, shutdown);
    let actions = Actions(Arc::clone(&plugins), Arc::default());
    let snapshotters = VolumeSnapshotters(Arc::clone(&plugins));
    Server::builder()
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .add_service(HealthServer::new(process.clone()))
        .add_service(GrpcControllerServer::new(process.clone()))
        .add_service(GrpcStdioServer::new(process.clone()))
        .add_service(GrpcBrokerServer::new(process.clone()))
        .add_service(PluginListerServer::new(process))
        .add_service(large!(BackupItemActionV1Server, actions.clone()))
        .add_service(large!(BackupItemActionServer, actions.clone()))
        .add_service(large!(RestoreItemActionV1Server, actions.clone()))
        .add_service(large!(RestoreItemActionServer, actions.clone()))
        .add_service(large!(DeleteItemActionServer, actions.clone()))
        .add_service(large!(ItemBlockActionServer, actions))
        .add_service(large!(VolumeSnapshotterV1Server, snapshotters.clone()))
        .add_service(large!(VolumeSnapshotterServer, snapshotters))
        .add_service(large!(ObjectStoreServer, ObjectStores::new(plugins)))
}

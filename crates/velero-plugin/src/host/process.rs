//! One run of a plugin binary: from its start to its certain end.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tonic::Code;

use super::connection::Connection;
use super::family::Family;
use super::handshake::{self, Address};
use super::logs::Output;
use super::settings::HostSettings;
use crate::wire::go_plugin::grpc_controller_client::GrpcControllerClient;
use crate::wire::go_plugin::grpc_stdio_client::GrpcStdioClient;
use crate::wire::go_plugin::{self, StdioData};
use crate::wire::health::HealthCheckRequest;
use crate::wire::health::health_check_response::ServingStatus;
use crate::wire::health::health_client::HealthClient;
use crate::{Error, Result};

/// How long a process may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest first line taken for an address.
const LONGEST_ADDRESS: u64 = 4 << 10;

/// A plugin binary that runs. Dropping it kills it and everything it started.
pub struct PluginProcess {
    connection: Connection,
    output: Output,
    ended: watch::Receiver<Option<String>>,
    kill: KillSwitch,
}

impl PluginProcess {
    /// Starts a binary, and waits until it serves.
    pub async fn start(command: &Path, settings: &HostSettings) -> Result<Self> {
        let failed = |problem: String| Error::Binary { command: command.display().to_string(), problem };
        let output = Output::new(command, &settings.log);
        let unstarted = |error: io::Error| failed(format!("cannot be started: {error}"));
        // A plugin that dies cannot remove its socket; its folder goes away with the process.
        let sockets = tempfile::Builder::new().prefix("velero-plugin").tempdir().map_err(unstarted)?;
        let mut child = spawn(command, settings, sockets.path()).await.map_err(unstarted)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        if let Some(stderr) = stderr {
            tokio::spawn(output.clone().follow(stderr));
        }
        // Whatever fails from here on drops it, and with it the process.
        let kill = KillSwitch::default();
        let (sender, mut ended) = watch::channel(None);
        tokio::spawn(supervise(child, Arc::clone(&kill.0), sender, sockets));
        let start = async {
            let address = tokio::select! {
                address = first_line(stdout) => address?,
                how = end_of(&mut ended) => return Err(early_end(&output, &how)),
            };
            connect(handshake::parse(&address).map_err(|problem| problem.to_string())?).await
        };
        let connection = match timeout(settings.deadlines.start, start).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(problem)) => return Err(failed(problem)),
            Err(_) => {
                let patience = settings.deadlines.start;
                return Err(failed(format!("it did not say within {patience:?} where it listens; is it a plugin?")));
            }
        };
        follow_stdio(connection.clone(), output.clone());
        Ok(Self { connection, output, ended, kill })
    }

    /// The connection to it.
    pub(crate) fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// Its output.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// Whether it can be called: it runs, and its connection is open.
    pub(crate) fn is_connected(&self) -> bool {
        !self.has_ended() && !self.connection.is_closed()
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// How it ended, if it does within a moment. A broken connection is noticed before the end of its process is.
    pub(crate) async fn end_within(&self, patience: Duration) -> Option<String> {
        timeout(patience, end_of(&mut self.ended.clone())).await.ok()
    }

    /// Asks it to end, and kills it if it does not.
    pub async fn stop(&self) {
        if self.has_ended() {
            return;
        }
        let mut controller = GrpcControllerClient::new(self.connection());
        let _ = timeout(PATIENCE, controller.shutdown(go_plugin::Empty {})).await;
        if self.end_within(PATIENCE).await.is_none() {
            self.kill.0.notify_one();
            end_of(&mut self.ended.clone()).await;
        }
    }
}

/// Kills the process when it is dropped.
#[derive(Default)]
struct KillSwitch(Arc<Notify>);

impl Drop for KillSwitch {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn spawn(command: &Path, settings: &HostSettings, sockets: &Path) -> io::Result<Child> {
    let mut process = Command::new(command);
    process
        .args(&settings.arguments)
        .envs(handshake::ENVIRONMENT)
        .envs([handshake::FURTHER_KINDS])
        .env(handshake::SOCKET_FOLDER, sockets)
        .envs(settings.environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    Family::begin(&mut process);
    // A binary that is still being copied into place is busy for a moment.
    for _ in 0..20 {
        match process.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => sleep(Duration::from_millis(50)).await,
            outcome => return outcome,
        }
    }
    process.spawn()
}

/// Waits for the end of a process, or ends it; then ends what it left behind. No process stays a zombie.
async fn supervise(mut child: Child, kill: Arc<Notify>, ended: watch::Sender<Option<String>>, sockets: TempDir) {
    let family = Family::of(&child);
    let status = tokio::select! {
        status = child.wait() => status,
        () = kill.notified() => {
            family.end(&mut child);
            child.wait().await
        }
    };
    family.end(&mut child);
    drop(sockets);
    ended.send_replace(Some(describe(status)));
}

fn describe(status: io::Result<ExitStatus>) -> String {
    status.map_or_else(|error| error.to_string(), |status| status.to_string())
}

/// How the process ended, once it has.
async fn end_of(ended: &mut watch::Receiver<Option<String>>) -> String {
    match ended.wait_for(Option::is_some).await {
        Ok(how) => how.clone().unwrap_or_default(),
        Err(_) => "its end was not observed".to_owned(),
    }
}

fn early_end(output: &Output, how: &str) -> String {
    let words = output.last_words();
    let words = if words.is_empty() { String::new() } else { format!("; it said: {words}") };
    format!("it ended ({how}) before it said where it listens{words}")
}

/// Reads the line with the address; what follows on stdout is read and left out, so that the plugin never waits.
async fn first_line(stdout: Option<ChildStdout>) -> Result<String, String> {
    let mut reader = BufReader::new(stdout.ok_or("it has no output")?);
    let mut line = Vec::new();
    let read = (&mut reader).take(LONGEST_ADDRESS).read_until(b'\n', &mut line).await;
    read.map_err(|error| format!("its output cannot be read: {error}"))?;
    if line.is_empty() {
        // The process ends or has closed its output; its end says more.
        sleep(PATIENCE).await;
    }
    tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    Ok(String::from_utf8_lossy(&line).into_owned())
}

async fn connect(address: Address) -> Result<Connection, String> {
    let unconnected = |error: &dyn std::error::Error| format!("cannot be connected to: {error}");
    let connection = match address {
        #[cfg(unix)]
        Address::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await.map_err(|error| unconnected(&error))?;
            Connection::over(stream).await
        }
        #[cfg(not(unix))]
        Address::Unix(path) => {
            return Err(format!("it listens at a socket, {}, which this system does not have", path.display()));
        }
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).await.map_err(|error| unconnected(&error))?;
            // A call is small and waits for its answer.
            stream.set_nodelay(true).map_err(|error| unconnected(&error))?;
            Connection::over(stream).await
        }
    };
    let connection = connection.map_err(|error| unconnected(&error))?;
    check_health(connection.clone()).await?;
    Ok(connection)
}

async fn check_health(connection: Connection) -> Result<(), String> {
    let request = HealthCheckRequest { service: "plugin".to_owned() };
    match HealthClient::new(connection).check(request).await {
        Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => Ok(()),
        Ok(answer) => Err(format!("it says that it does not serve: {:?}", answer.get_ref().status())),
        Err(status) if status.code() == Code::Unimplemented => Ok(()),
        Err(status) => Err(format!("its health cannot be asked: {}", status.message())),
    }
}

/// Logs what the plugin prints. A plugin without the stream is none the worse.
fn follow_stdio(connection: Connection, output: Output) {
    tokio::spawn(async move {
        let Ok(stream) = GrpcStdioClient::new(connection).stream_stdio(()).await else {
            return;
        };
        let pieces = futures::stream::try_unfold(stream.into_inner(), |mut stream| async move {
            let next: Option<StdioData> = stream.message().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(next.map(|piece| (piece.data, stream)))
        });
        output.follow(tokio_util::io::StreamReader::new(Box::pin(pieces))).await;
    });
}

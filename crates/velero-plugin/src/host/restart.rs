//! A plugin binary that is started when it is needed, and again when it has died.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Map;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::call::NOTICE;
use super::process::PluginProcess;
use super::settings::HostSettings;
use crate::wire::generated::InitRequest;
use crate::wire::generated::object_store_client::ObjectStoreClient;
use crate::wire::generated::volume_snapshotter_client::VolumeSnapshotterClient as VolumeSnapshotterV1Client;
use crate::wire::v2::volume_snapshotter_client::VolumeSnapshotterClient as VolumeSnapshotterV2Client;
use crate::{Error, PluginKind, Result};

/// How often in a row a process may fail before it is given up.
const MOST_FAILURES: u32 = 10;

/// When a process that was given up is tried once more: a manager may live as long as the server.
const SECOND_CHANCE: Duration = Duration::from_mins(5);

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What a plugin has to be told again after each start.
pub(crate) struct Initialisation {
    pub(crate) kind: PluginKind,
    pub(crate) name: String,
    pub(crate) config: HashMap<String, String>,
}

/// A binary with at most one process.
pub(crate) struct Restartable {
    command: PathBuf,
    settings: HostSettings,
    initialisation: Option<Initialisation>,
    /// How often it died, did not start or did not answer since a call went well.
    failures: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    process: Option<Arc<PluginProcess>>,
    last_problem: String,
    given_up: Option<Instant>,
}

impl Restartable {
    pub(crate) fn new(command: PathBuf, settings: HostSettings, initialisation: Option<Initialisation>) -> Self {
        Self { command, settings, initialisation, failures: AtomicU32::new(0), state: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// The process, started if there is none. A process that fails again and again is started ever more slowly, and
    /// in the end no more, so that a loop of crashes costs next to nothing.
    pub(crate) async fn process(&self) -> Result<Arc<PluginProcess>> {
        let mut state = self.state.lock().await;
        if let Some(process) = state.process.take() {
            if process.is_connected() && self.failures() <= MOST_FAILURES {
                state.process = Some(Arc::clone(&process));
                return Ok(process);
            }
            state.last_problem = self.take_leave(&process).await;
        }
        if self.failures() > MOST_FAILURES && state.given_up.get_or_insert_with(Instant::now).elapsed() < SECOND_CHANCE
        {
            let command = self.command.display().to_string();
            let problem = format!("given up after {MOST_FAILURES} failures in a row; the last: {}", state.last_problem);
            return Err(Error::Binary { command, problem });
        }
        if state.given_up.take().is_some() {
            // One more failure is enough to give it up again.
            self.failures.store(MOST_FAILURES, Ordering::Relaxed);
        }
        if self.failures() > 0 {
            sleep(pause(self.failures())).await;
        }
        match self.start().await {
            Ok(process) => {
                state.process = Some(Arc::clone(&process));
                Ok(process)
            }
            Err(error) => {
                self.failed();
                state.last_problem = error.to_string();
                Err(error)
            }
        }
    }

    /// Notes that the process answered: failures before count no more.
    pub(crate) fn answered(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// Notes that the process did not do what it should.
    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Why a process is no longer used: it has ended, or it answers nothing in time.
    async fn take_leave(&self, process: &PluginProcess) -> String {
        // The end of the connection is noticed before that of the process.
        let patience = if process.is_connected() { Duration::ZERO } else { NOTICE };
        let Some(end) = process.end_within(patience).await else {
            let problem = if process.is_connected() { "it did not answer in time" } else { "it closed its connection" };
            return problem.to_owned();
        };
        process.output().log(tracing::Level::INFO, "Plugin process exited - restarting.".to_owned(), Map::new());
        self.failed();
        end
    }

    pub(crate) async fn stop(&self) {
        let process = self.state.lock().await.process.take();
        if let Some(process) = process {
            process.stop().await;
        }
    }

    async fn start(&self) -> Result<Arc<PluginProcess>> {
        let process = Arc::new(PluginProcess::start(&self.command, &self.settings).await?);
        if let Some(initialisation) = &self.initialisation {
            self.initialise(&process, initialisation).await?;
        }
        Ok(process)
    }

    async fn initialise(&self, process: &PluginProcess, initialisation: &Initialisation) -> Result<()> {
        let Initialisation { kind, name, config } = initialisation;
        let failed = |problem: String| Error::Call {
            kind: kind.as_str(),
            plugin: name.clone(),
            call: "Init",
            object: String::new(),
            problem,
        };
        let request = InitRequest { plugin: name.clone(), config: config.clone() };
        let connection = process.connection();
        let call = async {
            match kind {
                PluginKind::VolumeSnapshotter => VolumeSnapshotterV1Client::new(connection).init(request).await,
                PluginKind::VolumeSnapshotterV2 => VolumeSnapshotterV2Client::new(connection).init(request).await,
                _ => ObjectStoreClient::new(connection).init(request).await,
            }
        };
        match timeout(self.settings.deadlines.work, call).await {
            Ok(answer) => answer.map(drop).map_err(|status| failed(status.message().to_owned())),
            Err(_) => Err(failed(format!("no answer within {:?}", self.settings.deadlines.work))),
        }
    }
}

fn pause(failures: u32) -> Duration {
    LONGEST_PAUSE.min(SHORTEST_PAUSE * 2_u32.saturating_pow(failures.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let pauses: Vec<_> = [1, 2, 3, 7, 8, 10].into_iter().map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 3200, 5000, 5000]);
    }
}

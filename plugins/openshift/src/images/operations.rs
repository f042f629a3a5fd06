//! Copies that go on beside the backup or restore. What is running is known to this process; a process that is asked about
//! one it does not know goes on with it, for what was copied is not copied again.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use velero_cluster::Cluster;
use velero_plugin::{Error, OperationProgress, Result};

use super::record::{self, Plan};
use super::registries::Registries;
use super::run::{Ended, State, run};
use crate::lock;
use crate::settings::Settings;

/// The error of a copy that somebody ended.
const CANCELLED: &str = "the copy was cancelled";

/// The operations of this process. The server makes its actions anew for every backup and every question; what they
/// started goes on.
static RUNNING: LazyLock<Mutex<HashMap<String, Arc<Operation>>>> = LazyLock::new(Mutex::default);

struct Operation {
    started: Timestamp,
    cancel: CancellationToken,
    state: watch::Sender<State>,
}

/// Where an operation is, and how it copies.
pub(crate) struct Place<'a> {
    pub(crate) action: &'a str,
    pub(crate) cluster: &'a Cluster,
    /// Velero's namespace.
    pub(crate) namespace: &'a str,
    pub(crate) settings: &'a Settings,
}

impl Place<'_> {
    /// Starts the copies of a plan that is written down under that ID.
    pub(crate) async fn start(&self, id: &str, plan: Plan) -> Result<()> {
        let registries = Registries::open(self.cluster, self.namespace, &plan.internal, self.settings).await?;
        let operation = Arc::new(Operation {
            started: Timestamp::now(),
            cancel: CancellationToken::new(),
            state: watch::Sender::default(),
        });
        {
            let mut running = lock(&RUNNING);
            if running.contains_key(id) {
                return Ok(());
            }
            running.insert(id.to_owned(), Arc::clone(&operation));
        }
        let (id, cluster, settings) = (id.to_owned(), self.cluster.clone(), self.settings.clone());
        let namespace = self.namespace.to_owned();
        tokio::spawn(async move {
            let ended = run(&plan.copies, &registries, &settings, &operation.state, &operation.cancel).await;
            let error = if operation.cancel.is_cancelled() { Some(CANCELLED.to_owned()) } else { ended.error() };
            let bytes = operation.state.borrow().bytes_before;
            if let Err(error) = record::end(&cluster, &namespace, &id, error.as_deref(), bytes).await {
                // Whoever asks next finds the record open and goes on with the copies, which are done.
                tracing::warn!("cannot write down how image copy {id} ended: {error}");
            }
            lock(&RUNNING).remove(&id);
        });
        Ok(())
    }

    /// How far an operation is.
    pub(crate) async fn progress(&self, id: &str) -> Result<OperationProgress> {
        if let Some(operation) = running(id) {
            return Ok(going_on(&operation.state.borrow(), operation.started, Timestamp::now()));
        }
        let record = record::read(self.cluster, self.namespace, id).await?.ok_or_else(|| self.unknown(id))?;
        match record.outcome {
            Some(error) => Ok(ended(error, record.plan.copies.len(), record.bytes)),
            None => {
                self.start(id, record.plan).await?;
                let now = Timestamp::now();
                Ok(going_on(&State::default(), now, now))
            }
        }
    }

    /// Ends an operation.
    pub(crate) async fn cancel(&self, id: &str) -> Result<()> {
        if let Some(operation) = running(id) {
            operation.cancel.cancel();
            return Ok(());
        }
        let Some(record) = record::read(self.cluster, self.namespace, id).await? else {
            // The record went with the end of its Backup or Restore, so nothing copies for it.
            return if record::is_id(id) { Ok(()) } else { Err(self.unknown(id)) };
        };
        match record.outcome {
            Some(_) => Ok(()),
            None => record::end(self.cluster, self.namespace, id, Some(CANCELLED), 0).await,
        }
    }

    /// Copies while the caller waits.
    pub(crate) async fn run(&self, plan: &Plan) -> Result<Ended> {
        let registries = Registries::open(self.cluster, self.namespace, &plan.internal, self.settings).await?;
        let (state, cancel) = (watch::Sender::default(), CancellationToken::new());
        let ended = run(&plan.copies, &registries, self.settings, &state, &cancel).await;
        ended.error().map_or(Ok(ended), |error| Err(Error::Item(error)))
    }

    fn unknown(&self, id: &str) -> Error {
        Error::InvalidOperationId { action: self.action.to_owned(), operation_id: id.to_owned() }
    }
}

fn running(id: &str) -> Option<Arc<Operation>> {
    lock(&RUNNING).get(id).cloned()
}

fn going_on(state: &State, started: Timestamp, now: Timestamp) -> OperationProgress {
    let description = match state.images {
        0 => "about to copy images".to_owned(),
        images => format!("copying image {} of {images}: {}", (state.images_done + 1).min(images), state.image),
    };
    OperationProgress {
        completed: false,
        error: String::new(),
        n_completed: units(state.bytes_before + state.current.bytes_done),
        n_total: units(state.bytes_before + state.current.bytes_total),
        operation_units: "Bytes".to_owned(),
        description,
        started: Some(started),
        updated: Some(now),
    }
}

fn ended(error: Option<String>, images: usize, bytes: u64) -> OperationProgress {
    let description = if error.is_some() { "failed".to_owned() } else { format!("{images} images copied") };
    OperationProgress {
        completed: true,
        error: error.unwrap_or_default(),
        n_completed: units(bytes),
        n_total: units(bytes),
        operation_units: "Bytes".to_owned(),
        description,
        ..OperationProgress::default()
    }
}

fn units(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use velero_registry::Progress;

    use super::*;

    #[test]
    fn progress_adds_the_images_that_are_done() {
        let state = |images_done, bytes_before, done, total| State {
            images_done,
            images: 3,
            bytes_before,
            current: Progress { bytes_done: done, bytes_total: total },
            image: "internal:5000/shop/web".to_owned(),
        };
        let now = Timestamp::UNIX_EPOCH;
        for (state, done, total, description) in [
            (State::default(), 0, 0, "about to copy images"),
            (state(0, 0, 5, 10), 5, 10, "copying image 1 of 3: internal:5000/shop/web"),
            (state(2, 30, 5, 10), 35, 40, "copying image 3 of 3: internal:5000/shop/web"),
            (state(3, 40, 0, 0), 40, 40, "copying image 3 of 3: internal:5000/shop/web"),
        ] {
            let found = going_on(&state, now, now);
            let expected = (done, total, description, false);
            let found = (found.n_completed, found.n_total, found.description.as_str(), found.completed);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_operation_that_ended_says_how() {
        for (error, images, expected) in [(None, 3, "3 images copied"), (Some("no such blob".to_owned()), 3, "failed")]
        {
            let found = ended(error.clone(), images, 7);
            assert!(found.completed && found.n_completed == 7 && found.n_total == 7);
            assert_eq!((found.error, found.description.as_str()), (error.unwrap_or_default(), expected));
        }
    }
}

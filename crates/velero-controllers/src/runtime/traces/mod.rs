//! Traces of backups and restores for an OpenTelemetry collector, where the server is asked for them.
//!
//! ```text
//! endpoint ── where they go, and with which headers
//! identity ── which trace a backup or restore is: its UID
//! layer ── stages (`velero_engine::stage`) that have ended, into a queue that holds so many and no more
//!   └─ delivery ── batches to the collector, beside the work; what it does not take is counted and lost
//!        └─ wire ── the messages of OTLP
//! ```
//!
//! Nothing here waits for anybody who works, and nothing grows: `docs/design/024-traces.md`.

mod counts;
mod delivery;
mod endpoint;
mod identity;
mod layer;
mod wire;

pub(crate) use self::counts::{Counts, Fate, OF_PROCESS};
pub(crate) use self::delivery::Delivery;
pub(crate) use self::endpoint::{Endpoint, HEADERS};
pub(crate) use self::layer::TraceLayer;

use tokio::sync::mpsc;

use crate::runtime::error::Result;

/// How many spans may wait for the collector.
const QUEUE: usize = 4096;

/// Begins to deliver traces: what takes stages, and what brings them to the collector until it is closed.
pub(crate) fn start(endpoint: Endpoint, version: &str) -> Result<(TraceLayer, Delivery)> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let delivery = Delivery::start(endpoint, version, receiver, &OF_PROCESS)?;
    Ok((TraceLayer::new(sender, &OF_PROCESS), delivery))
}

//! The threads on which backups are made.

use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// Threads apart from those of the server, one for each backup that may run at the same time.
///
/// A backup and the connections to its plugins share one: a plugin is called for every item, and waking another thread
/// for each answer would cost more than the call.
pub(crate) struct BackupThreads(Option<Runtime>);

impl BackupThreads {
    /// Starts as many threads as backups may run at the same time, but no more than the machine has processors.
    /// Where there can be none, backups share those of the server.
    pub(crate) fn start(concurrent_backups: u32) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = usize::try_from(concurrent_backups).unwrap_or(usize::MAX).clamp(1, processors);
        Self(Builder::new_multi_thread().worker_threads(threads).thread_name("backup").enable_all().build().ok())
    }

    /// Runs a piece of work there. Dropping the handle gives it up.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> AbortOnDropHandle<T> {
        let work = work.in_current_span();
        let task = match &self.0 {
            Some(runtime) => runtime.spawn(work),
            None => tokio::spawn(work),
        };
        AbortOnDropHandle::new(task)
    }
}

impl Drop for BackupThreads {
    fn drop(&mut self) {
        // Dropped as it is, it would wait for its threads, which asynchronous code must not do.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

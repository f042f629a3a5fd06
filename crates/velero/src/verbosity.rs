//! `-v`: what a command asks of the API server, told on standard error.

use std::io;

/// The level at which the original tells of requests.
const REQUESTS: i32 = 6;

/// Tells of each request from now on, where that is wanted.
pub(crate) fn install(level: Option<i32>) {
    if level.is_some_and(|level| level >= REQUESTS) {
        let requests = tracing_subscriber::EnvFilter::new("kube_client=debug");
        // A process that has a log already keeps it.
        let _ = tracing_subscriber::fmt().with_env_filter(requests).with_writer(io::stderr).with_ansi(false).try_init();
    }
}

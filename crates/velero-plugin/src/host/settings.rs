//! How plugin binaries are run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::logs::{LogSink, emit};

/// How plugin binaries are run.
#[derive(Clone)]
pub struct HostSettings {
    /// The arguments every binary gets: the server's own, so that a plugin sees its flags. Plugins ignore what they do
    /// not know.
    pub arguments: Vec<String>,
    /// Further variables for the environment of every binary.
    pub environment: Vec<(String, String)>,
    /// How long calls may take.
    pub deadlines: Deadlines,
    /// Where the log lines of plugins go; by default to the process's own log.
    pub log: LogSink,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            arguments: Vec::new(),
            environment: Vec::new(),
            deadlines: Deadlines::default(),
            log: Arc::new(|line| emit(&line)),
        }
    }
}

impl fmt::Debug for HostSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = formatter.debug_struct("HostSettings");
        output.field("arguments", &self.arguments).field("deadlines", &self.deadlines).finish_non_exhaustive()
    }
}

/// How long calls of a plugin may take. A call that takes longer is an error; the plugin's process stays.
#[derive(Debug, Clone)]
pub struct Deadlines {
    /// Until a started binary says where it listens.
    pub start: Duration,
    /// For calls that work: `Execute`, snapshots, `Init`, listings of a store. The default is that of the server's
    /// `--resource-timeout`.
    pub work: Duration,
    /// For calls that only ask or tell: `AppliesTo`, `Progress`, `Cancel`, the list of plugins.
    pub question: Duration,
    /// For the next piece of an object to be taken or given.
    pub transfer_stall: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            start: Duration::from_mins(1),
            work: Duration::from_mins(10),
            question: Duration::from_mins(1),
            transfer_stall: Duration::from_mins(5),
        }
    }
}

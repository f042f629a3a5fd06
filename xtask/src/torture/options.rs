//! What is asked for.

use std::time::Duration;

use clap::Args;

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How long new rounds begin
    #[arg(long, default_value_t = 10, conflicts_with = "kills")]
    pub(crate) minutes: u64,
    /// What decides about work, faults and moments
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only end the server with kill -9, that many times, in tight rounds over small backups, restores and deletions
    #[arg(long)]
    pub(crate) kills: Option<usize>,
    /// Only these faults, by the names of the closing table, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Leave the box up afterwards, whatever was found
    #[arg(long)]
    pub(crate) keep: bool,
}

impl Options {
    /// Whether the server alone is struck, in a box without a node.
    pub(super) fn is_kills(&self) -> bool {
        self.kills.is_some()
    }

    /// Whether another round begins.
    pub(super) fn goes_on(&self, elapsed: Duration, kills: usize) -> bool {
        match self.kills {
            Some(wanted) => kills < wanted,
            None => elapsed < Duration::from_secs(self.minutes * 60),
        }
    }
}

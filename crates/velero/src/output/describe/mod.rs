//! Objects described for people: one section after another, aligned by tabs.

mod backup;
mod backup_json;
mod backup_spec;
mod describer;
mod files;
mod operations;
mod pod_volumes;
mod restore;
mod results;
mod schedule;
mod server;
mod volumes;

pub(crate) use backup::describe_backup;
pub(crate) use backup_json::describe_backup_as_json;
pub(crate) use files::{BackupFiles, FetchError, Fetched, RestoreFiles};
pub(crate) use restore::describe_restore;
pub(crate) use schedule::describe_schedule;
pub(crate) use server::describe_server;

use super::Clock;
use crate::printer::Style;

/// How a description is written.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    /// The reader's clock.
    pub(crate) clock: Clock,
    /// The colours.
    pub(crate) style: Style,
    /// Whether single items are listed.
    pub(crate) details: bool,
}

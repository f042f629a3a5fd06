//! A process and all it has started, so that all of it ends.

use tokio::process::{Child, Command};

/// A process with those that it started.
#[cfg(unix)]
pub(super) struct Family(Option<rustix::process::Pid>);

#[cfg(unix)]
impl Family {
    /// Has a process begin one of its own.
    pub(super) fn begin(command: &mut Command) {
        command.process_group(0);
    }

    /// That of a process which began one.
    pub(super) fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())))
    }

    /// Ends what still runs of it.
    pub(super) fn end(&self, _: &mut Child) {
        if let Some(group) = self.0 {
            // None is left where it fails.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// Where the system knows no such families, the process alone.
#[cfg(not(unix))]
pub(super) struct Family;

#[cfg(not(unix))]
impl Family {
    pub(super) fn begin(_: &mut Command) {}

    pub(super) fn of(_: &Child) -> Self {
        Self
    }

    pub(super) fn end(&self, child: &mut Child) {
        // It has ended by itself where it fails.
        let _ = child.start_kill();
    }
}

//! Becoming another process.

use std::process::Command;

/// Puts a process in the place of this one. It returns where that fails, and on systems that do not know it; then this one
/// goes on as it is.
#[cfg(unix)]
pub(crate) fn begin_anew(command: &mut Command) {
    let _ = std::os::unix::process::CommandExt::exec(command);
}

#[cfg(not(unix))]
pub(crate) fn begin_anew(_: &mut Command) {}

//! Tests that need a process for themselves: for its memory, its rights or its mounts.

use std::path::Path;
use std::process::Command;

/// Where the process that a test starts has its files; without it such a test has nothing to do.
pub(crate) const FOLDER: &str = "VELERO_TEST_FOLDER";
/// What the process does.
pub(crate) const STEP: &str = "VELERO_TEST_STEP";

/// Runs an ignored test of this binary through a command that starts it, and gives what it printed.
pub(crate) fn run(before: &[&str], test: &str, step: &str, folder: &Path) -> String {
    let this = std::env::current_exe().unwrap();
    let mut words = before.iter().map(|word| (*word).to_owned()).chain([this.to_str().unwrap().to_owned()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--exact", test, "--ignored", "--nocapture", "--test-threads", "1"]);
    // As movers start themselves.
    command.env("MIMALLOC_PURGE_DELAY", "0");
    let output = command.env(FOLDER, folder).env(STEP, step).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{test} {step}: {said} {complained}");
    said
}

/// The step and the folder this process was started for.
pub(crate) fn task() -> Option<(String, std::path::PathBuf)> {
    Some((std::env::var(STEP).ok()?, std::env::var_os(FOLDER)?.into()))
}

/// The most memory this process ever had, in MiB.
pub(crate) fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap().div_ceil(1024)
}

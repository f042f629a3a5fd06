//! The lints, beside the tests: they compile everything that we use once more, and tests leave a part of the cores idle.

use std::fs::{self, File};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use velero_testkit::install;
use velero_testkit::progress::say;

/// Makes way for everybody else: for other processes of the session, and as a session of its own for other sessions, which the
/// kernel otherwise treats as equals.
const STAND_BACK: &str = "echo 19 2>/dev/null > /proc/self/autogroup; exec nice -n 19 \"$0\" \"$@\"";

/// Runs the lints with what time the tests leave over. What they say is shown when they find something.
pub(super) fn lints() -> Result<()> {
    let path = install::target_folder().join("test-output/lints");
    fs::create_dir_all(path.parent().context("the folder of the build has no parent")?)?;
    let output = File::create(&path)?;
    let mut command = Command::new("setsid");
    command.args(["--wait", "sh", "-c", STAND_BACK, env!("CARGO")]);
    command.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    command.current_dir(install::repository_root()).stdout(output.try_clone()?).stderr(output);
    let status = command.status().context("setsid cannot be run")?;
    ensure!(status.success(), "cargo clippy failed:\n{}", fs::read_to_string(&path)?);
    say("the lints found nothing");
    Ok(())
}

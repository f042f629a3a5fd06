//! `cargo xtask test`: sets the machine up, then every check and every test.

use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Error, Result, anyhow, ensure};
use clap::Args;
use velero_testkit::harness::{OPENSHIFT_BOX, SHARED_BOX, STORAGE_BOX};
use velero_testkit::progress::say;
use velero_testkit::{BoxKind, TestBox, install, server};

use crate::{generate, layers, torture};

mod cores;
mod lanes;
mod leisure;
mod suites;

#[derive(Args)]
pub(crate) struct Options {
    /// Leave the checks of form out (format, lints, layers, generated files)
    #[arg(long)]
    only_tests: bool,
    /// Leave the shared boxes up afterwards, for the next run
    #[arg(long)]
    keep: bool,
    /// Run the long comparisons too: more random trees, more damaged repositories, ten minutes of torture
    #[arg(long)]
    thorough: bool,
    /// Run a suite that failed beside others again, alone, and say which ones needed that
    #[arg(long)]
    once_more: bool,
    /// Only the suites whose names contain one of these words, such as `api_server` or `stories peer_filters`
    #[arg(long, value_delimiter = ',')]
    suites: Vec<String>,
    /// Arguments for cargo test, such as `-p velero-api`
    #[arg(last = true)]
    cargo_test: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    install::check_machine()?;
    // What the tests run against is mostly downloaded and linked: that goes well beside compiling.
    let thorough = options.thorough;
    let tools = thread::spawn(move || server::install_tools(thorough));
    let mut failures = Vec::new();
    if !options.only_tests {
        failures.extend(check_form());
    }
    say("building the tests");
    let suites = suites::build()?;
    say("getting what the tests run against");
    tools.join().map_err(|_| anyhow!("what the tests run against could not be got"))??;
    TestBox::install(BoxKind::OpenShift)?;
    TestBox::up(SHARED_BOX, BoxKind::Whole)?;
    let lints = (!options.only_tests).then(|| thread::spawn(leisure::lints));
    failures.extend(run_tests(suites, options));
    if let Some(lints) = lints {
        failures.extend(lints.join().map_err(|_| anyhow!("the lints were not looked at"))?.err());
    }
    if !options.keep {
        TestBox::down(SHARED_BOX)?;
        TestBox::down(STORAGE_BOX)?;
        TestBox::down(OPENSHIFT_BOX)?;
    }
    if options.thorough && options.cargo_test.is_empty() && options.suites.is_empty() {
        failures.extend(tortured().err());
    }
    ensure!(
        failures.is_empty(),
        "{}",
        failures.iter().map(|failure| format!("{failure:#}")).collect::<Vec<_>>().join("\n")
    );
    Ok(())
}

/// What does not have its form, but for the lints. It keeps no test from running.
fn check_form() -> Vec<Error> {
    say("checking format, layers and generated files");
    let checks =
        [cargo(&["fmt", "--all", "--check"]), layers::run(), generate::run(&generate::Options { check: true })];
    checks.into_iter().filter_map(Result::err).inspect(|error| eprintln!("error: {error:#}")).collect()
}

/// Runs the tests, all of them whatever fails; gives what failed.
fn run_tests(suites: Vec<suites::Suite>, options: &Options) -> Vec<Error> {
    say("running the tests");
    if !options.cargo_test.is_empty() {
        let command: Vec<&str> = ["test"].into_iter().chain(options.cargo_test.iter().map(String::as_str)).collect();
        return cargo(&command).err().into_iter().collect();
    }
    let is_wanted = |suite: &suites::Suite| options.suites.iter().any(|word| suite.name.contains(word));
    if !options.suites.is_empty() {
        let wanted: Vec<_> = suites.into_iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            return vec![anyhow!("no suite has {} in its name", options.suites.join(" or "))];
        }
        return lanes::run(wanted, options);
    }
    let mut failures = lanes::run(suites, options);
    failures.extend(cargo(&["test", "--workspace", "--doc", "--quiet"]).err());
    failures
}

/// Ten minutes of torture, alone, with a seed that no run before had.
fn tortured() -> Result<()> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    say(format!("ten minutes of torture, seed {seed}"));
    torture::run(&torture::Options { minutes: 10, seed, kills: None, only: Vec::new(), keep: false })
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(install::repository_root());
    command
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let status = command(arguments).status()?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}

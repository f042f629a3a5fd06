//! `cargo xtask test`: sets the machine up, then every check and every test.

use std::io::Write;
use std::process::{Command, Output};
use std::thread;

use anyhow::{Error, Result, anyhow, ensure};
use clap::Args;
use velero_testkit::harness::{OPENSHIFT_BOX, SHARED_BOX, STORAGE_BOX};
use velero_testkit::progress::say;
use velero_testkit::{BoxKind, TestBox, install, server};

use crate::{generate, layers};

/// The file and name of the test that takes longest. It waits most of the time, in boxes of its own, and runs beside the
/// others.
const LONGEST: (&str, &str) = ("peer_restores", "both_servers_restore_the_same_whatever_is_asked_for");

#[derive(Args)]
pub(crate) struct Options {
    /// Leave the checks of form out (format, lints, layers, generated files)
    #[arg(long)]
    only_tests: bool,
    /// Leave the shared boxes up afterwards, for the next run
    #[arg(long)]
    keep: bool,
    /// Arguments for cargo test, such as `-p velero-api`
    #[arg(last = true)]
    cargo_test: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    install::check_machine()?;
    let mut failures = Vec::new();
    if !options.only_tests {
        failures.extend(check_form());
    }
    say("building the tests");
    cargo(&["test", "--workspace", "--no-run"])?;
    say("getting what the tests run against");
    server::install_all()?;
    TestBox::up(SHARED_BOX, BoxKind::Whole)?;
    failures.extend(run_tests(&options.cargo_test));
    if !options.keep {
        TestBox::down(SHARED_BOX)?;
        TestBox::down(STORAGE_BOX)?;
        TestBox::down(OPENSHIFT_BOX)?;
    }
    ensure!(
        failures.is_empty(),
        "{}",
        failures.iter().map(|failure| format!("{failure:#}")).collect::<Vec<_>>().join("; ")
    );
    Ok(())
}

/// What does not have its form. It keeps no test from running.
fn check_form() -> Vec<Error> {
    say("checking format, lints, layers and generated files");
    let checks = [
        cargo(&["fmt", "--all", "--check"]),
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        layers::run(),
        generate::run(&generate::Options { check: true }),
    ];
    checks.into_iter().filter_map(Result::err).inspect(|error| eprintln!("error: {error:#}")).collect()
}

/// Runs the tests, all of them whatever fails; gives what failed.
fn run_tests(arguments: &[String]) -> Vec<Error> {
    say("running the tests");
    if !arguments.is_empty() {
        let command: Vec<&str> = ["test"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        return cargo(&command).err().into_iter().collect();
    }
    let (file, name) = LONGEST;
    let beside = thread::spawn(move || command(&["test", "--workspace", "--test", file]).output());
    let outcome = cargo(&["test", "--workspace", "--no-fail-fast", "--", "--skip", name]);
    let beside = beside.join().map_err(|_| anyhow!("{file} could not be run")).and_then(|output| shown(&output?, file));
    [outcome, beside].into_iter().filter_map(Result::err).collect()
}

/// Shows what a test beside the others printed.
fn shown(printed: &Output, file: &str) -> Result<()> {
    std::io::stdout().write_all(&printed.stdout)?;
    std::io::stderr().write_all(&printed.stderr)?;
    ensure!(printed.status.success(), "{file} failed");
    Ok(())
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

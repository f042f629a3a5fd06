//! `cargo xtask test`: sets the machine up, then every check and every test.

use std::io::Write;
use std::process::Command;
use std::thread;

use anyhow::{Result, anyhow, ensure};
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
    if !options.only_tests {
        check_form()?;
    }
    say("building the tests");
    cargo(&["test", "--workspace", "--no-run", "--quiet"])?;
    say("building what the tests run against");
    server::install_all()?;
    if options.cargo_test.is_empty() {
        say("tests that want the machine for themselves");
        cargo(&[
            "test",
            "--package",
            "velero-tests",
            "--test",
            "machine_as_it_was",
            "--",
            "--ignored",
            "--test-threads=1",
        ])?;
    }
    TestBox::up(SHARED_BOX, BoxKind::Whole)?;
    let outcome = run_tests(&options.cargo_test);
    if !options.keep {
        TestBox::down(SHARED_BOX)?;
        TestBox::down(STORAGE_BOX)?;
        TestBox::down(OPENSHIFT_BOX)?;
    }
    outcome
}

fn check_form() -> Result<()> {
    say("checking format, lints, layers and generated files");
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    layers::run()?;
    generate::run(&generate::Options { check: true })
}

fn run_tests(arguments: &[String]) -> Result<()> {
    say("running the tests");
    if !arguments.is_empty() {
        let command: Vec<&str> = ["test"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        return cargo(&command);
    }
    let (file, name) = LONGEST;
    let beside = thread::spawn(move || command(&["test", "--workspace", "--test", file]).output());
    let outcome = cargo(&["test", "--workspace", "--no-fail-fast", "--", "--skip", name]);
    let beside = beside.join().map_err(|_| anyhow!("{file} could not be run"))??;
    std::io::stdout().write_all(&beside.stdout)?;
    std::io::stderr().write_all(&beside.stderr)?;
    ensure!(beside.status.success(), "{file} failed");
    outcome
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

//! `cargo xtask test`: sets the machine up, then every check and every test.

use std::process::Command;

use anyhow::{Result, ensure};
use clap::Args;
use velero_testkit::harness::{OPENSHIFT_BOX, SHARED_BOX, STORAGE_BOX};
use velero_testkit::progress::say;
use velero_testkit::{BoxKind, TestBox, install, server};

use crate::{generate, layers};

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
    let mut command = vec!["test"];
    if arguments.is_empty() {
        command.extend(["--workspace", "--no-fail-fast"]);
    }
    command.extend(arguments.iter().map(String::as_str));
    cargo(&command)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let status = Command::new(env!("CARGO")).args(arguments).current_dir(install::repository_root()).status()?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}

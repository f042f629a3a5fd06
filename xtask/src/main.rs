//! The project's own commands: `cargo xtask demo`, `test`, `torture`, `bench`, `install`, `cluster`, `peer`, `image`, `release`, `book`,
//! `gen`, `layers`.

#![deny(clippy::print_stdout, reason = "output.rs ends quietly where nobody reads")]

mod bench;
mod book;
mod cluster;
mod demo;
mod generate;
mod image;
mod layers;
mod output;
mod peer;
mod release;
mod test;
mod torture;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use velero_testkit::{install, server};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Sets up, tests and shows Velero in Rust")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Sets up, boots a box, runs an application on it and shows it
    Demo(demo::Options),
    /// Sets up and runs every check and every test
    Test(test::Options),
    /// Strikes a server at work with faults, by a seed, and looks after each round whether what it left is true
    Torture(torture::Options),
    /// Measures us and the original Velero side by side in one run
    #[command(subcommand)]
    Bench(bench::Work),
    /// Gets everything that boxes and tests run from, so that a test alone can be run afterwards
    Install {
        /// Also what only `cargo xtask test --thorough` asks for: it takes ten minutes more
        #[arg(long)]
        thorough: bool,
    },
    /// A real Kubernetes in a box: up, down, status, env, run
    #[command(subcommand)]
    Cluster(cluster::Action),
    /// The original Velero in a box, to compare with: up, down
    #[command(subcommand)]
    Peer(peer::Action),
    /// Makes the container image of the velero binary, without a container engine
    Image(image::Options),
    /// Makes all that a release consists of: archives, images, chart, checksums; the same bytes every time
    Release(release::Options),
    /// Builds the book from docs/ into target/book
    Book(book::Options),
    /// Writes the generated files (config, deploy/kustomize, docs/reference), or checks them with --check
    Gen(generate::Options),
    /// Checks that dependencies between crates, and between the rooms inside them, point down only, and what comes in from
    /// outside
    Layers,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Demo(options) => demo::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Torture(options) => torture::run(&options),
        Task::Bench(work) => bench::run(&work),
        Task::Install { thorough } => install::check_machine().and_then(|()| server::install_all(thorough)),
        Task::Cluster(action) => cluster::run(&action),
        Task::Peer(action) => peer::run(&action),
        Task::Image(options) => image::run(&options),
        Task::Release(options) => release::run(&options),
        Task::Book(options) => book::run(&options),
        Task::Gen(options) => generate::run(&options),
        Task::Layers => layers::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

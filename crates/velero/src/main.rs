//! The velero command: the command line, and the server behind it.
//!
//! A command is three things in three places: its flags (`arguments`), what flags, environment and file say together
//! (`settings`), and what it does (`commands`, a function a verb). What it prints is made in `output`.

mod alive;
mod arguments;
mod begin_anew;
mod client_config;
mod commands;
mod completion;
mod download;
mod exit_status;
mod install;
mod lean_agent;
mod migration;
mod output;
mod printer;
mod private_files;
mod session;
mod settings;
mod verbosity;
mod version;

use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use crate::arguments::{Cli, Command, with_go_flags};
use crate::client_config::ClientConfig;
use crate::exit_status::NotCompleted;
use crate::printer::{Printer, ReaderGone, Style};
use crate::settings::Settings;

/// The server's work comes in bursts on several threads: the allocator must give back what they no longer need.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a shell sees of a program that was ended for writing where nobody reads.
const READER_GONE: u8 = 141;

/// How many threads a mover and a node agent have for requests: the work is done by others, and nodes have many cores.
const NODE_THREADS: usize = 2;
/// How long threads that are in the middle of something may hold up the end of a server.
const LAST_THREADS: Duration = Duration::from_secs(1);
/// After how many milliseconds the allocator gives memory back.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

fn main() -> ExitCode {
    if let Some(settings) = lean_agent::handed_on() {
        return on_threads(Some(NODE_THREADS), Some(LAST_THREADS), lean_agent::run(settings));
    }
    completion::answer_shell();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    if is_mover(&cli.command) {
        give_memory_back_at_once();
        return on_threads(Some(NODE_THREADS), None, run(cli));
    }
    // A server that must stop waits for nobody.
    let patience = is_server(&cli.command).then_some(LAST_THREADS);
    on_threads(None, patience, run(cli))
}

/// Does work on so many threads, or on one for each core. What goes on in them afterwards is waited for, at most as long as said.
fn on_threads(count: Option<usize>, patience: Option<Duration>, work: impl Future<Output = ExitCode>) -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(count) = count {
        runtime.worker_threads(count);
    }
    match runtime.enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            if let Some(patience) = patience {
                runtime.shutdown_timeout(patience);
            }
            code
        }
        Err(error) => {
            eprintln!("velero: no threads can be started: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Begins this process anew with an allocator that keeps nothing for later: what opens a repository, 64 MiB, is needed once,
/// and a mover ends before it could be of use again. The allocator reads its settings before anything else runs.
fn give_memory_back_at_once() {
    if std::env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let mut command = std::process::Command::new(program);
        begin_anew::begin_anew(command.args(std::env::args_os().skip(1)).env(PURGE_DELAY, "0"));
    }
}

async fn run(cli: Cli) -> ExitCode {
    velero_cluster::install_crypto_provider();
    let config = ClientConfig::load(&client_config::path());
    let settings = Settings::resolve(cli.global, config.as_ref().unwrap_or(&ClientConfig::default()));
    let printer = Printer { style: Style { colorized: settings.colorized } };
    if let Err(error) = config {
        printer.note(format_args!("WARNING: Error reading config file: {error:#}"));
    }
    if !is_server(&cli.command) && !is_mover(&cli.command) {
        verbosity::install(settings.logging.verbosity);
    }
    match commands::run(cli.command, settings, printer).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.chain().any(|cause| cause.is::<ReaderGone>()) => ExitCode::from(READER_GONE),
        Err(error) => match error.downcast_ref::<NotCompleted>() {
            Some(NotCompleted { code }) => ExitCode::from(*code),
            None => {
                printer.note(format_args!("velero: {error:#}"));
                ExitCode::FAILURE
            }
        },
    }
}

/// Whether this process is to be the server, whose log has a level of its own.
fn is_server(command: &Command) -> bool {
    match command {
        Command::Server(arguments) => arguments.command.is_none(),
        Command::RepoMaintenance(_) => true,
        _ => false,
    }
}

/// Whether this process is to move the data of a volume.
#[cfg(target_os = "linux")]
fn is_mover(command: &Command) -> bool {
    matches!(command, Command::PodVolume(_) | Command::DataMover(_))
}

/// Volumes are moved on nodes, and those are of Linux.
#[cfg(not(target_os = "linux"))]
fn is_mover(_: &Command) -> bool {
    false
}

fn parse() -> Result<Cli, clap::Error> {
    let mut command = with_go_flags(Cli::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Shows help that was asked for, or what is wrong with the command line. All errors exit with 1.
fn refuse(error: &clap::Error) -> ExitCode {
    let _ = error.print(); // a closed terminal cannot be told
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
    if is_help { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

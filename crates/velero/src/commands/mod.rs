//! What commands do: one module a noun, one function a verb.

mod backup;
mod backup_location;
mod bug;
mod cancel;
mod client_config;
mod completion;
mod debug;
mod install;
mod location_config;
mod migrate;
#[cfg(target_os = "linux")]
mod mover;
mod neighbour;
mod node_agent;
pub(crate) mod plugin;
mod repo_maintenance;
mod report;
mod repository;
mod restore;
mod schedule;
mod select;
mod server;
mod server_status;
mod snapshot_location;
mod uninstall;
mod version;
mod wait;
mod web;

use anyhow::Result;
use clap::CommandFactory;
use velero_api::v1::{Backup, Restore};

use crate::arguments::{
    BackupCommand, BackupLocationCommand, Cli, ClientCommand, Command, CreateCommand, DeleteCommand, DescribeCommand,
    GetCommand, NodeAgentCommand, PluginCommand, RepositoryCommand, RestoreCommand, ScheduleCommand, ServerArguments,
    ServerCommand, SnapshotLocationCommand, with_go_flags,
};
use crate::output;
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;

/// Runs a command.
pub(crate) async fn run(command: Command, settings: Settings, printer: Printer) -> Result<()> {
    let connect = || Session::connect(&settings, printer);
    match command {
        Command::Client(ClientCommand::Config(command)) => client_config::run(command, printer),
        Command::Completion(arguments) => completion::completion(&arguments, printer),
        Command::Install(arguments) => install::install(&arguments, &settings, printer).await,
        Command::Server(arguments) => run_server(*arguments, settings, printer).await,
        #[cfg(target_os = "linux")]
        Command::PodVolume(command) => mover::pod_volume(command, settings).await,
        #[cfg(target_os = "linux")]
        Command::DataMover(command) => mover::data_mover(command, settings).await,
        Command::NodeAgent(NodeAgentCommand::Server(arguments)) => node_agent::server(*arguments, settings).await,
        Command::RepoMaintenance(arguments) => repo_maintenance::repo_maintenance(arguments, settings).await,
        Command::Reference => printer.print(output::reference(with_go_flags(Cli::command()))),
        Command::Report(arguments) => report::report(&connect().await?, &arguments).await,
        Command::Debug(arguments) => debug::debug(&connect().await?, &arguments).await,
        Command::Bug => bug::bug(&settings, printer).await,
        Command::Uninstall(arguments) => uninstall::uninstall(&arguments, &settings, printer).await,
        Command::Migrate(command) => migrate::migrate(&connect().await?, command).await,
        Command::Web(arguments) => web::web(&connect().await?, &arguments).await,
        Command::Version(arguments) => version::version(&arguments, &settings, printer).await,
        Command::Plugin(PluginCommand::Get(arguments)) => plugin::get(&connect().await?, &arguments).await,
        Command::Plugin(PluginCommand::Add(arguments)) => plugin::add(&connect().await?, &arguments).await,
        Command::Plugin(PluginCommand::Remove(arguments)) => plugin::remove(&connect().await?, &arguments).await,
        Command::Repo(command) => run_repository(command, &settings, printer).await,
        Command::Backup(command) => run_backup(command, &connect().await?).await,
        Command::Restore(command) => run_restore(command, &connect().await?).await,
        Command::Schedule(command) => run_schedule(command, &connect().await?).await,
        Command::BackupLocation(command) => run_backup_location(command, &settings, printer).await,
        Command::SnapshotLocation(command) => run_snapshot_location(command, &settings, printer).await,
        Command::Get(command) => run_get(command, &connect().await?).await,
        Command::Create(command) => run_create(command, &settings, printer).await,
        Command::Describe(command) => run_describe(command, &connect().await?).await,
        Command::Delete(command) => run_delete(command, &connect().await?).await,
    }
}

async fn run_server(arguments: ServerArguments, settings: Settings, printer: Printer) -> Result<()> {
    match &arguments.command {
        None => server::server(arguments, settings).await,
        Some(ServerCommand::Status(status)) => {
            server_status::status(&Session::connect(&settings, printer).await?, status).await
        }
    }
}

async fn run_backup(command: BackupCommand, session: &Session) -> Result<()> {
    match command {
        BackupCommand::Create(arguments) => backup::create(session, *arguments).await,
        BackupCommand::Get(arguments) => backup::get(session, &arguments).await,
        BackupCommand::Logs(arguments) => backup::logs(session, &arguments).await,
        BackupCommand::Describe(arguments) => backup::describe(session, &arguments).await,
        BackupCommand::Download(arguments) => backup::download(session, &arguments).await,
        BackupCommand::Cancel(arguments) => cancel::cancel::<Backup>(session, &arguments).await,
        BackupCommand::Delete(arguments) => backup::delete(session, &arguments).await,
    }
}

async fn run_restore(command: RestoreCommand, session: &Session) -> Result<()> {
    match command {
        RestoreCommand::Create(arguments) => restore::create(session, *arguments).await,
        RestoreCommand::Get(arguments) => restore::get(session, &arguments).await,
        RestoreCommand::Logs(arguments) => restore::logs(session, &arguments).await,
        RestoreCommand::Describe(arguments) => restore::describe(session, &arguments).await,
        RestoreCommand::Cancel(arguments) => cancel::cancel::<Restore>(session, &arguments).await,
        RestoreCommand::Delete(arguments) => restore::delete(session, &arguments).await,
    }
}

async fn run_repository(command: RepositoryCommand, settings: &Settings, printer: Printer) -> Result<()> {
    match command {
        RepositoryCommand::Get(arguments) => {
            repository::get(&Session::connect(settings, printer).await?, &arguments).await
        }
        RepositoryCommand::Ls(arguments) => repository::list(settings, printer, arguments).await,
        RepositoryCommand::Cat(arguments) => repository::cat(settings, printer, arguments).await,
        RepositoryCommand::Restore(arguments) => repository::restore(settings, printer, arguments).await,
        RepositoryCommand::Verify(arguments) => repository::verify(settings, printer, arguments).await,
        RepositoryCommand::Stats(arguments) => repository::stats(settings, printer, arguments).await,
        RepositoryCommand::Maintain(arguments) => repository::maintain(settings, printer, arguments).await,
    }
}

async fn run_schedule(command: ScheduleCommand, session: &Session) -> Result<()> {
    match command {
        ScheduleCommand::Create(arguments) => schedule::create(session, *arguments).await,
        ScheduleCommand::Get(arguments) => schedule::get(session, &arguments).await,
        ScheduleCommand::Describe(arguments) => schedule::describe(session, &arguments).await,
        ScheduleCommand::Delete(arguments) => schedule::delete(session, &arguments).await,
        ScheduleCommand::Pause(arguments) => schedule::pause(session, &arguments, true).await,
        ScheduleCommand::Unpause(arguments) => schedule::pause(session, &arguments, false).await,
    }
}

async fn run_backup_location(command: BackupLocationCommand, settings: &Settings, printer: Printer) -> Result<()> {
    let connect = || Session::connect(settings, printer);
    match command {
        BackupLocationCommand::Create(arguments) => backup_location::create(settings, printer, *arguments).await,
        BackupLocationCommand::Get(arguments) => backup_location::get(&connect().await?, &arguments).await,
        BackupLocationCommand::Set(arguments) => backup_location::set(&connect().await?, &arguments).await,
        BackupLocationCommand::Check(arguments) => backup_location::check(settings, printer, &arguments).await,
        BackupLocationCommand::Delete(arguments) => backup_location::delete(&connect().await?, &arguments).await,
    }
}

async fn run_snapshot_location(command: SnapshotLocationCommand, settings: &Settings, printer: Printer) -> Result<()> {
    let connect = || Session::connect(settings, printer);
    match command {
        SnapshotLocationCommand::Create(arguments) => snapshot_location::create(settings, printer, arguments).await,
        SnapshotLocationCommand::Get(arguments) => snapshot_location::get(&connect().await?, &arguments).await,
        SnapshotLocationCommand::Set(arguments) => snapshot_location::set(&connect().await?, &arguments).await,
    }
}

async fn run_get(command: GetCommand, session: &Session) -> Result<()> {
    match command {
        GetCommand::Backups(arguments) => backup::get(session, &arguments).await,
        GetCommand::Schedules(arguments) => schedule::get(session, &arguments).await,
        GetCommand::Restores(arguments) => restore::get(session, &arguments).await,
        GetCommand::BackupLocations(arguments) => backup_location::get(session, &arguments).await,
        GetCommand::SnapshotLocations(arguments) => snapshot_location::get(session, &arguments).await,
        GetCommand::Plugins(arguments) => plugin::get(session, &arguments).await,
    }
}

async fn run_create(command: CreateCommand, settings: &Settings, printer: Printer) -> Result<()> {
    let connect = || Session::connect(settings, printer);
    match command {
        CreateCommand::Backup(arguments) => backup::create(&connect().await?, *arguments).await,
        CreateCommand::Schedule(arguments) => schedule::create(&connect().await?, *arguments).await,
        CreateCommand::Restore(arguments) => restore::create(&connect().await?, *arguments).await,
        CreateCommand::BackupLocation(arguments) => backup_location::create(settings, printer, *arguments).await,
        CreateCommand::SnapshotLocation(arguments) => snapshot_location::create(settings, printer, arguments).await,
    }
}

async fn run_describe(command: DescribeCommand, session: &Session) -> Result<()> {
    match command {
        DescribeCommand::Backups(arguments) => backup::describe(session, &arguments).await,
        DescribeCommand::Schedules(arguments) => schedule::describe(session, &arguments).await,
        DescribeCommand::Restores(arguments) => restore::describe(session, &arguments).await,
    }
}

async fn run_delete(command: DeleteCommand, session: &Session) -> Result<()> {
    match command {
        DeleteCommand::Backup(arguments) => backup::delete(session, &arguments).await,
        DeleteCommand::BackupLocation(arguments) => backup_location::delete(session, &arguments).await,
        DeleteCommand::Restore(arguments) => restore::delete(session, &arguments).await,
        DeleteCommand::Schedule(arguments) => schedule::delete(session, &arguments).await,
    }
}

//! `velero repo restore`

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use velero_repo::Repository;
use velero_repo::directory::EntryKind;
use velero_repo::restore::{Counters, RestoreOptions, restore_into_folder, restore_onto_device};

use super::bytes;
use super::opened::{Target, cancelled_from_the_keyboard, work};
use super::progress::{self, Done};
use crate::arguments::RepositoryRestoreArguments;
use crate::printer::Printer;
use crate::settings::Settings;

/// Restores a snapshot to this machine.
pub(crate) async fn restore(
    settings: &Settings,
    printer: Printer,
    arguments: RepositoryRestoreArguments,
) -> Result<()> {
    let cancel = cancelled_from_the_keyboard(printer);
    let place = arguments.place.clone();
    work(settings, printer, &place, move |place| {
        let repository = place.open()?;
        let target = Target::find(&repository, &arguments.target)?;
        target.expect(&repository, EntryKind::Directory)?;
        let (options, counters) =
            (RestoreOptions { sparse: arguments.sparse, cancel, ..Default::default() }, Counters::default());
        let done = || {
            let progress = counters.progress();
            let words = format!("{}/{} files", progress.files_done, progress.files_total);
            Done { bytes: progress.bytes_done, total: progress.bytes_total, words }
        };
        progress::show("Restoring", done, || run(&repository, &target, &arguments, &options, &counters))
            .with_context(|| format!("snapshot {} into {:?}", target.name(), arguments.to))?;
        let progress = counters.progress();
        printer.line(format_args!(
            "Restored {} files, {} in {} folders, into {:?}.",
            progress.files_done,
            bytes(progress.bytes_done),
            progress.directories_done,
            arguments.to
        ))
    })
    .await
}

fn run(
    repository: &Repository,
    target: &Target,
    arguments: &RepositoryRestoreArguments,
    options: &RestoreOptions,
    counters: &Counters,
) -> Result<()> {
    let to = &arguments.to;
    if arguments.device {
        make_file(to)?;
        return Ok(restore_onto_device(repository, &target.entry, to, options, counters)?);
    }
    ensure!(
        arguments.overwrite || is_empty(to)?,
        "the folder is not empty; restore into another, or replace files with --overwrite"
    );
    Ok(restore_into_folder(repository, &target.entry, to, options, counters)?)
}

fn is_empty(folder: &Path) -> Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).context("--to: the folder cannot be read"),
    }
}

/// Makes the file that stands for a device, unless something is there.
fn make_file(path: &Path) -> Result<()> {
    match File::options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).context("--to: the file cannot be made")
        }
        _ => Ok(()),
    }
}

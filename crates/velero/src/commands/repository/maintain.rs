//! `velero repo maintain`

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail, ensure};
use velero_repo::clock::system_clock;
use velero_repo::maintenance::{self, Action, MaintenanceOptions, MaintenanceReport, Mode, Skipped};

use super::bytes;
use super::opened::{cancelled_from_the_keyboard, work};
use super::progress::{self, Done};
use crate::arguments::RepositoryMaintainArguments;
use crate::printer::Printer;
use crate::settings::Settings;

/// Maintains a repository, or says what that would delete.
pub(crate) async fn maintain(
    settings: &Settings,
    printer: Printer,
    arguments: RepositoryMaintainArguments,
) -> Result<()> {
    let RepositoryMaintainArguments { dry_run, quick, full, place } = arguments;
    let mode = if quick { Some(Mode::Quick) } else { full.then_some(Mode::Full) };
    let cancel = cancelled_from_the_keyboard(printer);
    let report = work(settings, printer, &place, move |place| {
        if let Some(reason) = &place.read_only {
            ensure!(dry_run, "the repository may not be written: {reason}; --dry-run only says what would be done");
        }
        let repository = place.open()?;
        let deleted = AtomicU64::new(0);
        let tell = |action: &Action<'_>| {
            deleted.fetch_add(1, Ordering::Relaxed);
            tell(printer, action, dry_run);
        };
        let options = MaintenanceOptions { mode, dry_run, cancel, tell: &tell, ..MaintenanceOptions::default() };
        let done = || Done { bytes: 0, total: 0, words: format!("{} steps", deleted.load(Ordering::Relaxed)) };
        Ok(progress::show("Maintaining", done, || maintenance::maintain(&repository, &options, &system_clock()))?)
    })
    .await?;
    print(printer, &report, mode, dry_run)
}

/// In a dry run every step is a line; else only what needs somebody's attention.
fn tell(printer: Printer, action: &Action<'_>, dry_run: bool) {
    let line = match action {
        Action::KeepBlobs { epoch, problem } => {
            return printer.note(format_args!("the indexes of epoch {epoch} stay: {problem}"));
        }
        _ if !dry_run => return,
        Action::DeleteBlob { blob, reason } => format!("would delete blob {blob}: {reason}"),
        Action::DeleteContent { content } => format!("would mark content {content} as deleted"),
        Action::UndeleteContent { content } => format!("would bring back content {content}"),
    };
    // The maintenance cannot be told; its end will find the same closed output.
    let _ = printer.line(line);
}

fn print(printer: Printer, report: &MaintenanceReport, mode: Option<Mode>, dry_run: bool) -> Result<()> {
    match report.skipped {
        Some(Skipped::BegunByOthers(begun)) => bail!(
            "another maintenance of the repository began at {begun}, less than an hour ago, and may still be at work; try again later"
        ),
        Some(Skipped::NotDue) => {
            let next = report.next.map(|next| next.quick.min(next.full).to_string()).unwrap_or_default();
            return printer.line(format_args!("Nothing is due before {next}; --quick and --full do it all the same."));
        }
        None => {}
    }
    if let Some(stats) = &report.collect {
        printer.line(format_args!(
            "Contents: {} needed ({}), {} marked as deleted ({}), {} too young to decide ({}), {} brought back.",
            stats.in_use_content_count,
            bytes(stats.in_use_content_size),
            stats.deleted_content_count,
            bytes(stats.deleted_content_size),
            stats.unreferenced_recent_content_count,
            bytes(stats.unreferenced_recent_content_size),
            stats.recovered_content_count
        ))?;
    }
    if let Some(stats) = &report.rewrite {
        let size = bytes(stats.to_rewrite_content_size);
        printer.line(format_args!("Short packs: {} contents ({size}) to be moved.", stats.to_rewrite_content_count))?;
    }
    if let Some(stats) = &report.packs {
        let size = bytes(stats.unreferenced_total_size);
        printer.line(format_args!("Packs nothing names: {} ({size}).", stats.unreferenced_pack_count))?;
    }
    if let Some(stats) = &report.compact {
        let count = stats.superseded_index_blob_count;
        printer.line(format_args!("Indexes: {count} blobs of epoch {} become one set.", stats.epoch))?;
    }
    if let Some(stats) = &report.superseded {
        let size = bytes(stats.deleted_total_size);
        printer.line(format_args!("Replaced indexes: {} ({size}) removed.", stats.deleted_blob_count))?;
    }
    let what = match report.mode.or(mode) {
        Some(Mode::Full) => "Full maintenance",
        _ => "Quick maintenance",
    };
    printer.line(format_args!("{what} {}.", if dry_run { "looked; nothing was written" } else { "done" }))
}

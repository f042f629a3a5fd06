//! `velero repo verify`

use std::sync::Arc;

use anyhow::{Result, bail};
use velero_repo::verify::{VerifyOptions, VerifyReport, verify_repository, verify_snapshot};

use super::bytes;
use super::opened::{cancelled_from_the_keyboard, find_snapshot, work};
use super::place::Place;
use super::progress::{self, Done};
use crate::arguments::RepositoryVerifyArguments;
use crate::printer::Printer;
use crate::settings::Settings;

/// How many characters a whole id has.
const ID_LENGTH: usize = 32;

/// Checks a repository or a snapshot; fails when something is damaged.
pub(crate) async fn verify(settings: &Settings, printer: Printer, arguments: RepositoryVerifyArguments) -> Result<()> {
    let RepositoryVerifyArguments { snapshot, place } = arguments;
    let options = VerifyOptions { cancel: cancelled_from_the_keyboard(printer), ..VerifyOptions::default() };
    let report = work(settings, printer, &place, move |place| {
        let counters = Arc::clone(&options.counters);
        let done = || {
            let (bytes, total) = counters.bytes();
            Done { bytes, total, words: String::new() }
        };
        progress::show("Verifying", done, || check(place, snapshot.as_deref(), &options))
    })
    .await?;
    print(printer, &report)
}

fn check(place: &Place, snapshot: Option<&str>, options: &VerifyOptions) -> Result<VerifyReport> {
    let format = place.format()?;
    let Some(id) = snapshot else { return Ok(verify_repository(place.store(), format, options)?) };
    // A whole id needs no search, which a damaged repository might not survive.
    let found = match id.len() {
        ID_LENGTH => id.to_owned(),
        _ => find_snapshot(&place.open()?, id)?.0,
    };
    Ok(verify_snapshot(place.store(), format, &found, options)?)
}

fn print(printer: Printer, report: &VerifyReport) -> Result<()> {
    for problem in &report.problems {
        printer.line(problem)?;
    }
    let (checked, unneeded) = (&report.checked, &report.unreferenced);
    printer.line(format_args!(
        "Checked {} snapshots with {} folders and {} files, {} contents with {}, {} packs, {} other blobs.",
        checked.snapshots,
        checked.directories,
        checked.files,
        checked.contents,
        bytes(checked.bytes),
        checked.packs,
        checked.blobs
    ))?;
    if unneeded.contents + unneeded.packs > 0 {
        printer.line(format_args!(
            "No snapshot needs {} contents ({}) and {} packs ({}); maintenance removes them in time.",
            unneeded.contents,
            bytes(unneeded.content_bytes),
            unneeded.packs,
            bytes(unneeded.pack_bytes)
        ))?;
    }
    match report.problems.len() as u64 + report.more_problems {
        0 => printer.line("Nothing is damaged."),
        1 => bail!("1 problem was found"),
        problems => bail!("{problems} problems were found"),
    }
}

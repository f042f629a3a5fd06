//! `velero uninstall`
//!
//! Removes what `velero install` made. Backups stay where they are, and the command says where.

mod finalizers;
mod found;
mod remove;

use anyhow::Result;

use self::found::Found;
use crate::arguments::UninstallArguments;
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;

/// Removes the server and all that belongs to it, but no backup.
pub(super) async fn uninstall(arguments: &UninstallArguments, settings: &Settings, printer: Printer) -> Result<()> {
    if arguments.wait {
        printer.note("Warning: --wait is deprecated, the command always waits for the uninstall to complete.");
    }
    let session = Session::connect(settings, printer).await?;
    let found = found::look(&session).await?;
    if !arguments.force {
        printer.line("You are about to uninstall Velero.")?;
        printer.line(found.announcement(session.namespace()))?;
        if !printer.confirm()? {
            return Ok(());
        }
    }
    if let Some(volume) = &found.volume {
        remove::keep_volume(&session, volume).await?;
    }
    if found.namespace.is_some() {
        finalizers::end_work(&session).await?;
    }
    match found.namespace {
        Some(found::Home::Made) => remove::namespace(&session).await?,
        Some(found::Home::Foreign) => remove::objects(&session).await?,
        None => printer.line(format_args!("Velero namespace {:?} does not exist, skipping.", session.namespace()))?,
    }
    remove::rights(&session).await?;
    if found.other.is_none() {
        remove::definitions(&session).await?;
    }
    if let Some(volume) = &found.volume {
        remove::release_volume(&session, volume).await?;
    }
    report(&session, &found)
}

fn report(session: &Session, found: &Found) -> Result<()> {
    let left = found.left(session.namespace());
    if !left.is_empty() {
        session.printer.line("Left behind:")?;
    }
    for line in left {
        session.printer.line(format_args!("  {line}"))?;
    }
    session.printer.line("Velero uninstalled ⛵")
}

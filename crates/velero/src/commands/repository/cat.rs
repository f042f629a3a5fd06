//! `velero repo cat`

use anyhow::Result;
use velero_repo::directory::EntryKind;

use super::opened::{Target, work};
use crate::arguments::RepositoryCatArguments;
use crate::printer::Printer;
use crate::settings::Settings;

/// Writes a file of a snapshot to stdout, piece by piece.
pub(crate) async fn cat(settings: &Settings, printer: Printer, arguments: RepositoryCatArguments) -> Result<()> {
    let RepositoryCatArguments { target, place } = arguments;
    work(settings, printer, &place, move |place| {
        let repository = place.open()?;
        let target = Target::find(&repository, &target)?;
        target.expect(&repository, EntryKind::File)?;
        let mut content = repository.object(target.entry.object)?;
        while let Some(piece) = content.next_piece()? {
            printer.bytes(&piece)?;
        }
        Ok(())
    })
    .await
}

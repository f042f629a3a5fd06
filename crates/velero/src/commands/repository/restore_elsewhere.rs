//! `velero repo restore` where there is no Linux.

use anyhow::{Result, bail};

use crate::arguments::RepositoryRestoreArguments;
use crate::printer::Printer;
use crate::settings::Settings;

/// Says why it cannot.
pub(crate) async fn restore(_: &Settings, _: Printer, arguments: RepositoryRestoreArguments) -> Result<()> {
    bail!(
        "the files of volumes have owners, links and devices of Linux, which {:?} could not have here: run the command on Linux. \
         velero repo ls and cat work everywhere",
        arguments.to
    )
}

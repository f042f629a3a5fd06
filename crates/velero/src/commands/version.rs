//! `velero version`

use anyhow::Result;

use super::server_status::kept_status;
use crate::arguments::VersionArguments;
use crate::output::{Format, ServerReport};
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;

/// Prints the version of this program and, unless told not to, of the server. A server that cannot be read is no
/// failure, as it never was.
pub(super) async fn version(arguments: &VersionArguments, settings: &Settings, printer: Printer) -> Result<()> {
    let format = Format::parse(arguments.output.as_deref())?;
    if arguments.client_only {
        return ServerReport::of_client().print(printer, format);
    }
    let session = Session::connect(settings, printer).await?;
    let report = match kept_status(&session, arguments.status.timeout.to_std()).await {
        Ok(kept) => ServerReport::of_server(&kept),
        Err(error) => ServerReport::of_problem(&error),
    };
    report.print(printer, format)
}

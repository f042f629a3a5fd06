//! `velero plugin …`

use anyhow::Result;

use super::server_status::server_status;
use crate::arguments::PluginGetArguments;
use crate::output::{Format, print_plugins};
use crate::session::Session;

/// Shows the plugins of the server.
pub(super) async fn get(session: &Session, arguments: &PluginGetArguments) -> Result<()> {
    let format = Format::parse(Some(&arguments.output))?.unwrap_or(Format::Table);
    match server_status(session, arguments.status.timeout.to_std()).await {
        Ok(status) => print_plugins(session.printer, status, format),
        Err(error) => session.printer.line(format_args!("<error getting plugin information: {error:#}>")),
    }
}

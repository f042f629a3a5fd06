//! `velero version`

use anyhow::Result;

use super::server_status::kept_status;
use crate::alive::{fail_if_gone, is_unheard_of, last_heard_of, unheard_of};
use crate::arguments::VersionArguments;
use crate::output::{Format, ServerReport};
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;

/// Prints the version of this program and, unless told not to, of the server. A server that cannot be read is no
/// failure, as it never was; one that is gone is.
pub(super) async fn version(arguments: &VersionArguments, settings: &Settings, printer: Printer) -> Result<()> {
    let format = Format::parse(arguments.output.as_deref())?;
    if arguments.client_only {
        return ServerReport::of_client().print(printer, format);
    }
    let session = Session::connect(settings, printer).await?;
    let patience = arguments.status.timeout.to_std();
    let (kept, heard) = tokio::join!(kept_status(&session, patience), last_heard_of(&session, patience));
    let kept = match kept {
        Ok(kept) => kept,
        Err(error) => {
            ServerReport::of_problem(&error).print(printer, format)?;
            return fail_if_gone(&session, heard.ok().flatten().as_ref());
        }
    };
    let heard = heard?;
    if heard.is_none() && is_unheard_of(&session, patience).await {
        ServerReport::of_unheard_server(&kept).print(printer, format)?;
        return Err(unheard_of(&session));
    }
    ServerReport::of_server(&kept, heard.as_ref()).print(printer, format)?;
    fail_if_gone(&session, heard.as_ref())
}

//! `velero server status`, and what other commands ask about the server.

mod ask;
mod deployment;
mod details;
mod kept;

use std::time::Duration;

use anyhow::Result;
use tokio::time::timeout;

use crate::alive::{fail_if_gone, is_unheard_of, last_heard_of, unheard_of};
use crate::arguments::ServerStatusArguments;
use crate::output::{Format, ServerReport};
use crate::session::Session;
pub(super) use ask::ask_server;
pub(super) use deployment::{SERVER_CONTAINER, server_deployment};
pub(super) use kept::kept_status;

/// Shows the version of the server and whether it is ready; fails when nobody can say, and when the server is gone.
pub(super) async fn status(session: &Session, arguments: &ServerStatusArguments) -> Result<()> {
    let format = Format::parse(arguments.output.as_deref())?;
    let patience = arguments.status.timeout.to_std();
    let (kept, heard) = tokio::join!(kept_status(session, patience), last_heard_of(session, patience));
    let (kept, heard) = (kept?, heard?);
    let is_gone = heard.is_none() && is_unheard_of(session, patience).await;
    let mut report = match is_gone {
        true => ServerReport::of_unheard_server(&kept),
        false => ServerReport::of_server(&kept, heard.as_ref()),
    };
    if arguments.details {
        report.details = Some(details::collect(session, &kept).await);
    } else if heard.is_none() && !is_gone {
        warn_of_a_dead_server(session, patience).await;
    }
    report.print(session.printer, format)?;
    if is_gone {
        return Err(unheard_of(session));
    }
    fail_if_gone(session, heard.as_ref())
}

/// The status is what the server wrote last; it cannot take it back when it dies.
async fn warn_of_a_dead_server(session: &Session, patience: Duration) {
    // Who may not look is not warned: the status itself could be read.
    let Ok(Ok(Some(deployment))) = timeout(patience, server_deployment(session)).await else { return };
    let pods = deployment::availability(&deployment);
    if pods.ready == 0 {
        session.printer.note(format_args!(
            "WARNING: Deployment {} has no available pod ({} wanted), the status may be out of date",
            pods.name, pods.desired
        ));
    }
}

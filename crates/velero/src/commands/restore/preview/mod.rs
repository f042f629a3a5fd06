//! `velero restore create --dry-run`
//!
//! The server is asked: only it knows its plugins, flags and rights. Where no server answers that knows dry runs, as
//! much as can be found out is found out here, and what that leaves out is said.

mod ask;
mod here;

use anyhow::{Result, bail, ensure};
use velero_api::v1::Restore;

use crate::arguments::OutputArguments;
use crate::output::{Format, RestorePreview, print_value};
use crate::session::Session;

/// What a dry run came to.
enum Found {
    /// What the restore would do.
    Plan(Box<RestorePreview>),
    /// Why the restore would not even begin.
    Refused(Vec<String>),
    /// Why the server does not say.
    NoAnswer(String),
}

/// Shows what a restore would do; an error when it would not do all of it.
pub(super) async fn show(session: &Session, restore: &Restore, output: &OutputArguments) -> Result<()> {
    let format = Format::parse(output.output.as_deref())?.unwrap_or(Format::Table);
    let mut found = ask::server(session, restore).await?;
    if let Found::NoAnswer(reason) = found {
        session.printer.note(format_args!(
            "warning: {reason}. This is what the command finds out by itself, with the built-in actions alone: it does \
             not know the plugins, flags, features and rights of the server, and what these change"
        ));
        found = here::look(session, restore).await?;
    }
    let plan = match found {
        Found::Plan(plan) => plan,
        Found::Refused(problems) => bail!("the restore would be refused: {}", problems.join("; ")),
        Found::NoAnswer(reason) => bail!(reason),
    };
    match format {
        Format::Table => session.printer.print(plan.table())?,
        format => print_value(session.printer, &plan, format)?,
    }
    if format == Format::Table {
        plan.messages().iter().for_each(|message| session.printer.note(message));
    }
    ensure!(plan.failures() == 0, "{} objects would not be restored", plan.failures());
    Ok(())
}

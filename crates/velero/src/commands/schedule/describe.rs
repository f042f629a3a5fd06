//! `velero schedule describe`

use anyhow::Result;
use velero_api::v1::Schedule;

use crate::arguments::ListArguments;
use crate::output::Clock;
use crate::output::describe::{Manner, describe_schedule};
use crate::session::Session;

/// Describes schedules.
pub(crate) async fn describe(session: &Session, arguments: &ListArguments) -> Result<()> {
    let schedules = session.select::<Schedule>(&arguments.names, &arguments.selector).await?.items;
    let manner = Manner { clock: Clock::system(), style: session.printer.style, details: false };
    for (position, schedule) in schedules.iter().enumerate() {
        let separator = if position == 0 { "" } else { "\n\n" };
        session.printer.print(format_args!("{separator}{}", describe_schedule(schedule, &manner)))?;
    }
    Ok(())
}

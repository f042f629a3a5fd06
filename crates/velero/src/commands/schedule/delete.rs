//! `velero schedule delete`

use anyhow::Result;
use velero_api::metadata;
use velero_api::v1::Schedule;

use crate::arguments::DeleteArguments;
use crate::commands::select::{aggregate, confirm_deletion, select};
use crate::session::Session;

/// Deletes schedules; their backups stay unless the schedule owns them.
pub(crate) async fn delete(session: &Session, arguments: &DeleteArguments) -> Result<()> {
    if !confirm_deletion(session, arguments, "schedule")? {
        return Ok(());
    }
    let selected = select::<Schedule>(session, &arguments.select).await?;
    if selected.items.is_empty() {
        return session.printer.line("No schedules found");
    }
    let mut errors = selected.missing;
    for schedule in &selected.items {
        let name = metadata::name(schedule);
        match session.delete::<Schedule>(name).await {
            Err(error) => errors.push(error),
            Ok(()) => session.printer.line(format_args!("Schedule deleted: {name}"))?,
        }
    }
    aggregate(&errors)
}

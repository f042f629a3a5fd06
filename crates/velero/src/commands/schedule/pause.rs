//! `velero schedule pause` and `velero schedule unpause`

use anyhow::{Context, Result};
use velero_api::metadata;
use velero_api::v1::Schedule;

use crate::arguments::SchedulePauseArguments;
use crate::commands::select::{aggregate, select, validate};
use crate::session::Session;

/// Pauses schedules, or lets them go on.
pub(crate) async fn pause(session: &Session, arguments: &SchedulePauseArguments, paused: bool) -> Result<()> {
    validate(&arguments.select, "schedule")?;
    let selected = select::<Schedule>(session, &arguments.select).await?;
    if selected.items.is_empty() {
        return session.printer.line("No schedules found");
    }
    let done = if paused { "paused" } else { "unpaused" };
    for schedule in &selected.items {
        let name = metadata::name(schedule);
        if schedule.spec.paused == paused {
            session.printer.line(format_args!("Schedule {name} is already {done}, skip"))?;
            continue;
        }
        let mut modified = schedule.clone();
        modified.spec.paused = paused;
        modified.spec.skip_immediately = arguments.skip_immediately.and_then(|flag| flag.0);
        session.update(schedule, &modified).await.with_context(|| format!("failed to update schedule {name}"))?;
        session.printer.line(format_args!("Schedule {name} {done} successfully"))?;
    }
    aggregate(&selected.missing)
}

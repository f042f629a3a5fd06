//! `velero schedule create`

use anyhow::{Result, ensure};
use velero_api::v1::{Schedule, ScheduleSpec};

use crate::arguments::ScheduleCreateArguments;
use crate::arguments::values::merged;
use crate::commands::backup::{content_spec, validate_content};
use crate::output::{Format, print_instead_of_create};
use crate::session::Session;

/// Creates a schedule, or shows it.
pub(crate) async fn create(session: &Session, arguments: ScheduleCreateArguments) -> Result<()> {
    ensure!(!arguments.schedule.is_empty(), "--schedule is required");
    Format::parse(arguments.output.output.as_deref())?;
    validate_content(session, &arguments.content).await?;
    let spec = ScheduleSpec {
        template: content_spec(&arguments.content)?,
        schedule: arguments.schedule,
        use_owner_references_in_backup: Some(arguments.use_owner_references_in_backup),
        paused: arguments.paused,
        skip_immediately: arguments.skip_immediately.and_then(|flag| flag.0),
        ..ScheduleSpec::default()
    };
    let mut schedule = Schedule::new(session.namespace(), &arguments.name, spec);
    let (labels, annotations) = (merged(&arguments.content.labels), merged(&arguments.content.annotations));
    schedule.metadata.labels = (!labels.is_empty()).then_some(labels);
    schedule.metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    if print_instead_of_create(session.printer, &schedule, &arguments.output)? {
        return Ok(());
    }
    session.create(&schedule).await?;
    session.printer.line(format_args!("Schedule {:?} created successfully.", arguments.name))
}

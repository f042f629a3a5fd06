//! A schedule.

use velero_api::v1::{Schedule, SchedulePhase};

use super::Manner;
use super::backup::{describe_config_map, describe_uploader};
use super::backup_spec::describe_spec;
use super::describer::Describer;

/// Describes a schedule and its template.
pub(crate) fn describe_schedule(schedule: &Schedule, manner: &Manner) -> String {
    let mut describer = Describer::new(manner);
    let template = &schedule.spec.template;
    describer.metadata(schedule);
    describer.gap();
    let phase = schedule.status.phase();
    let shown = match phase {
        SchedulePhase::Enabled => manner.style.green(phase.as_str()),
        SchedulePhase::FailedValidation => manner.style.red(phase.as_str()),
        _ => phase.to_string(),
    };
    describer.field("Phase", shown);
    if let Some(policy) = &template.resource_policy {
        describer.gap();
        describe_config_map(&mut describer, "Resource policies", &policy.kind, &policy.name);
    }
    describe_uploader(&mut describer, template.uploader_config.as_ref().map(|config| config.parallel_files_upload));
    describer.validation_errors(&schedule.status.validation_errors);
    describer.gap();
    describer.field("Paused", schedule.spec.paused);
    describer.gap();
    describer.field("Schedule", &schedule.spec.schedule);
    describer.gap();
    describer.line("Backup Template:");
    describer.indented(|describer| describe_spec(describer, template));
    describer.gap();
    let last = manner.clock.text_or(schedule.status.last_backup.as_ref(), "<never>");
    describer.field("Last Backup", last);
    describer.finish()
}

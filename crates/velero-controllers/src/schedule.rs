//! Makes backups when schedules say so.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use velero_api::labels;
use velero_api::metadata::{self, name, uid};
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, Schedule, SchedulePhase};
use velero_rules::cron::CronSchedule;
use velero_rules::schedule::{
    ScheduleHistory, backup_annotations, backup_labels, backup_name, blocks_next_backup, skips_now, validate,
};

use crate::lifecycle::refusal::write_refusal;
use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::{Error, Result};

/// How soon a schedule is looked at again whose earlier backup is not done.
const WHILE_BLOCKED: std::time::Duration = std::time::Duration::from_secs(60);

/// Watches Schedules.
pub(crate) struct ScheduleReconciler {
    pub(crate) context: SharedContext,
}

impl Reconciler for ScheduleReconciler {
    type Kind = Schedule;
    const CONTROLLER: Controller = Controller::Schedule;

    async fn reconcile(&self, schedule: Schedule) -> Result<Next> {
        let context = &self.context;
        context.metrics.begin_schedule(name(&schedule));
        if schedule.spec.paused {
            return Ok(Next::Change);
        }
        let now = clock::now();
        let validated = validated(&schedule, context.settings.schedule_skip_immediately, now);
        let schedule = context.objects.patch(&schedule, &validated).await?;
        let Ok(cron) = validate(&schedule.spec.schedule) else { return Ok(Next::Change) };
        let history = history(&schedule, now);
        report_interval(context, &schedule, &cron, now);
        if !history.is_due(&cron, &TimeZone::UTC, now) {
            let next = history.next_run(&cron, &TimeZone::UTC);
            // A backup is due once its moment is past, hence the second.
            return Ok(next.map_or(Next::Change, |next| {
                Next::After(clock::until(next, now) + std::time::Duration::from_secs(1))
            }));
        }
        if is_blocked(context, &schedule).await? {
            tracing::debug!(schedule = name(&schedule), "An earlier backup of the schedule is not done yet");
            return Ok(Next::After(WHILE_BLOCKED));
        }
        submit(context, &schedule, now).await?;
        // The change of lastBackup brings the schedule here again.
        Ok(Next::Change)
    }

    fn forget(&self, name: &str) {
        self.context.metrics.end_schedule(name);
    }

    async fn refuse(&self, schedule: &str, problem: &str) {
        let patch = serde_json::json!({"status": {
            "phase": SchedulePhase::FailedValidation,
            "validationErrors": [format!("the schedule cannot be read: {problem}")],
        }});
        write_refusal::<Schedule>(&self.context, schedule, &patch).await;
    }
}

/// The schedule with the verdict on its cron expression, and with an immediate run skipped where asked for.
fn validated(schedule: &Schedule, skip_by_default: bool, now: Timestamp) -> Schedule {
    let mut validated = schedule.clone();
    if skips_now(schedule.spec.skip_immediately, skip_by_default) {
        validated.status.last_skipped = Some(Time(now));
    }
    validated.spec.skip_immediately = Some(false);
    match validate(&schedule.spec.schedule) {
        Ok(_) => {
            validated.status.phase = Some(SchedulePhase::Enabled);
            validated.status.validation_errors.clear();
        }
        Err(error) => {
            validated.status.phase = Some(SchedulePhase::FailedValidation);
            validated.status.validation_errors = vec![error.to_string()];
        }
    }
    validated
}

fn history(schedule: &Schedule, now: Timestamp) -> ScheduleHistory {
    let moment = |time: &Option<Time>| time.as_ref().map(|time| time.0);
    ScheduleHistory {
        created: moment(&schedule.metadata.creation_timestamp).unwrap_or(now),
        last_backup: moment(&schedule.status.last_backup),
        last_skipped: moment(&schedule.status.last_skipped),
    }
}

fn report_interval(context: &Context, schedule: &Schedule, cron: &CronSchedule, now: Timestamp) {
    let next = cron.next(now, &TimeZone::UTC);
    if let Some((first, second)) = next.and_then(|first| Some((first, cron.next(first, &TimeZone::UTC)?))) {
        context.metrics.expected_interval(name(schedule), second.duration_since(first).as_secs_f64());
    }
}

async fn is_blocked(context: &Context, schedule: &Schedule) -> Result<bool> {
    let selector = format!("{}={}", labels::SCHEDULE_NAME, name(schedule));
    let mut blocked = false;
    let visitor = |backup: Backup| blocked |= blocks_next_backup(backup.status.phase());
    context.objects.visit(&selector, visitor).await?;
    Ok(blocked)
}

async fn submit(context: &Context, schedule: &Schedule, now: Timestamp) -> Result<()> {
    let backup = backup_of(schedule, now);
    tracing::info!(schedule = name(schedule), backup = name(&backup), "Schedule is due, submitting a backup");
    match context.objects.create(&backup).await {
        // The last run was interrupted between creating the backup and noting it.
        Err(Error::Cluster(error)) if error.is_already_exists() => {}
        created => drop(created?),
    }
    let mut noted = schedule.clone();
    noted.status.last_backup = Some(Time(now));
    context.objects.force(schedule, &noted).await?;
    Ok(())
}

/// The backup a schedule makes.
fn backup_of(schedule: &Schedule, now: Timestamp) -> Backup {
    let backup_name = backup_name(name(schedule), &now.to_zoned(TimeZone::UTC));
    let namespace = metadata::namespace(schedule);
    let mut backup = Backup::new(namespace, &backup_name, schedule.spec.template.clone());
    backup.metadata.labels = Some(backup_labels(schedule));
    backup.metadata.annotations = backup_annotations(schedule);
    if schedule.spec.use_owner_references_in_backup == Some(true) {
        backup.metadata.owner_references = Some(vec![OwnerReference {
            api_version: Schedule::api_version_text(),
            kind: Schedule::KIND.to_owned(),
            name: name(schedule).to_owned(),
            uid: uid(schedule).to_owned(),
            controller: Some(true),
            block_owner_deletion: None,
        }]);
    }
    backup
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(cron: &str) -> Schedule {
        let mut schedule = Schedule::new("velero", "daily", Default::default());
        schedule.spec.schedule = cron.to_owned();
        schedule.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
        schedule.metadata.uid = Some("u".to_owned());
        schedule
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_backup_takes_the_labels_of_the_template_or_else_of_the_schedule() {
        let now = at("2026-03-04T05:06:07Z");
        let mut schedule = schedule("@daily");
        let backup = backup_of(&schedule, now);
        assert_eq!(name(&backup), "daily-20260304050607");
        assert_eq!(metadata::label(&backup, "team"), "a");
        assert_eq!(metadata::label(&backup, labels::SCHEDULE_NAME), "daily");
        assert!(backup.metadata.owner_references.is_none());
        schedule.spec.template.metadata.labels = [("team".to_owned(), "b".to_owned())].into();
        schedule.spec.use_owner_references_in_backup = Some(true);
        let backup = backup_of(&schedule, now);
        assert_eq!(metadata::label(&backup, "team"), "b");
        assert_eq!(backup.metadata.owner_references.unwrap()[0].uid, "u");
    }

    #[test]
    fn a_schedule_is_judged_by_its_cron_expression() {
        let now = at("2026-03-04T05:06:07Z");
        let good = validated(&schedule("*/5 * * * *"), false, now);
        assert_eq!(*good.status.phase(), SchedulePhase::Enabled);
        assert_eq!(good.status.last_skipped, None);
        let bad = validated(&schedule("every day"), false, now);
        assert_eq!(*bad.status.phase(), SchedulePhase::FailedValidation);
        assert!(bad.status.validation_errors[0].starts_with("invalid schedule: "), "{:?}", bad.status);
        let empty = validated(&schedule(""), false, now);
        assert!(empty.status.validation_errors[0].contains("non-empty"));
    }

    #[test]
    fn skipping_the_first_run_is_noted_once() {
        let now = at("2026-03-04T05:06:07Z");
        let skipped = validated(&schedule("@hourly"), true, now);
        assert_eq!(skipped.status.last_skipped, Some(Time(now)));
        assert_eq!(skipped.spec.skip_immediately, Some(false));
        let again = validated(&skipped, true, at("2026-03-04T06:00:00Z"));
        assert_eq!(again, skipped);
    }
}

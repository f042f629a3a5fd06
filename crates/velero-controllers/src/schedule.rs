//! Makes backups when schedules say so.

use std::collections::HashMap;
use std::sync::Mutex;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use velero_api::annotations::SCHEDULED_BY;
use velero_api::labels;
use velero_api::metadata::{self, name, uid};
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, Schedule, SchedulePhase, ScheduleStatus};
use velero_rules::conditions;
use velero_rules::cron::CronSchedule;
use velero_rules::events::Told;
use velero_rules::schedule::{
    ScheduleHistory, backup_annotations, backup_labels, backup_name, blocks_next_backup, made_when_due, skips_now,
    validate,
};

use crate::lifecycle::refusal::write_refusal;
use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::{Error, Result};
use crate::runtime::events;
use crate::runtime::lock::lock;

/// How soon a schedule is looked at again whose earlier backup is not done.
const WHILE_BLOCKED: std::time::Duration = std::time::Duration::from_secs(60);

/// Watches Schedules.
pub(crate) struct ScheduleReconciler {
    context: SharedContext,
    /// The last moment, by schedule, of which was told that its backup is held up.
    held_up: Mutex<HashMap<String, Timestamp>>,
    /// The backup, by schedule, that was asked for and is not noted yet.
    begun: Mutex<HashMap<String, Begun>>,
}

/// A backup that was asked for.
struct Begun {
    /// The UID of its schedule.
    schedule: String,
    /// When it was due.
    due: Option<Timestamp>,
    /// The moment that it is named after.
    moment: Timestamp,
}

impl ScheduleReconciler {
    pub(crate) fn new(context: SharedContext) -> Self {
        Self { context, held_up: Mutex::default(), begun: Mutex::default() }
    }

    /// The moment after which the backup is named that was asked for already when this one was due.
    fn begun(&self, schedule: &Schedule, due: Option<Timestamp>) -> Option<Timestamp> {
        let begun = lock(&self.begun);
        let known = begun.get(name(schedule))?;
        (known.schedule == uid(schedule) && known.due == due).then_some(known.moment)
    }

    /// Makes a backup that is due, and notes that on the schedule.
    async fn submit(&self, schedule: &Schedule, due: Option<Timestamp>, moment: Timestamp) -> Result<()> {
        let objects = &self.context.objects;
        let backup = backup_of(schedule, moment);
        tracing::info!(schedule = name(schedule), backup = name(&backup), "Schedule is due, submitting a backup");
        let begun = Begun { schedule: uid(schedule).to_owned(), due, moment };
        lock(&self.begun).insert(name(schedule).to_owned(), begun);
        match objects.create(&backup).await {
            // It was made before, and its answer lost or not noted.
            Err(Error::Cluster(error)) if error.is_already_exists() => {}
            Err(Error::Cluster(error)) if !error.is_unanswered() => {
                lock(&self.begun).remove(name(schedule));
                return Err(error.into());
            }
            created => drop(created?),
        }
        self.note(schedule, moment).await
    }

    /// Notes on a schedule that the backup of a moment was made.
    async fn note(&self, schedule: &Schedule, moment: Timestamp) -> Result<()> {
        let mut noted = schedule.clone();
        noted.status.last_backup = Some(Time(moment));
        self.context.objects.force(schedule, &noted).await?;
        lock(&self.begun).remove(name(schedule));
        let backup = backup_name(name(schedule), &moment.to_zoned(TimeZone::UTC));
        let note = format!("backup {backup} was submitted");
        events::tell(&self.context, schedule, Self::CONTROLLER, Told::normal("BackupSubmitted", note));
        Ok(())
    }

    /// Tells once for each backup that is due that it has to wait for an earlier one.
    fn tell_held_up(&self, schedule: &Schedule, due: Option<Timestamp>) {
        let Some(due) = due else { return };
        if lock(&self.held_up).insert(name(schedule).to_owned(), due) != Some(due) {
            let note = format!("the backup of {due} waits: an earlier one of the schedule has not ended");
            events::tell(&self.context, schedule, Self::CONTROLLER, Told::warning("BackupHeldUp", note));
        }
    }
}

impl Reconciler for ScheduleReconciler {
    type Kind = Schedule;
    const CONTROLLER: Controller = Controller::Schedule;

    async fn reconcile(&self, schedule: Schedule) -> Result<Next> {
        let context = &self.context;
        context.metrics.begin_schedule(name(&schedule));
        let now = clock::now();
        if schedule.spec.paused {
            context.metrics.no_expected_interval(name(&schedule));
            lock(&self.begun).remove(name(&schedule));
            let mut paused = schedule.clone();
            put_conditions(&mut paused, now);
            context.objects.patch(&schedule, &paused).await?;
            return Ok(Next::Change);
        }
        let validated = validated(&schedule, context.settings.schedule_skip_immediately, now);
        let before = schedule.status.clone();
        let schedule = context.objects.patch(&schedule, &validated).await?;
        if let Some(told) = told(&before, &validated.status) {
            events::tell(context, &schedule, Self::CONTROLLER, told);
        }
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
        let due = history.next_run(&cron, &TimeZone::UTC);
        let begun = self.begun(&schedule, due);
        // One that was asked for without an answer is asked for again under its name: it must not be in its own way.
        let earlier = if begun.is_none() { earlier(context, &schedule, due, now).await? } else { Earlier::default() };
        if let Some(made) = earlier.made {
            tracing::info!(schedule = name(&schedule), %made, "The backup that is due was made before, and is noted now");
            self.note(&schedule, made).await?;
            return Ok(Next::Change);
        }
        if earlier.is_blocking {
            self.tell_held_up(&schedule, due);
            tracing::debug!(schedule = name(&schedule), "An earlier backup of the schedule is not done yet");
            return Ok(Next::After(WHILE_BLOCKED));
        }
        self.submit(&schedule, due, begun.unwrap_or(now)).await?;
        // The change of lastBackup brings the schedule here again.
        Ok(Next::Change)
    }

    fn forget(&self, name: &str) {
        lock(&self.held_up).remove(name);
        lock(&self.begun).remove(name);
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
    put_conditions(&mut validated, now);
    validated
}

/// Says in conditions what the phase says.
fn put_conditions(schedule: &mut Schedule, now: Timestamp) {
    let (status, is_paused) = (&schedule.status, schedule.spec.paused);
    let problems = status.validation_errors.join("; ");
    let conditions = conditions::of_schedule(&status.conditions, status.phase(), is_paused, &problems, now);
    schedule.status.conditions = conditions;
}

/// What an Event tells of a schedule that was looked at, if there is news.
fn told(before: &ScheduleStatus, after: &ScheduleStatus) -> Option<Told> {
    if after.phase() == &SchedulePhase::FailedValidation && before.validation_errors != after.validation_errors {
        let problems = after.validation_errors.join("; ");
        return Some(Told::warning("FailedValidation", format!("no backups are made: {problems}")));
    }
    let skipped = before.last_skipped != after.last_skipped;
    skipped.then(|| Told::normal("BackupSkipped", "the backup that is due at once is skipped, as skipImmediately says"))
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

/// What the backups of a schedule mean for one that is due.
#[derive(Default)]
struct Earlier {
    /// One of them is not done yet.
    is_blocking: bool,
    /// When the one that is due was made already.
    made: Option<Timestamp>,
}

async fn earlier(context: &Context, schedule: &Schedule, due: Option<Timestamp>, now: Timestamp) -> Result<Earlier> {
    let selector = format!("{}={}", labels::SCHEDULE_NAME, name(schedule));
    let mut earlier = Earlier::default();
    let visitor = |backup: Backup| {
        let made = due.and_then(|due| made_when_due(&backup, schedule, due, now));
        earlier.made = earlier.made.max(made);
        earlier.is_blocking |= blocks_next_backup(backup.status.phase());
    };
    context.objects.visit(&selector, visitor).await?;
    Ok(earlier)
}

/// The backup a schedule makes.
fn backup_of(schedule: &Schedule, now: Timestamp) -> Backup {
    let backup_name = backup_name(name(schedule), &now.to_zoned(TimeZone::UTC));
    let namespace = metadata::namespace(schedule);
    let mut backup = Backup::new(namespace, &backup_name, schedule.spec.template.clone());
    backup.metadata.labels = Some(backup_labels(schedule));
    let mut annotations = backup_annotations(schedule).unwrap_or_default();
    annotations.insert(SCHEDULED_BY.to_owned(), uid(schedule).to_owned());
    backup.metadata.annotations = Some(annotations);
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
        assert_eq!(metadata::annotation(&backup, SCHEDULED_BY), "u");
        assert_eq!(made_when_due(&backup, &schedule, now, now), Some(now), "who looks for it finds it");
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
    fn what_changes_about_a_schedule_is_told_once() {
        let now = at("2026-03-04T05:06:07Z");
        let (new, bad) = (schedule("every day"), validated(&schedule("every day"), false, now));
        let refused = told(&new.status, &bad.status).unwrap();
        assert!(refused.is_warning && refused.note.contains("invalid schedule"), "{refused:?}");
        assert_eq!(told(&bad.status, &validated(&bad, false, now).status), None);
        let good = validated(&schedule("@hourly"), false, now);
        assert_eq!(told(&new.status, &good.status), None);
        let skipped = validated(&schedule("@hourly"), true, now);
        assert_eq!(told(&new.status, &skipped.status).unwrap().reason, "BackupSkipped");
        assert_eq!(
            (good.status.conditions[0].status.as_str(), bad.status.conditions[0].status.as_str()),
            ("True", "False")
        );
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

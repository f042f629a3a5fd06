//! Whether schedules go on making backups.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Look;
use super::look::has_ended;
use crate::torture::workload::name_of;

/// How long a schedule of every minute may make no backup although none of its own holds it up: it is looked at a minute after it
/// was held up last, and then one is due.
const LONGEST: SignedDuration = SignedDuration::from_mins(3);

/// Schedules that make no backups.
pub(super) fn find(look: &Look, now: Timestamp) -> Vec<String> {
    look.schedules.iter().filter_map(|schedule| idle(schedule, &look.backups, now)).collect()
}

/// What is to be said of a schedule that has made no backup for too long.
fn idle(schedule: &Value, backups: &[Value], now: Timestamp) -> Option<String> {
    let (name, metadata, status) = (name_of(schedule), &schedule["metadata"], &schedule["status"]);
    if schedule["spec"]["paused"] == true || metadata["deletionTimestamp"].is_string() {
        return None;
    }
    let is_own = |backup: &&Value| backup["metadata"]["labels"]["velero.io/schedule-name"] == name;
    let own: Vec<&Value> = backups.iter().filter(is_own).collect();
    // It holds up the next one, and is found to be unfinished itself.
    if own.iter().any(|backup| !has_ended(backup)) {
        return None;
    }
    // The last one may have been deleted, then the schedule alone tells of it.
    let made = own.iter().map(|backup| &backup["metadata"]["creationTimestamp"]).chain([&status["lastBackup"]]);
    let made = made.filter_map(moment).max();
    let ended = own.iter().map(|backup| &backup["status"]["completionTimestamp"]);
    let others = ended.chain([&metadata["creationTimestamp"], &status["lastSkipped"]]).filter_map(moment);
    let since = others.chain(made).max()?;
    if now.duration_since(since) <= LONGEST {
        return None;
    }
    let last = match made {
        Some(made) => format!("the last one was made {} s ago, at {made}", now.duration_since(made).as_secs()),
        None => "it has made none".to_owned(),
    };
    Some(format!("schedule {name} makes no backups, and nothing holds it up since {since}: {last}: {status}"))
}

fn moment(time: &Value) -> Option<Timestamp> {
    time.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::torture::workload::SCHEDULE;

    /// A minute of the hour in which all happens.
    fn at(minute: Option<u32>) -> Value {
        minute.map_or(Value::Null, |minute| json!(format!("2026-03-04T05:{minute:02}:00Z")))
    }

    fn backup(made: u32, ended: Option<u32>) -> Value {
        let labels = json!({"velero.io/schedule-name": SCHEDULE});
        let phase = if ended.is_some() { "Completed" } else { "InProgress" };
        json!({
            "metadata": {"name": "b", "labels": labels, "creationTimestamp": at(Some(made))},
            "status": {"phase": phase, "completionTimestamp": at(ended)},
        })
    }

    #[test]
    fn a_schedule_that_nothing_holds_up_has_made_a_backup_of_late() {
        let now = moment(&at(Some(30))).unwrap();
        for (last, backups, is_idle) in [
            (Some(28), vec![], false),
            (Some(26), vec![], true),
            (None, vec![], true),
            (Some(20), vec![backup(20, Some(21)), backup(28, Some(29))], false),
            (Some(20), vec![backup(20, Some(21))], true),
            (Some(20), vec![backup(20, Some(28))], false),
            (Some(20), vec![backup(20, None)], false),
        ] {
            let mut schedule = json!({
                "metadata": {"name": SCHEDULE, "creationTimestamp": at(Some(0))},
                "spec": {"paused": false}, "status": {"lastBackup": at(last)},
            });
            let told = idle(&schedule, &backups, now);
            assert_eq!(told.is_some(), is_idle, "{last:?} {backups:?}: {told:?}");
            schedule["spec"]["paused"] = json!(true);
            assert_eq!(idle(&schedule, &backups, now), None);
        }
    }

    #[test]
    fn a_schedule_that_makes_none_is_told_with_its_last_one() {
        let schedule = json!({"metadata": {"name": "s"}, "status": {"lastBackup": at(Some(10))}});
        let told = idle(&schedule, &[], moment(&at(Some(20))).unwrap()).unwrap();
        assert!(told.contains("schedule s") && told.contains("600 s ago, at 2026-03-04T05:10:00Z"), "{told}");
    }
}

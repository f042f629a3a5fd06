//! Conditions beside phases, for those who wait for objects: `kubectl wait --for=condition=…`.
//!
//! They say the same as the phase, in the words that Kubernetes has for it, and are made from the status alone: who writes a
//! phase writes them too, so that they cannot disagree.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use velero_api::v1::{Ending, SchedulePhase, Stage};

/// It has begun, or was refused.
pub const STARTED: &str = "Started";
/// It has ended, well or not; the reason is the phase.
pub const ENDED: &str = "Ended";
/// It has ended without errors.
pub const COMPLETED: &str = "Completed";
/// Backups are made when they are due.
pub const ENABLED: &str = "Enabled";
/// The location can be used.
pub const AVAILABLE: &str = "Available";

/// The reasons themselves are in the status already, and are not said twice.
const WHERE_IT_SAYS_WHY: &str = "status.failureReason, status.validationErrors and the results say why";

/// How a question stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    NotYet,
}

impl Answer {
    fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "True",
            Self::No => "False",
            Self::NotYet => "Unknown",
        }
    }
}

/// A condition before it has its time.
struct Said {
    kind: &'static str,
    answer: Answer,
    reason: String,
    message: String,
}

/// The conditions of a backup or restore in a phase.
pub fn of_work(known: &[Condition], phase: &str, stage: Stage, now: Timestamp) -> Vec<Condition> {
    let (started, ended, completed) = match stage {
        Stage::Pending => (Answer::No, Answer::No, Answer::NotYet),
        Stage::InProgress | Stage::WaitingForOperations | Stage::Finalizing => {
            (Answer::Yes, Answer::No, Answer::NotYet)
        }
        Stage::Ended(Ending::Completed) => (Answer::Yes, Answer::Yes, Answer::Yes),
        Stage::Ended(Ending::PartiallyFailed | Ending::Failed) => (Answer::Yes, Answer::Yes, Answer::No),
        Stage::Ended(Ending::FailedValidation) => (Answer::No, Answer::Yes, Answer::No),
        // How it ended, if it did, stays as it was said.
        Stage::Deleting | Stage::Unknown => return known.to_vec(),
    };
    let message = if ended == Answer::Yes && completed == Answer::No { WHERE_IT_SAYS_WHY } else { "" };
    let said = [(STARTED, started), (ENDED, ended), (COMPLETED, completed)];
    let said = said.map(|(kind, answer)| Said { kind, answer, reason: phase.to_owned(), message: message.to_owned() });
    timed(known, said, now)
}

/// The conditions of a schedule in a phase.
pub fn of_schedule(
    known: &[Condition],
    phase: &SchedulePhase,
    is_paused: bool,
    message: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let (answer, reason) = match phase {
        SchedulePhase::New | SchedulePhase::Enabled if is_paused => (Answer::No, "Paused"),
        SchedulePhase::Enabled => (Answer::Yes, phase.as_str()),
        SchedulePhase::New => (Answer::NotYet, phase.as_str()),
        SchedulePhase::FailedValidation => (Answer::No, phase.as_str()),
        SchedulePhase::Unknown(_) => return known.to_vec(),
    };
    let said = Said { kind: ENABLED, answer, reason: reason.to_owned(), message: message.to_owned() };
    timed(known, [said], now)
}

/// The conditions of a location that was looked at.
pub fn of_location(known: &[Condition], is_available: bool, message: &str, now: Timestamp) -> Vec<Condition> {
    let (answer, reason) = if is_available { (Answer::Yes, "Available") } else { (Answer::No, "Unavailable") };
    timed(known, [Said { kind: AVAILABLE, answer, reason: reason.to_owned(), message: message.to_owned() }], now)
}

/// Gives conditions their times: that of the last change of the answer. Conditions of others stay.
fn timed<const N: usize>(known: &[Condition], said: [Said; N], now: Timestamp) -> Vec<Condition> {
    let others = known.iter().filter(|condition| said.iter().all(|said| said.kind != condition.type_)).cloned();
    let mut all: Vec<Condition> = others.collect();
    for Said { kind, answer, reason, message } in said {
        let before = known.iter().find(|condition| condition.type_ == kind && condition.status == answer.as_str());
        all.push(Condition {
            type_: kind.to_owned(),
            status: answer.as_str().to_owned(),
            reason,
            message,
            last_transition_time: before.map_or(Time(now), |before| before.last_transition_time.clone()),
            observed_generation: None,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{BackupPhase, RestorePhase};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn answers(conditions: &[Condition]) -> Vec<(&str, &str)> {
        conditions.iter().map(|condition| (condition.type_.as_str(), condition.status.as_str())).collect()
    }

    #[test]
    fn every_phase_of_a_backup_or_restore_says_whether_it_began_ended_and_is_complete() {
        let table = [
            (BackupPhase::New, ["False", "False", "Unknown"]),
            (BackupPhase::Queued, ["False", "False", "Unknown"]),
            (BackupPhase::ReadyToStart, ["False", "False", "Unknown"]),
            (BackupPhase::InProgress, ["True", "False", "Unknown"]),
            (BackupPhase::WaitingForPluginOperationsPartiallyFailed, ["True", "False", "Unknown"]),
            (BackupPhase::Finalizing, ["True", "False", "Unknown"]),
            (BackupPhase::Completed, ["True", "True", "True"]),
            (BackupPhase::PartiallyFailed, ["True", "True", "False"]),
            (BackupPhase::Failed, ["True", "True", "False"]),
            (BackupPhase::FailedValidation, ["False", "True", "False"]),
        ];
        for (phase, expected) in table {
            let conditions = of_work(&[], phase.as_str(), phase.stage(), at(1));
            let [started, ended, completed] = expected;
            assert_eq!(answers(&conditions), [(STARTED, started), (ENDED, ended), (COMPLETED, completed)], "{phase}");
            let is_told = conditions.iter().all(|condition| condition.message.contains("say why"));
            assert_eq!(is_told, completed == "False", "{phase}");
            assert!(conditions.iter().all(|condition| condition.reason == phase.as_str()));
        }
        let ended = of_work(&[], "Completed", RestorePhase::Completed.stage(), at(1));
        let deleting = BackupPhase::Deleting;
        assert_eq!(of_work(&ended, deleting.as_str(), deleting.stage(), at(2)), ended);
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let began = of_work(&[], "InProgress", Stage::InProgress, at(1));
        let waits = of_work(&began, "WaitingForPluginOperations", Stage::WaitingForOperations, at(2));
        assert!(waits.iter().all(|condition| condition.last_transition_time.0 == at(1)), "{waits:?}");
        assert!(waits.iter().all(|condition| condition.reason == "WaitingForPluginOperations"));
        let ended = of_work(&waits, "Completed", Stage::Ended(Ending::Completed), at(3));
        let times: Vec<_> = ended.iter().map(|condition| condition.last_transition_time.0).collect();
        assert_eq!(times, [at(1), at(3), at(3)]);
    }

    #[test]
    fn conditions_of_others_stay() {
        let mut known = of_location(&[], true, "", at(1));
        known[0].type_ = "Blessed".to_owned();
        let found = of_location(&known, false, "no such bucket", at(2));
        assert_eq!(answers(&found), [("Blessed", "True"), (AVAILABLE, "False")]);
        assert_eq!((found[1].reason.as_str(), found[1].message.as_str()), ("Unavailable", "no such bucket"));
    }

    #[test]
    fn a_schedule_is_enabled_unless_it_is_paused_or_refused() {
        for (phase, is_paused, answer, reason) in [
            (SchedulePhase::New, false, "Unknown", "New"),
            (SchedulePhase::Enabled, false, "True", "Enabled"),
            (SchedulePhase::Enabled, true, "False", "Paused"),
            (SchedulePhase::New, true, "False", "Paused"),
            (SchedulePhase::FailedValidation, false, "False", "FailedValidation"),
        ] {
            let found = of_schedule(&[], &phase, is_paused, "", at(1));
            assert_eq!(answers(&found), [(ENABLED, answer)], "{phase} {is_paused}");
            assert_eq!(found[0].reason, reason);
        }
    }
}

//! Cancelling a backup or restore by an annotation: in which words somebody asks, and what can be cancelled at all.

use jiff::Timestamp;
use velero_api::v1::Stage;

/// How the reason begins of everything that was cancelled.
const CANCELLED: &str = "cancelled by request";
/// How much is repeated of what somebody wrote.
const MOST_WORDS: usize = 200;

/// Why a backup or restore is cancelled, from the value of its annotation; nothing when nobody asks for it.
pub fn reason(annotation: Option<&str>) -> Option<String> {
    match annotation?.trim() {
        "false" => None,
        "" | "true" => Some(CANCELLED.to_owned()),
        moment if moment.parse::<Timestamp>().is_ok() => Some(format!("{CANCELLED} at {moment}")),
        words => Some(format!("{CANCELLED}: {}", words.chars().take(MOST_WORDS).collect::<String>())),
    }
}

/// Whether a failure reason says that somebody asked for the end.
pub fn is_reason(failure_reason: &str) -> bool {
    failure_reason.starts_with(CANCELLED)
}

/// Why a backup or restore cannot be cancelled; nothing when it can.
pub fn obstacle(stage: Stage, is_being_deleted: bool) -> Option<&'static str> {
    match stage {
        _ if is_being_deleted => Some("it is being deleted"),
        Stage::Deleting => Some("it is being deleted"),
        Stage::Ended(_) => Some("it has ended already"),
        Stage::Unknown => Some("its phase is one that this version does not know"),
        Stage::Pending | Stage::InProgress | Stage::WaitingForOperations | Stage::Finalizing => None,
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::Ending;

    use super::*;

    #[test]
    fn the_reason_says_that_a_person_did_it_and_what_they_wrote() {
        for (annotation, expected) in [
            (None, None),
            (Some("false"), None),
            (Some(""), Some("cancelled by request")),
            (Some("true"), Some("cancelled by request")),
            (Some("2026-11-17T02:03:04Z"), Some("cancelled by request at 2026-11-17T02:03:04Z")),
            (Some(" wrong cluster "), Some("cancelled by request: wrong cluster")),
        ] {
            assert_eq!(reason(annotation).as_deref(), expected, "{annotation:?}");
            assert!(expected.is_none_or(is_reason), "{annotation:?}");
        }
        assert!(reason(Some(&"x".repeat(1000))).unwrap().len() < 300);
        assert!(!is_reason("backup execution failed: no space"));
    }

    #[test]
    fn only_what_has_not_ended_and_is_not_going_can_be_cancelled() {
        for (stage, deleted, expected) in [
            (Stage::Pending, false, ""),
            (Stage::InProgress, false, ""),
            (Stage::WaitingForOperations, false, ""),
            (Stage::Finalizing, false, ""),
            (Stage::InProgress, true, "being deleted"),
            (Stage::Deleting, false, "being deleted"),
            (Stage::Ended(Ending::Completed), false, "ended already"),
            (Stage::Ended(Ending::Failed), true, "being deleted"),
            (Stage::Unknown, false, "does not know"),
        ] {
            let found = obstacle(stage, deleted).unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{stage:?} {found}");
        }
    }
}

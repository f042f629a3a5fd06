//! Whether a backup or restore can have the file that somebody asks for.

use velero_api::v1::{DownloadTarget, DownloadTargetKind, Ending, Stage};

/// Why a request names nothing that can be asked for; nothing when it does.
pub fn unknown_target(target: &DownloadTarget) -> Option<String> {
    match &target.kind {
        DownloadTargetKind::Unknown(kind) => {
            let known: Vec<&str> = DownloadTargetKind::ALL.iter().map(DownloadTargetKind::as_str).collect();
            Some(format!("spec.target.kind {kind:?} is unknown, use one of {}", known.join(", ")))
        }
        _ if target.name.is_empty() => Some("spec.target.name is empty; name a backup or restore".to_owned()),
        _ => None,
    }
}

/// Why a backup or restore has no files at all; nothing when it may have some. `owner` is `backup` or `restore`.
pub fn no_files(owner: &str, name: &str, phase: &str, stage: Stage) -> Option<String> {
    let remedy = match stage {
        Stage::Pending => "ask again when it has begun".to_owned(),
        Stage::Ended(Ending::FailedValidation) => {
            format!("it was refused before it began, `velero {owner} describe {name}` says why")
        }
        Stage::InProgress
        | Stage::WaitingForOperations
        | Stage::Finalizing
        | Stage::Ended(Ending::Completed | Ending::PartiallyFailed | Ending::Failed)
        | Stage::Deleting
        | Stage::Unknown => return None,
    };
    Some(format!("{owner} {name:?} is {phase} and has no files: {remedy}"))
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{BackupPhase, RestorePhase};

    use super::*;

    #[test]
    fn only_what_never_began_has_no_files() {
        let table = [
            (BackupPhase::New, Some("ask again when it has begun")),
            (BackupPhase::Queued, Some("ask again")),
            (BackupPhase::ReadyToStart, Some("ask again")),
            (BackupPhase::FailedValidation, Some("`velero backup describe b` says why")),
            (BackupPhase::InProgress, None),
            (BackupPhase::WaitingForPluginOperations, None),
            (BackupPhase::FinalizingPartiallyFailed, None),
            (BackupPhase::Completed, None),
            (BackupPhase::PartiallyFailed, None),
            (BackupPhase::Failed, None),
            (BackupPhase::Deleting, None),
            (BackupPhase::Unknown("Odd".to_owned()), None),
        ];
        for (phase, expected) in table {
            let found = no_files("backup", "b", phase.as_str(), phase.stage());
            let is_said = found.as_ref().zip(expected).is_some_and(|(found, expected)| found.contains(expected));
            assert!(found.is_none() == expected.is_none() && (expected.is_none() || is_said), "{phase}: {found:?}");
        }
        let refused = RestorePhase::FailedValidation;
        let found = no_files("restore", "r", refused.as_str(), refused.stage()).unwrap();
        assert!(found.starts_with("restore \"r\" is FailedValidation and has no files"), "{found}");
    }

    #[test]
    fn a_target_needs_a_kind_and_a_name() {
        let target = |kind: &str, name: &str| DownloadTarget {
            kind: DownloadTargetKind::from(kind),
            name: name.to_owned(),
            ..DownloadTarget::default()
        };
        assert_eq!(unknown_target(&target("BackupLog", "b")), None);
        assert!(unknown_target(&target("BackupLog", "")).unwrap().contains("spec.target.name"));
        let unknown = unknown_target(&target("BackupLogs", "b")).unwrap();
        assert!(unknown.contains("\"BackupLogs\" is unknown") && unknown.contains("RestoreResults"), "{unknown}");
    }
}

//! What Events say about an object to those who look at it with `kubectl describe`.

use velero_api::v1::{Ending, Stage};

/// The longest note that the API server takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// What an Event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Whether somebody should look at it.
    pub is_warning: bool,
    /// One word in camel case; for backups and restores it is the phase.
    pub reason: String,
    /// What happened, and what to do where something is to be done.
    pub note: String,
}

impl Told {
    /// What went as it should.
    pub fn normal(reason: &str, note: impl AsRef<str>) -> Self {
        Self { is_warning: false, reason: reason.to_owned(), note: shortened(note.as_ref()) }
    }

    /// What somebody should look at.
    pub fn warning(reason: &str, note: impl AsRef<str>) -> Self {
        Self { is_warning: true, reason: reason.to_owned(), note: shortened(note.as_ref()) }
    }
}

/// How a backup or restore stands, as its status says.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// `backup` or `restore`.
    pub word: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its phase.
    pub phase: &'a str,
    /// How far that is.
    pub stage: Stage,
    /// How many errors it has.
    pub errors: i64,
    /// How many warnings it has.
    pub warnings: i64,
    /// Why it failed, if it did.
    pub failure_reason: &'a str,
    /// Why it was refused, if it was.
    pub validation_errors: &'a [String],
}

/// What is told of a backup or restore that has begun or ended; nothing at other moments.
pub fn of_work(standing: Standing<'_>) -> Option<Told> {
    let Standing { word, name, phase, errors, warnings, .. } = standing;
    let counts = format!("{errors} errors and {warnings} warnings");
    let remedy = format!("`velero {word} describe {name}` says more");
    let ending = match standing.stage {
        Stage::InProgress => return Some(Told::normal("Started", format!("the {word} has begun"))),
        Stage::Ended(ending) => ending,
        Stage::Pending | Stage::WaitingForOperations | Stage::Finalizing | Stage::Deleting | Stage::Unknown => {
            return None;
        }
    };
    Some(match ending {
        Ending::Completed if warnings > 0 => {
            Told::normal(phase, format!("the {word} has ended without errors, with {warnings} warnings; {remedy}"))
        }
        Ending::Completed => Told::normal(phase, format!("the {word} has ended without errors")),
        Ending::PartiallyFailed => Told::warning(phase, format!("the {word} has ended with {counts}; {remedy}")),
        Ending::Failed => Told::warning(phase, format!("the {word} has failed: {}; {remedy}", standing.failure_reason)),
        Ending::FailedValidation => {
            Told::warning(phase, format!("the {word} was refused: {}", standing.validation_errors.join("; ")))
        }
    })
}

fn shortened(note: &str) -> String {
    const MORE: &str = " …";
    if note.len() <= LONGEST_NOTE {
        return note.to_owned();
    }
    let end = note.floor_char_boundary(LONGEST_NOTE - MORE.len());
    format!("{}{MORE}", &note[..end])
}

#[cfg(test)]
mod tests {
    use velero_api::v1::BackupPhase;

    use super::*;

    fn told(phase: &BackupPhase, errors: i64, warnings: i64) -> Option<Told> {
        of_work(Standing {
            word: "backup",
            name: "b",
            phase: phase.as_str(),
            stage: phase.stage(),
            errors,
            warnings,
            failure_reason: "no such bucket",
            validation_errors: &["one".to_owned(), "two".to_owned()],
        })
    }

    #[test]
    fn the_beginning_and_every_end_is_told_with_the_remedy() {
        for (phase, counts, is_warning, reason, note) in [
            (BackupPhase::InProgress, (0, 0), false, "Started", "the backup has begun"),
            (BackupPhase::Completed, (0, 0), false, "Completed", "the backup has ended without errors"),
            (
                BackupPhase::Completed,
                (0, 2),
                false,
                "Completed",
                "the backup has ended without errors, with 2 warnings; `velero backup describe b` says more",
            ),
            (
                BackupPhase::PartiallyFailed,
                (3, 1),
                true,
                "PartiallyFailed",
                "the backup has ended with 3 errors and 1 warnings; `velero backup describe b` says more",
            ),
            (
                BackupPhase::Failed,
                (1, 0),
                true,
                "Failed",
                "the backup has failed: no such bucket; `velero backup describe b` says more",
            ),
            (BackupPhase::FailedValidation, (0, 0), true, "FailedValidation", "the backup was refused: one; two"),
        ] {
            let expected = Told { is_warning, reason: reason.to_owned(), note: note.to_owned() };
            assert_eq!(told(&phase, counts.0, counts.1), Some(expected), "{phase}");
        }
        for quiet in [BackupPhase::New, BackupPhase::Queued, BackupPhase::Finalizing, BackupPhase::Deleting] {
            assert_eq!(told(&quiet, 0, 0), None, "{quiet}");
        }
    }

    #[test]
    fn a_note_is_never_longer_than_the_api_server_takes() {
        let long = Told::warning("Failed", "é".repeat(2000));
        assert!(long.note.len() <= LONGEST_NOTE && long.note.ends_with(" …"), "{}", long.note.len());
        assert_eq!(Told::normal("Started", "short").note, "short");
    }
}

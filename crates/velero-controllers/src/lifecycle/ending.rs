//! How a backup or restore ends.

use crate::lifecycle::cancellation::requested;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::phase::move_to;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::error::Result;
use crate::runtime::ownership::End;
use velero_api::metadata::name;

/// The phase in which one ends that only has to be finished.
pub(crate) fn end_phase<K: Kind>(phase: &K::Phase, has_errors: bool) -> K::Phase {
    if *phase == K::FINALIZING && !has_errors { K::COMPLETED } else { K::PARTIALLY_FAILED }
}

/// A backup or restore that fails now, and why.
pub(crate) fn failed<K: Kind>(object: &K, reason: String) -> Result<K> {
    ended_in(object, K::FAILED, reason)
}

/// A backup or restore that ends now with errors, and why it could not go on.
pub(crate) fn partially_failed<K: Kind>(object: &K, reason: String) -> Result<K> {
    ended_in(object, K::PARTIALLY_FAILED, reason)
}

fn ended_in<K: Kind>(object: &K, phase: K::Phase, reason: String) -> Result<K> {
    let mut ended = object.clone();
    move_to(&mut ended, phase)?;
    ended.put_failure_reason(reason);
    ended.put_completion(clock::now_time());
    Ok(ended)
}

/// How the end was written of one that was taken into work and nobody works on.
pub(crate) enum LostTrack<K> {
    /// Somebody has it after all.
    Held,
    /// Somebody else has said how it ended, or it is gone.
    Over,
    /// It is written.
    Written(K),
}

/// Ends one that was taken into work and nobody works on: this process has lost it, or a server that led before took it by a
/// write that came after this one began to lead. `note` says what else is written with the end.
pub(crate) async fn lose_track<K: Kind>(
    context: &Context,
    object: &K,
    note: impl FnOnce(&mut K),
) -> Result<LostTrack<K>> {
    let Some(_hold) = K::in_hand(context).busy.enter(name(object)) else { return Ok(LostTrack::Held) };
    let word = K::WORK.word();
    let lost = || match context.holder.has(object) {
        true => format!("the server lost track of the {word}; create a new {word}"),
        false => format!("the server that took the {word} into work is gone; create a new {word}"),
    };
    let mut failed = failed(object, requested(object).unwrap_or_else(lost))?;
    note(&mut failed);
    Ok(match context.write_end(object, &failed).await? {
        End::Written(written) => LostTrack::Written(written),
        End::Gone | End::TakenOver(_) => LostTrack::Over,
    })
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase};

    use super::*;

    #[test]
    fn one_completes_only_if_nothing_went_wrong_on_the_way() {
        use RestorePhase::{Completed, Finalizing, FinalizingPartiallyFailed, PartiallyFailed};
        for (phase, has_errors, expected) in [
            (Finalizing, false, Completed),
            (Finalizing, true, PartiallyFailed),
            (FinalizingPartiallyFailed, false, PartiallyFailed),
            (FinalizingPartiallyFailed, true, PartiallyFailed),
        ] {
            assert_eq!(end_phase::<Restore>(&phase, has_errors), expected, "{phase} {has_errors}");
        }
        assert_eq!(end_phase::<Backup>(&BackupPhase::Finalizing, false), BackupPhase::Completed);
        let bad = BackupPhase::FinalizingPartiallyFailed;
        assert_eq!(end_phase::<Backup>(&bad, false), BackupPhase::PartiallyFailed);
    }

    #[test]
    fn one_that_fails_says_why_and_when() {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.status.phase = Some(BackupPhase::InProgress);
        let ended = failed(&backup, "no space".to_owned()).unwrap();
        assert_eq!(*ended.status.phase(), BackupPhase::Failed);
        assert_eq!(ended.status.failure_reason, "no space");
        assert!(ended.status.completion_timestamp.is_some());
        assert!(partially_failed(&ended, String::new()).is_err(), "what has ended stays as it is");
    }
}

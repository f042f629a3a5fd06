//! Who works on a backup or restore, and writing how it goes on: only who has it does.
//!
//! A server signs what it takes into work with an identity of its own, as holders of a Lease do; the signature goes when
//! the phase InProgress does. An end is written only onto an object that still has the UID, the phase and the holder it
//! had in the hands of the writer. Somebody may have failed, deleted or made it again since.

use serde_json::Value;
use velero_api::annotations::HOLDER_IDENTITY;
use velero_api::metadata::{annotation, name, uid};
use velero_api::resource::VeleroResource;
use velero_cluster::{holds_merge_patch, merge_patch_diff};

use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result};
use crate::runtime::retry::{until_answered, until_answered_or_refused};

/// Whether an object is still what it was in the hands of its holder: the same one, in the same phase.
pub(crate) fn is_still<K: VeleroResource>(found: &K, held: &K) -> bool {
    uid(found) == uid(held)
        && annotation(found, HOLDER_IDENTITY) == annotation(held, HOLDER_IDENTITY)
        && phase(found) == phase(held)
}

fn phase<K: VeleroResource>(object: &K) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    object.pointer_mut("/status/phase").map(Value::take).unwrap_or_default()
}

/// Whether the change from one state to another has been written.
fn is_written<K: VeleroResource>(found: &K, before: &K, after: &K) -> bool {
    let value = |object: &K| serde_json::to_value(object).unwrap_or_default();
    uid(found) == uid(before) && holds_merge_patch(&value(found), &merge_patch_diff(&value(before), &value(after)))
}

/// What became of an end that was to be written.
#[derive(Debug)]
pub(crate) enum End<K> {
    /// It is written.
    Written(K),
    /// The object was deleted, and maybe made again, while the work ran.
    Gone,
    /// Somebody else has said what became of it.
    TakenOver(K),
}

/// Says in the log why an end was not written.
fn tell<K: VeleroResource>(ended: &K, end: &End<K>) {
    let (kind, name) = (K::KIND, name(ended));
    match end {
        End::Written(_) => {}
        End::Gone => tracing::warn!(kind, name, "The object was deleted while its work ran"),
        End::TakenOver(found) => {
            let phase = phase(found);
            tracing::warn!(kind, name, %phase, "Another server has ended the work, so its end here is not written");
        }
    }
}

impl Context {
    /// Takes an object into work: a conflict if it has changed since it was read. As long as no answer says whether it
    /// is taken, it is asked again: nobody else would work on it. A refusal is told after a few tries, for others wait for the turn
    /// of this one.
    pub(crate) async fn take<K: VeleroResource>(&self, before: &K, after: &K) -> Result<K> {
        until_answered_or_refused(&self.stop, name(before), || self.try_to_take(before, after)).await
    }

    async fn try_to_take<K: VeleroResource>(&self, before: &K, after: &K) -> Result<K> {
        match self.objects.patch(before, after).await {
            // It may be the change of an earlier try, of which nobody could learn.
            Err(Error::Cluster(error)) if error.is_conflict() => {
                let found = self.objects.get::<K>(name(before)).await?;
                found.filter(|found| is_written(found, before, after)).ok_or_else(|| error.into())
            }
            taken => taken,
        }
    }

    /// Writes how the work on an object ended, for as long as this process lives.
    pub(crate) async fn write_end<K: VeleroResource>(&self, before: &K, after: &K) -> Result<End<K>> {
        let end = until_answered(&self.stop, name(before), || self.try_end(before, after)).await?;
        tell(before, &end);
        Ok(end)
    }

    /// The same for one of many objects: that the change of one is refused must not keep the others waiting.
    pub(crate) async fn write_end_unless_refused<K: VeleroResource>(&self, before: &K, after: &K) -> Result<End<K>> {
        let end = until_answered_or_refused(&self.stop, name(before), || self.try_end(before, after)).await?;
        tell(before, &end);
        Ok(end)
    }

    async fn try_end<K: VeleroResource>(&self, before: &K, after: &K) -> Result<End<K>> {
        loop {
            let Some(found) = self.objects.get::<K>(name(before)).await? else { return Ok(End::Gone) };
            if uid(&found) != uid(before) {
                return Ok(End::Gone);
            }
            if is_written(&found, before, after) {
                return Ok(End::Written(found));
            }
            if !is_still(&found, before) {
                return Ok(End::TakenOver(found));
            }
            match self.objects.patch_since(&found, before, after).await {
                Err(Error::Cluster(error)) if error.is_not_found() => return Ok(End::Gone),
                // Somebody wrote in between; the next look says what.
                Err(Error::Cluster(error)) if error.is_conflict() => {}
                written => return written.map(End::Written),
            }
        }
    }

    /// Whether an object is still in the hands of this process; waits until the API server says so.
    pub(crate) async fn still_has<K: VeleroResource>(&self, held: &K) -> Result<bool> {
        let found = until_answered(&self.stop, name(held), || self.objects.get::<K>(name(held))).await?;
        Ok(found.is_some_and(|found| is_still(&found, held)))
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{Backup, BackupPhase};

    use super::*;
    use crate::runtime::holder::{Holder, unsign};

    fn backup(uid: &str, holder: &str, phase: BackupPhase) -> Backup {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.uid = Some(uid.to_owned());
        Holder::named(holder).sign(&mut backup);
        backup.status.phase = Some(phase);
        backup
    }

    #[test]
    fn an_object_is_still_ours_with_its_uid_its_holder_and_its_phase() {
        use BackupPhase::{Failed, InProgress};
        let held = backup("1", "us", InProgress);
        for (found, expected) in [
            (backup("1", "us", InProgress), true),
            (backup("2", "us", InProgress), false),
            (backup("1", "them", InProgress), false),
            (backup("1", "us", Failed), false),
        ] {
            assert_eq!(is_still(&found, &held), expected, "{found:?}");
        }
    }

    #[test]
    fn an_end_whose_answer_was_lost_is_known_again() {
        let before = backup("1", "us", BackupPhase::InProgress);
        let mut after = backup("1", "us", BackupPhase::Completed);
        unsign(&mut after);
        after.status.errors = 2;
        assert!(is_written(&after, &before, &after));
        assert!(!is_written(&before, &before, &after));
        let mut failed = after.clone();
        failed.status.phase = Some(BackupPhase::Failed);
        assert!(!is_written(&failed, &before, &after));
        let mut again = after.clone();
        again.metadata.uid = Some("2".to_owned());
        assert!(!is_written(&again, &before, &after), "made again under the same name");
    }
}

//! Who works on a backup or restore, and writing how it goes on: only who has it does.
//!
//! A server signs what it takes into work with an identity of its own, as holders of a Lease do; the signature goes when
//! the phase InProgress does. An end is written only onto an object that still has the UID, the phase and the holder it
//! had in the hands of the writer. Somebody may have failed, deleted or made it again since.

use std::time::Duration;

use kube::Resource;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use velero_api::annotations::HOLDER_IDENTITY;
use velero_api::resource::VeleroResource;
use velero_cluster::{Error as ClusterError, holds_merge_patch, merge_patch_diff};

use crate::context::Context;
use crate::error::{Error, Result, describe};
use crate::objects::{annotation, name, uid};

/// The first and the longest pause until something is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// How often something is tried once the server is told to end.
const LAST_TRIES: usize = 4;

/// The identity of this process.
pub(crate) struct Holder(String);

impl Default for Holder {
    fn default() -> Self {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "velero".to_owned());
        Self(format!("{host}_{}", uuid::Uuid::new_v4()))
    }
}

impl Holder {
    pub(crate) fn identity(&self) -> &str {
        &self.0
    }

    /// Signs an object that this process takes into work.
    pub(crate) fn sign<K: Resource>(&self, object: &mut K) {
        let annotations = object.meta_mut().annotations.get_or_insert_default();
        annotations.insert(HOLDER_IDENTITY.to_owned(), self.0.clone());
    }

    /// Whether an object was taken into work by this process.
    pub(crate) fn has<K: Resource>(&self, object: &K) -> bool {
        annotation(object, HOLDER_IDENTITY) == self.0
    }
}

/// Takes the signature off an object.
pub(crate) fn unsign<K: Resource>(object: &mut K) {
    if let Some(annotations) = &mut object.meta_mut().annotations {
        annotations.remove(HOLDER_IDENTITY);
    }
}

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

impl Context {
    /// Takes an object into work: a conflict if it has changed since it was read. As long as no answer says whether it
    /// is claimed, it is asked again: nobody else would work on it.
    pub(crate) async fn claim<K: VeleroResource>(&self, before: &K, after: &K) -> Result<K> {
        until_answered(&self.stop, name(before), || self.objects.patch(before, after)).await
    }

    /// Writes how the work on an object ended, for as long as this process lives.
    pub(crate) async fn write_end<K: VeleroResource>(&self, before: &K, after: &K) -> Result<End<K>> {
        let end = until_answered(&self.stop, name(before), || self.try_end(before, after)).await?;
        let (kind, name) = (K::KIND, name(before));
        match &end {
            End::Written(_) => {}
            End::Gone => tracing::warn!(kind, name, "The object was deleted while its work ran"),
            End::TakenOver(found) => {
                let phase = phase(found);
                tracing::warn!(kind, name, %phase, "Another server has ended the work, so its end here is not written");
            }
        }
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

/// Tries something until it is known what came of it; a refusal is an answer.
async fn until_answered<T, F: Future<Output = Result<T>>>(
    stop: &CancellationToken,
    name: &str,
    attempt: impl Fn() -> F,
) -> Result<T> {
    let mut pause = PAUSES.0;
    let mut tries_left = LAST_TRIES;
    loop {
        let error = match attempt().await {
            Err(error) if may_pass(&error) => error,
            outcome => return outcome,
        };
        if stop.is_cancelled() {
            tries_left -= 1;
            pause = PAUSES.0;
        }
        if tries_left == 0 {
            return Err(error);
        }
        tracing::warn!(
            name,
            error = describe(&error),
            "It is not known yet whether a change was written; trying again"
        );
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled(), if tries_left == LAST_TRIES => {}
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

fn may_pass(error: &Error) -> bool {
    let Error::Cluster(error) = error else { return false };
    error.is_unanswered() || matches!(error, ClusterError::TooManyRequests(_) | ClusterError::Forbidden(_))
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{Backup, BackupPhase};

    use super::*;

    fn backup(uid: &str, holder: &str, phase: BackupPhase) -> Backup {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.uid = Some(uid.to_owned());
        Holder(holder.to_owned()).sign(&mut backup);
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

    #[test]
    fn every_process_is_another_holder() {
        let (one, other) = (Holder::default(), Holder::default());
        let mut backup = Backup::new("velero", "b", Default::default());
        assert!(!one.has(&backup));
        one.sign(&mut backup);
        assert!(one.has(&backup) && !other.has(&backup));
        unsign(&mut backup);
        assert!(!one.has(&backup));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_answered_is_tried_until_it_is_and_a_few_times_once_the_server_ends() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let unanswered =
            || Error::Cluster(ClusterError::Unreachable { action: "x".to_owned(), source: "reset".into() });
        let (stop, tries) = (CancellationToken::new(), AtomicUsize::new(0));
        let outcome = until_answered(&stop, "b", || async {
            if tries.fetch_add(1, Ordering::SeqCst) < 40 { Err(unanswered()) } else { Ok(7) }
        });
        assert_eq!(outcome.await.unwrap(), 7);
        stop.cancel();
        tries.store(0, Ordering::SeqCst);
        let outcome: Result<()> = until_answered(&stop, "b", || async {
            tries.fetch_add(1, Ordering::SeqCst);
            Err(unanswered())
        })
        .await;
        assert!(outcome.is_err());
        assert_eq!(tries.load(Ordering::SeqCst), LAST_TRIES);
    }
}

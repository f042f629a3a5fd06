//! The object that asks for the transfer: whether it may begin, and whether it is still wanted.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::runtime::watcher;
use tokio::time::{Instant, timeout_at};
use velero_api::DataMovePhase;
use velero_api::metadata::uid;
use velero_cluster::watched_object;

use crate::mover::kind::Transferred;
use crate::runtime::error::{Error, describe};
use crate::runtime::objects::Objects;

/// How long one may wait for its turn behind others on its node. Who waits no longer cancels it, which ends the wait.
const LONGEST_QUEUE: Duration = Duration::from_secs(24 * 3600);

type States<K> = Pin<Box<dyn Stream<Item = watcher::Result<Option<K>>> + Send>>;

/// Follows one object.
pub(super) struct Follower<K> {
    name: String,
    /// The node whose agent lets it begin.
    node: String,
    states: States<K>,
    /// The UID it was first seen with.
    uid: Option<String>,
    /// Why it could last not be read.
    trouble: Option<String>,
}

/// Why a transfer does not begin.
#[derive(Debug)]
pub(super) enum NotBegun {
    /// Nobody wants it any more.
    Unwanted(String),
    /// Nobody let it begin in time.
    Late(Error),
}

/// What the state of an object means for the transfer.
#[derive(Debug, PartialEq, Eq)]
enum Sight {
    /// Others have to do something first.
    Wait,
    /// It has its turn as soon as others are done.
    Queued,
    /// Data may move.
    Begin,
    /// It is not wanted any more; why.
    Stop(String),
}

/// What a state means to a mover that has seen the object with a UID before.
fn judge<K: Transferred>(name: &str, state: Option<&K>, seen: Option<&str>) -> Sight {
    let of = format!("{} {name:?}", K::KIND);
    let stop = |what: &str| Sight::Stop(format!("{of} {what}"));
    let Some(object) = state else {
        return if seen.is_some() { stop("was deleted meanwhile") } else { Sight::Wait };
    };
    if seen.is_some_and(|seen| seen != uid(object)) {
        return stop("was deleted meanwhile, another has its name now");
    }
    if object.is_cancelled() {
        return stop("is to be cancelled (spec.cancel)");
    }
    match object.phase() {
        DataMovePhase::InProgress => Sight::Begin,
        DataMovePhase::Prepared => Sight::Queued,
        DataMovePhase::Canceling => stop("is being cancelled"),
        phase if phase.is_terminal() => stop(&format!("has ended already and is {phase}")),
        _ => Sight::Wait,
    }
}

impl<K: Transferred> Follower<K> {
    pub(super) fn new(objects: &Objects, name: &str, node: &str) -> Self {
        let states = watched_object(objects.api::<K>(), name);
        Self { name: name.to_owned(), node: node.to_owned(), states: Box::pin(states), uid: None, trouble: None }
    }

    /// The next state; waits for ever where none comes.
    async fn next(&mut self) -> Option<K> {
        loop {
            match self.states.next().await {
                Some(Ok(state)) => {
                    self.trouble = None;
                    return state;
                }
                Some(Err(error)) => {
                    let trouble = describe(&error);
                    tracing::warn!(kind = K::KIND, name = self.name, error = trouble, "The object cannot be watched");
                    self.trouble = Some(trouble);
                }
                None => std::future::pending().await,
            }
        }
    }

    /// The object, once its data may move.
    pub(super) async fn until_begun(&mut self, patience: Duration) -> Result<K, NotBegun> {
        let mut end = Instant::now() + patience;
        loop {
            let Ok(state) = timeout_at(end, self.next()).await else {
                return Err(NotBegun::Late(self.late(patience)));
            };
            let sight = judge(&self.name, state.as_ref(), self.uid.as_deref());
            if let (None, Some(object)) = (&self.uid, &state) {
                self.uid = Some(uid(object).to_owned());
            }
            match (sight, state) {
                (Sight::Begin, Some(object)) => return Ok(object),
                (Sight::Stop(why), _) => return Err(NotBegun::Unwanted(why)),
                (Sight::Queued, _) => end = Instant::now() + LONGEST_QUEUE,
                _ => {}
            }
        }
    }

    /// Why the transfer is not wanted any more, once it is not. May be dropped and called again.
    pub(super) async fn until_unwanted(&mut self) -> String {
        loop {
            let state = self.next().await;
            if let Sight::Stop(why) = judge(&self.name, state.as_ref(), self.uid.as_deref()) {
                return why;
            }
        }
    }

    fn late(&self, patience: Duration) -> Error {
        let seen = match (&self.uid, &self.trouble) {
            (_, Some(trouble)) => format!("it cannot be read: {trouble}"),
            (None, None) => "it was never seen".to_owned(),
            (Some(_), None) => format!(
                "the node agent of node {:?} lets it begin: see that one runs there, or keep these pods from that node with \
                 loadAffinity; its log says more",
                self.node
            ),
        };
        let problem =
            format!("it did not become {} within {} s; {seen}", DataMovePhase::InProgress, patience.as_secs());
        Error::unmet(K::KIND, &self.name, problem)
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::PodVolumeBackup;

    use super::*;

    fn object(phase: Option<DataMovePhase>, cancel: bool) -> PodVolumeBackup {
        let mut object = PodVolumeBackup::new("velero", "b-1", Default::default());
        object.metadata.uid = Some("u1".to_owned());
        (object.status.phase, object.spec.cancel) = (phase, cancel);
        object
    }

    #[test]
    fn data_moves_while_its_object_is_in_progress_and_wanted() {
        use DataMovePhase as P;
        for (phase, cancel, expected) in [
            (None, false, Sight::Wait),
            (Some(P::Accepted), false, Sight::Wait),
            (Some(P::Prepared), false, Sight::Queued),
            (Some(P::InProgress), false, Sight::Begin),
        ] {
            assert_eq!(judge("b-1", Some(&object(phase, cancel)), Some("u1")), expected);
        }
        for (phase, cancel, why) in [
            (Some(P::InProgress), true, "spec.cancel"),
            (None, true, "spec.cancel"),
            (Some(P::Canceling), false, "being cancelled"),
            (Some(P::Failed), false, "is Failed"),
            (Some(P::Completed), false, "is Completed"),
        ] {
            let sight = judge("b-1", Some(&object(phase, cancel)), None);
            let Sight::Stop(text) = sight else { panic!("{sight:?}") };
            assert!(text.starts_with("PodVolumeBackup \"b-1\"") && text.contains(why), "{text}");
        }
    }

    #[test]
    fn an_object_that_is_not_there_yet_is_waited_for_and_one_that_is_gone_is_not() {
        assert_eq!(judge::<PodVolumeBackup>("b-1", None, None), Sight::Wait);
        assert!(matches!(judge::<PodVolumeBackup>("b-1", None, Some("u1")), Sight::Stop(_)));
        let other = object(Some(DataMovePhase::InProgress), false);
        assert!(matches!(judge("b-1", Some(&other), Some("u0")), Sight::Stop(_)));
    }
}

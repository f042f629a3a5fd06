//! What runs a reconciler: watch, queue, retry.
//!
//! The watch carries metadata only and the reconciler reads the object when its turn comes. So the memory of an idle
//! server does not grow with what objects hold, and an object that cannot be read stops nobody but itself.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, stream};
use kube::api::PartialObjectMeta;
use kube::runtime::controller::{Action, Config, Error as ControllerError};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::Event;
use kube::runtime::{Controller as Watch, WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, Restore};
use velero_cluster::Error as ClusterError;

use crate::runtime::controller::Controller;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::lock::lock;
use crate::runtime::objects::Objects;

/// The first pause after a failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The shortest time until an object is looked at again.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// The longest time: timers hold only so much, and some backups are kept for decades.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// How soon an object is looked at again that somebody else in this process has.
pub(crate) const WHILE_HELD: Duration = Duration::from_secs(1);

/// How many objects of a kind are read at the same time.
const READS: usize = 32;

/// When an object is to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// When it changes.
    Change,
    /// When it changes, or after this time.
    After(Duration),
}

/// What makes one kind of object become as wanted.
pub(crate) trait Reconciler: Send + Sync + 'static {
    /// The kind that is watched.
    type Kind: VeleroResource;
    /// The controller it is.
    const CONTROLLER: Controller;
    /// How many objects are worked on at the same time; zero means all.
    const CONCURRENCY: u16 = 1;

    /// Does what the object asks for.
    fn reconcile(&self, object: Self::Kind) -> impl Future<Output = Result<Next>> + Send;

    /// Called when an object is gone.
    fn forget(&self, _name: &str) {}

    /// Called with an object that cannot be read, and why.
    fn refuse(&self, _name: &str, _problem: &str) -> impl Future<Output = ()> + Send {
        async {}
    }
}

struct Driver<R> {
    reconciler: R,
    objects: Objects,
    /// Leave to read an object: a server that starts has thousands to look at.
    reads: Semaphore,
    failures: Mutex<HashMap<String, u32>>,
}

/// When a controller begins to reconcile, and when it ends; until it begins it only watches.
#[derive(Clone)]
pub(crate) struct Times {
    /// Cancelled when it is to begin.
    pub(crate) begin: CancellationToken,
    /// Cancelled when it is to end.
    pub(crate) stop: CancellationToken,
}

impl Times {
    /// From now until the token is cancelled.
    pub(crate) fn until(stop: &CancellationToken) -> Self {
        let begin = CancellationToken::new();
        begin.cancel();
        Self { begin, stop: stop.clone() }
    }
}

/// Runs a reconciler until it is told to end and the work in hand is done.
pub(crate) async fn drive<R: Reconciler>(reconciler: R, objects: Objects, times: Times) {
    drive_on(reconciler, objects, stream::pending(), times).await;
}

/// Like [`drive`], and an object is looked at also when its name comes along.
pub(crate) async fn drive_on<R: Reconciler>(
    reconciler: R,
    objects: Objects,
    names: impl Stream<Item = String> + Send + 'static,
    times: Times,
) {
    let Times { begin, stop } = times;
    let namespace = objects.namespace().to_owned();
    let woken = names.map(move |name| ObjectRef::new(&name).within(&namespace));
    let api: Api<PartialObjectMeta<R::Kind>> = Api::namespaced(objects.cluster().client().clone(), objects.namespace());
    let (reader, writer) = reflector::store();
    let changes = watcher(api, watcher::Config::default()).default_backoff().modify(keep_the_name_only).reflect(writer);
    let changes = held_back(changes, reader.clone(), begin);
    let driver = Arc::new(Driver { reconciler, objects, reads: Semaphore::new(READS), failures: Mutex::default() });
    let (seen, told) = (reader.clone(), stop.clone());
    let outcomes = Watch::for_stream(changes, reader)
        .with_config(Config::default().concurrency(R::CONCURRENCY))
        .reconcile_on(woken)
        .graceful_shutdown_on(async move { told.cancelled().await })
        .run(
            |object, driver| async move {
                let name = object.name_any();
                driver.step(&name).instrument(span::<R>(&name)).await
            },
            pause_after_failure,
            driver.clone(),
        );
    tokio::select! {
        () = outcomes.for_each(async |outcome| driver.note(outcome)) => {}
        () = stopped_before_all_was_seen(&seen, &stop) => {}
    }
}

/// What stands in every line of the log that is written while an object is looked at, whatever the level.
fn span<R: Reconciler>(name: &str) -> tracing::Span {
    let controller = R::CONTROLLER.name();
    match R::Kind::KIND {
        Backup::KIND => tracing::error_span!("reconcile", controller, backup = name),
        Restore::KIND => tracing::error_span!("reconcile", controller, restore = name),
        kind => tracing::error_span!("reconcile", controller, kind, name),
    }
}

/// The objects that change, from the beginning on; first of all those that were there before it.
fn held_back<K>(
    events: impl Stream<Item = Seen<K>> + Send + 'static,
    known: reflector::Store<PartialObjectMeta<K>>,
    begin: CancellationToken,
) -> impl Stream<Item = Result<PartialObjectMeta<K>, watcher::Error>> + Send
where
    K: 'static,
    PartialObjectMeta<K>: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let waited = async move {
        let mut events = Box::pin(events);
        // What a list has brought is known when the list is complete.
        let mut is_listing = false;
        loop {
            tokio::select! {
                biased;
                () = begin.cancelled(), if !is_listing => break,
                event = events.next() => match event {
                    Some(Ok(Event::Init)) => is_listing = true,
                    Some(Ok(Event::InitDone)) => is_listing = false,
                    Some(Ok(_)) => {}
                    Some(Err(error)) => tracing::warn!(error = describe(&error), "The watch failed and is begun again"),
                    None => break,
                },
            }
        }
        let known: Vec<_> = known.state().iter().map(|object| Ok((**object).clone())).collect();
        stream::iter(known).chain(events.touched_objects())
    };
    stream::once(waited).flatten()
}

type Seen<K> = Result<Event<PartialObjectMeta<K>>, watcher::Error>;

/// Ends only if the server is told to end before the first list is complete. Until then nothing is reconciled, and the
/// controller would wait for that list for ever.
async fn stopped_before_all_was_seen<K>(seen: &reflector::Store<PartialObjectMeta<K>>, stop: &CancellationToken)
where
    PartialObjectMeta<K>: Resource<DynamicType = ()> + Clone + 'static,
{
    tokio::select! {
        biased;
        _ = seen.wait_until_ready() => std::future::pending().await,
        () = stop.cancelled() => {}
    }
}

fn keep_the_name_only<K>(object: &mut PartialObjectMeta<K>) {
    let metadata = std::mem::take(&mut object.metadata);
    object.metadata.name = metadata.name;
    object.metadata.namespace = metadata.namespace;
    object.metadata.uid = metadata.uid;
    object.metadata.resource_version = metadata.resource_version;
}

type Outcome<K> = Result<(ObjectRef<PartialObjectMeta<K>>, Action), ControllerError<Error, watcher::Error>>;

impl<R: Reconciler> Driver<R> {
    async fn step(&self, name: &str) -> Result<Action> {
        // What waits for its turn takes next to no memory: the work is boxed once it begins.
        let found = {
            let _leave = self.reads.acquire().await;
            self.objects.get::<R::Kind>(name).boxed().await
        };
        let next = match found {
            Ok(None) => Next::Change,
            Ok(Some(object)) => self.reconciler.reconcile(object).boxed().await?,
            Err(Error::Cluster(error @ ClusterError::Unreadable { .. })) => {
                let problem = describe(&error);
                self.reconciler.refuse(name, &problem).await;
                return Err(Error::invalid(R::Kind::KIND, name, problem));
            }
            Err(error) => return Err(error),
        };
        self.failures().remove(name);
        Ok(match next {
            Next::Change => Action::await_change(),
            Next::After(duration) => Action::requeue(duration.clamp(SHORTEST_WAIT, LONGEST_WAIT)),
        })
    }

    fn note(&self, outcome: Outcome<R::Kind>) {
        match outcome {
            Err(ControllerError::ObjectNotFound(object)) => {
                self.failures().remove(&object.name);
                self.reconciler.forget(&object.name);
            }
            Err(ControllerError::QueueError(error)) => {
                tracing::warn!(
                    controller = R::CONTROLLER.name(),
                    error = describe(&error),
                    "The watch failed and is begun again"
                );
            }
            Err(_) | Ok(_) => {}
        }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
        lock(&self.failures)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature the controller asks for")]
fn pause_after_failure<R: Reconciler>(
    object: Arc<PartialObjectMeta<R::Kind>>,
    error: &Error,
    driver: Arc<Driver<R>>,
) -> Action {
    let name = object.name_any();
    let text = describe(error);
    // Somebody else wrote first; the next look at the object sees it.
    if matches!(error, Error::Cluster(error) if error.is_conflict()) {
        return Action::requeue(FIRST_PAUSE);
    }
    tracing::error!(controller = R::CONTROLLER.name(), kind = R::Kind::KIND, name, error = text, "Reconciling failed");
    if error.waits_for_change_of(R::Kind::KIND, &name) {
        return Action::await_change();
    }
    let mut failures = driver.failures();
    let count = failures.entry(name).or_default();
    *count += 1;
    Action::requeue(pause(*count))
}

fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use tokio::sync::mpsc::unbounded_channel;
    use tokio_stream::wrappers::UnboundedReceiverStream;

    #[tokio::test]
    async fn who_begins_later_sees_all_that_was_there_once_a_list_is_complete_and_what_comes_after() {
        let object = |name: &str| {
            let mut object = PartialObjectMeta::<Backup>::default();
            object.metadata.name = Some(name.to_owned());
            object
        };
        let (sender, receiver) = unbounded_channel::<Seen<Backup>>();
        let (known, writer) = reflector::store();
        let begin = CancellationToken::new();
        let events = UnboundedReceiverStream::new(receiver).reflect(writer);
        let mut changes = pin!(held_back(events, known, begin.clone()));
        let send = |event| sender.send(Ok(event)).unwrap();
        let mut next = async || changes.next().await.unwrap().unwrap().metadata.name.unwrap();

        send(Event::Init);
        send(Event::InitApply(object("a")));
        assert!(next().now_or_never().is_none(), "it has not begun");
        begin.cancel();
        assert!(next().now_or_never().is_none(), "the list is not complete");
        send(Event::InitApply(object("b")));
        send(Event::InitDone);
        send(Event::Apply(object("c")));
        let mut names = [next().await, next().await];
        names.sort();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(next().await, "c");
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        assert_eq!(pause(1), Duration::from_millis(500));
        assert_eq!(pause(3), Duration::from_secs(2));
        assert_eq!(pause(40), LONGEST_PAUSE);
    }
}

//! The loop of a controller: what changes is looked at, and what is due is looked at again.
//!
//! Each look is a task of its own. However many objects are due at once, as when a server starts, only as many looks begin as
//! objects may be read at the same time: one that waits is a name in the queue.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use kube::Resource;
use kube::runtime::watcher::{self, Event};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use velero_api::metadata::name;

use crate::runtime::work_queue::{Due, WorkQueue};

/// The shortest time until an object is looked at again.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// The longest time: some backups are kept for decades, and clocks are set.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

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

impl Next {
    /// The moment, if there is one.
    fn due(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Change => None,
            Self::After(duration) => Some(now + duration.clamp(SHORTEST_WAIT, LONGEST_WAIT)),
        }
    }
}

/// When a controller begins to work, and when it ends; until it begins it only watches.
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

/// What a controller does with its objects.
pub(crate) trait Work: Send + Sync + 'static {
    /// How many objects are looked at at the same time; zero means all.
    const AT_ONCE: u16;

    /// Looks at an object. The leave to read is given back once it is read.
    fn look(&self, name: &str, leave: OwnedSemaphorePermit) -> impl Future<Output = Next> + Send;

    /// Those of all objects for which there is nothing to do now, as far as that is known without a look at each.
    fn at_rest(&self) -> impl Future<Output = Vec<(String, Next)>> + Send;

    /// Called when an object is gone.
    fn gone(&self, name: &str);

    /// Called when the watch failed, which is begun again.
    fn watch_failed(&self, error: &watcher::Error);
}

/// Works on the objects that a watch tells of, and on those whose names come along, until it is told to end and the work in
/// hand is done.
pub(crate) async fn work_on<W: Work, K: Resource + Send>(
    work: Arc<W>,
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    names: impl Stream<Item = String> + Send,
    times: Times,
) {
    let mut events = pin!(events);
    let mut names = pin!(names.fuse());
    let reads = Arc::new(Semaphore::new(READS));
    let mut desk = Desk { work, queue: WorkQueue::default(), running: JoinSet::new(), settling: None };
    loop {
        desk.begin_settling();
        let due = desk.next_due();
        tokio::select! {
            biased;
            () = times.stop.cancelled() => break,
            Some(ended) = desk.running.join_next() => desk.take_back(ended),
            () = times.begin.cancelled(), if !desk.queue.has_begun() => desk.queue.begin(),
            event = events.next() => match event {
                Some(event) => desk.take_in(event),
                None => break,
            },
            Some(name) = names.next() => desk.queue.woken(&name, Instant::now()),
            resting = settled(&mut desk.settling) => desk.settle(resting),
            leave = leave_at(due, &reads) => desk.look(leave),
        }
    }
    while let Some(ended) = desk.running.join_next().await {
        drop(looked(ended));
    }
}

type Settling = BoxFuture<'static, Vec<(String, Next)>>;

/// What a controller has before it.
struct Desk<W> {
    work: Arc<W>,
    queue: WorkQueue,
    running: JoinSet<(Arc<str>, Next)>,
    /// Finds out what follows from a list.
    settling: Option<Settling>,
}

impl<W: Work> Desk<W> {
    /// When something is due next, if there is room for another look.
    fn next_due(&self) -> Option<Instant> {
        let has_room = W::AT_ONCE == 0 || self.running.len() < usize::from(W::AT_ONCE);
        self.queue.next_due().filter(|_| has_room)
    }

    fn take_in<K: Resource>(&mut self, event: watcher::Result<Event<K>>) {
        let now = Instant::now();
        match event {
            Ok(Event::Init) => {
                // What is found out now may be older than what the list is going to say.
                self.settling = None;
                self.queue.begin_list();
            }
            Ok(Event::InitApply(object)) => self.queue.listed(name(&object)),
            Ok(Event::InitDone) => self.queue.end_list(now),
            Ok(Event::Apply(object)) => self.queue.changed(name(&object), now),
            Ok(Event::Delete(object)) => self.queue.gone(name(&object), now),
            Err(error) => self.work.watch_failed(&error),
        }
    }

    /// Begins to find out what follows from a list, once there is one.
    fn begin_settling(&mut self) {
        if self.settling.is_none() && self.queue.is_to_be_settled() {
            let work = Arc::clone(&self.work);
            self.settling = Some(async move { work.at_rest().await }.boxed());
        }
    }

    fn settle(&mut self, resting: Vec<(String, Next)>) {
        self.settling = None;
        let now = Instant::now();
        self.queue.settle(resting.into_iter().map(|(name, next)| (name, next.due(now))), now);
    }

    fn look(&mut self, leave: OwnedSemaphorePermit) {
        match self.queue.take(Instant::now()) {
            Some(Due::Object(name)) => {
                let work = Arc::clone(&self.work);
                self.running.spawn(async move {
                    let next = work.look(&name, leave).await;
                    (name, next)
                });
            }
            Some(Due::Gone(name)) => self.work.gone(&name),
            None => {}
        }
    }

    fn take_back(&mut self, ended: Result<(Arc<str>, Next), JoinError>) {
        if let Some((name, next)) = looked(ended) {
            self.queue.give_back(&name, next.due(Instant::now()));
        }
    }
}

/// What came of a look. A panic in it ends the controller, and the server with it.
fn looked(ended: Result<(Arc<str>, Next), JoinError>) -> Option<(Arc<str>, Next)> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(looked) => Some(looked),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_cancelled)) => None,
    }
}

/// Waits until it is found out what follows from a list, if somebody does so.
async fn settled(settling: &mut Option<Settling>) -> Vec<(String, Next)> {
    match settling {
        Some(settling) => settling.await,
        None => pending().await,
    }
}

/// Waits for the moment and then for the leave to read an object.
async fn leave_at(due: Option<Instant>, reads: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    let Some(due) = due else { return pending().await };
    // A timer has whole milliseconds: what is due already does not wait for the next one.
    if due > Instant::now() {
        tokio::time::sleep_until(due).await;
    }
    match Arc::clone(reads).acquire_owned().await {
        Ok(leave) => leave,
        // Nobody closes it.
        Err(_) => pending().await,
    }
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;

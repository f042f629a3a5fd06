//! What is looked at, and how much of it at once.

use futures::stream;
use kube::api::PartialObjectMeta;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use velero_api::v1::Backup;

use super::*;

type Seen = watcher::Result<Event<PartialObjectMeta<Backup>>>;

/// Tells what it looks at.
struct Teller {
    told: UnboundedSender<String>,
    resting: Vec<(String, Next)>,
    /// Whether it never has read an object.
    is_stuck: bool,
}

impl Work for Teller {
    const AT_ONCE: u16 = 0;

    async fn look(&self, name: &str, leave: OwnedSemaphorePermit) -> Next {
        self.told.send(name.to_owned()).unwrap();
        if self.is_stuck {
            pending::<()>().await;
        }
        drop(leave);
        Next::Change
    }

    async fn at_rest(&self) -> Vec<(String, Next)> {
        self.resting.clone()
    }

    fn gone(&self, name: &str) {
        self.told.send(format!("{name} is gone")).unwrap();
    }

    fn watch_failed(&self, error: &watcher::Error) {
        panic!("{error}")
    }
}

/// A controller at work: what a watch tells it, and what it tells.
struct AtWork {
    watch: UnboundedSender<Seen>,
    told: UnboundedReceiver<String>,
}

impl AtWork {
    fn start(resting: &[(&str, Next)], is_stuck: bool, times: Times) -> Self {
        let (sender, told) = unbounded_channel();
        let (watch, events) = unbounded_channel::<Seen>();
        let resting = resting.iter().map(|(name, next)| ((*name).to_owned(), *next)).collect();
        let work = Arc::new(Teller { told: sender, resting, is_stuck });
        tokio::spawn(work_on(work, UnboundedReceiverStream::new(events), stream::pending(), times));
        Self { watch, told }
    }

    fn say(&self, event: Event<PartialObjectMeta<Backup>>) {
        self.watch.send(Ok(event)).unwrap();
    }

    fn list(&self, names: &[&str]) {
        self.say(Event::Init);
        names.iter().for_each(|name| self.say(Event::InitApply(object(name))));
        self.say(Event::InitDone);
    }

    /// All it tells within some seconds, sorted.
    async fn tells(&mut self, within: u64) -> Vec<String> {
        let mut told = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(within);
        while let Ok(Some(name)) = tokio::time::timeout_at(deadline, self.told.recv()).await {
            told.push(name);
        }
        told.sort();
        told
    }
}

fn object(name: &str) -> PartialObjectMeta<Backup> {
    let mut object = PartialObjectMeta::<Backup>::default();
    object.metadata.name = Some(name.to_owned());
    object
}

fn from_now_on() -> Times {
    Times::until(&CancellationToken::new())
}

#[tokio::test(start_paused = true)]
async fn who_begins_later_sees_all_that_was_there_once_a_list_is_complete_and_what_comes_after() {
    let begin = CancellationToken::new();
    let times = Times { begin: begin.clone(), stop: CancellationToken::new() };
    let mut at_work = AtWork::start(&[], false, times);
    at_work.say(Event::Init);
    at_work.say(Event::InitApply(object("a")));
    assert!(at_work.tells(1).await.is_empty(), "it has not begun");
    begin.cancel();
    assert!(at_work.tells(1).await.is_empty(), "the list is not complete");
    at_work.say(Event::InitApply(object("b")));
    at_work.say(Event::InitDone);
    assert_eq!(at_work.tells(1).await, ["a", "b"]);
    at_work.say(Event::Apply(object("c")));
    at_work.say(Event::Delete(object("a")));
    assert_eq!(at_work.tells(1).await, ["a is gone", "c"]);
}

#[tokio::test(start_paused = true)]
async fn however_many_objects_are_due_no_more_looks_begin_than_objects_may_be_read() {
    let mut at_work = AtWork::start(&[], true, from_now_on());
    let names: Vec<_> = (0..10 * READS).map(|number| format!("backup-{number:04}")).collect();
    at_work.list(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(at_work.tells(5).await.len(), READS);
}

#[tokio::test(start_paused = true)]
async fn what_a_list_shows_at_rest_is_looked_at_in_its_time_and_when_it_changes() {
    let resting = [("resting", Next::Change), ("waiting", Next::After(Duration::from_secs(60)))];
    let mut at_work = AtWork::start(&resting, false, from_now_on());
    at_work.list(&["resting", "waiting", "working"]);
    assert_eq!(at_work.tells(50).await, ["working"]);
    assert_eq!(at_work.tells(50).await, ["waiting"]);
    at_work.say(Event::Apply(object("resting")));
    assert_eq!(at_work.tells(1).await, ["resting"]);
    at_work.list(&["resting", "working"]);
    assert_eq!(at_work.tells(1).await, ["waiting is gone", "working"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_told_to_end_before_a_list_is_complete_does_not_wait_for_it() {
    let stop = CancellationToken::new();
    let (told, _kept) = unbounded_channel();
    let (_watch, events) = unbounded_channel::<Seen>();
    let work = Arc::new(Teller { told, resting: Vec::new(), is_stuck: false });
    let working = work_on(work, UnboundedReceiverStream::new(events), stream::pending(), Times::until(&stop));
    stop.cancel();
    assert!(timeout(Duration::from_secs(5), working).await.is_ok());
}

#[test]
fn waits_are_neither_shorter_nor_longer_than_a_timer_is_good_for() {
    let now = Instant::now();
    assert_eq!(Next::Change.due(now), None);
    assert_eq!(Next::After(Duration::ZERO).due(now), Some(now + SHORTEST_WAIT));
    assert_eq!(Next::After(Duration::MAX).due(now), Some(now + LONGEST_WAIT));
}

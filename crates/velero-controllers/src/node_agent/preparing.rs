//! How many transfers this agent prepares ahead of those that move data. Each of them is a pod on a node, and a node holds
//! only so many: those that a kubelet has no room for would fail.
//!
//! The others wait in a queue. Only those at its front look whether there is room: a thousand that all look every other second
//! would keep the API server busy with nothing else.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::node_agent::triggers::Trigger;
use crate::runtime::lock::lock;

/// How many more than can move data at a time.
const AHEAD: usize = 2;
/// How often it is looked at most which of them other agents move by now.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The transfers that this agent has accepted and that do not move data yet; not those that wait for others meanwhile.
pub(crate) struct Preparing {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    uids: HashSet<String>,
    looked: Option<Instant>,
    /// Those that wait, by kind and name, first come first served.
    queue: VecDeque<(Queued, Trigger)>,
}

/// Kind and name of a transfer that waits.
type Queued = (&'static str, String);

/// Whether one more may be prepared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Free,
    Full,
    /// It seems full, and it is time to look which of them are still being prepared.
    Look,
}

impl Preparing {
    /// As many as keep that many at work.
    pub(crate) fn ahead_of(concurrency: usize) -> Self {
        // The ConfigMap may name any number.
        Self { limit: concurrency.saturating_add(AHEAD), state: Mutex::default() }
    }

    pub(crate) fn room(&self, now: Instant) -> Room {
        let mut state = lock(&self.state);
        if state.uids.len() < self.limit {
            return Room::Free;
        }
        if state.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            return Room::Full;
        }
        state.looked = Some(now);
        Room::Look
    }

    pub(crate) fn add(&self, uid: &str) {
        lock(&self.state).uids.insert(uid.to_owned());
    }

    /// One is not prepared any more; those who may come next are woken.
    pub(crate) fn remove(&self, uid: &str) {
        let mut state = lock(&self.state);
        if state.uids.remove(uid) {
            let free = self.limit.saturating_sub(state.uids.len());
            state.queue.iter().take(free).for_each(|(_, trigger)| trigger.pull());
        }
    }

    /// Only these are still being prepared.
    pub(crate) fn keep(&self, still: &HashSet<String>) {
        lock(&self.state).uids.retain(|uid| still.contains(uid));
    }

    /// Whether one that wants to be prepared is to look for room; else it is woken when it has come to the front.
    pub(crate) fn queue(&self, kind: &'static str, name: &str, trigger: impl FnOnce() -> Trigger) -> bool {
        let mut state = lock(&self.state);
        let place = state.place(kind, name).unwrap_or_else(|| {
            state.queue.push_back(((kind, name.to_owned()), trigger()));
            state.queue.len() - 1
        });
        place < self.limit
    }

    /// One does not wait any more; who comes to the front by that is woken.
    pub(crate) fn leave(&self, kind: &'static str, name: &str) {
        let mut state = lock(&self.state);
        let Some(place) = state.place(kind, name) else { return };
        state.queue.remove(place);
        if place < self.limit
            && let Some((_, next)) = state.queue.get(self.limit - 1)
        {
            next.pull();
        }
    }
}

impl State {
    fn place(&self, kind: &str, name: &str) -> Option<usize> {
        self.queue.iter().position(|((other, queued), _)| *other == kind && queued == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_agent::triggers;

    #[test]
    fn there_is_room_for_a_few_more_than_move_data_and_who_is_gone_makes_room() {
        let (preparing, now) = (Preparing::ahead_of(1), Instant::now());
        for uid in ["a", "b", "c"] {
            assert_eq!(preparing.room(now), Room::Free, "{uid}");
            preparing.add(uid);
        }
        assert_eq!(preparing.room(now), Room::Look);
        assert_eq!(preparing.room(now), Room::Full, "it was looked just now");
        preparing.keep(&["b", "c", "x"].map(str::to_owned).into());
        assert_eq!(preparing.room(now), Room::Free);
        preparing.add("d");
        assert_eq!(preparing.room(now + LOOK_EVERY), Room::Look);
        preparing.remove("b");
        assert_eq!(preparing.room(now), Room::Free);
    }

    #[test]
    fn a_number_that_no_node_could_move_is_no_limit() {
        let preparing = Preparing::ahead_of(usize::MAX);
        ["a", "b", "c"].into_iter().for_each(|uid| preparing.add(uid));
        assert_eq!(preparing.room(Instant::now()), Room::Free);
    }

    #[test]
    fn of_a_thousand_that_wait_only_those_at_the_front_look_and_who_comes_there_is_woken() {
        let preparing = Preparing::ahead_of(1);
        let (source, mut woken) = triggers::channel();
        let queue = |name: &str| preparing.queue("PodVolumeRestore", name, || source.trigger(name));
        let names: Vec<String> = (0..1000).map(|number| format!("r-{number}")).collect();
        let looking: Vec<&String> = names.iter().filter(|name| queue(name)).collect();
        assert_eq!(looking, ["r-0", "r-1", "r-2"]);
        assert!(queue("r-1") && !queue("r-3"), "whoever asks again keeps the place");
        preparing.leave("PodVolumeRestore", "r-1");
        assert_eq!(woken.try_recv().unwrap(), "r-3");
        preparing.leave("PodVolumeRestore", "r-7");
        preparing.leave("DataDownload", "r-0");
        assert!(woken.try_recv().is_err(), "nobody came to the front");
        assert!(queue("r-3") && !queue("r-4") && !queue("r-1"), "who comes back is the last");
        ["a", "b", "c"].into_iter().for_each(|uid| preparing.add(uid));
        preparing.remove("x");
        assert!(woken.try_recv().is_err(), "nobody was woken for nothing");
        preparing.remove("a");
        assert_eq!((woken.try_recv().unwrap().as_str(), woken.try_recv().is_err()), ("r-0", true));
    }
}

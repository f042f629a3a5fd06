//! How many transfers this agent prepares ahead of those that move data. Each of them is a pod on a node, and a node holds
//! only so many: those that a kubelet has no room for would fail.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::runtime::lock::lock;

/// How many more than can move data at a time.
const AHEAD: usize = 2;
/// How often it is looked at most which of them other agents move by now.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The transfers that this agent has accepted and that do not move data yet.
pub(crate) struct Preparing {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    uids: HashSet<String>,
    looked: Option<Instant>,
}

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
        Self { limit: concurrency + AHEAD, state: Mutex::default() }
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

    pub(crate) fn remove(&self, uid: &str) {
        lock(&self.state).uids.remove(uid);
    }

    /// Only these are still being prepared.
    pub(crate) fn keep(&self, still: &HashSet<String>) {
        lock(&self.state).uids.retain(|uid| still.contains(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

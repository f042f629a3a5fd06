//! How many transfers move data on this node at a time.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use crate::node_agent::triggers::Trigger;
use crate::runtime::lock::lock;

/// The slots of this node, shared by all kinds.
pub(crate) struct Slots {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The UIDs of those that move data.
    held: HashSet<String>,
    /// Those that wait, first come first served.
    waiting: VecDeque<(String, Trigger)>,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// Takes a slot; if there is none, the trigger is pulled when one is given back. Whoever holds one keeps it.
    pub(crate) fn take(&self, uid: &str, trigger: impl FnOnce() -> Trigger) -> bool {
        let mut state = lock(&self.state);
        if state.held.contains(uid) {
            return true;
        }
        let free = self.limit.saturating_sub(state.held.len());
        let place = state.waiting.iter().position(|(waiting, _)| waiting == uid);
        if place.unwrap_or(state.waiting.len()) < free {
            place.map(|place| state.waiting.remove(place));
            state.held.insert(uid.to_owned());
            return true;
        }
        if place.is_none() {
            state.waiting.push_back((uid.to_owned(), trigger()));
        }
        false
    }

    /// Takes a slot for one that moves data already, whatever the limit.
    pub(crate) fn hold(&self, uid: &str) {
        let mut state = lock(&self.state);
        if state.held.insert(uid.to_owned()) {
            state.waiting.retain(|(waiting, _)| waiting != uid);
        }
    }

    /// Gives back what one held or waited for, and wakes those who may come next.
    pub(crate) fn give_back(&self, uid: &str) {
        let mut state = lock(&self.state);
        let waited = state.waiting.len();
        state.waiting.retain(|(waiting, _)| waiting != uid);
        if !state.held.remove(uid) && waited == state.waiting.len() {
            return;
        }
        let free = self.limit.saturating_sub(state.held.len());
        state.waiting.iter().take(free).for_each(|(_, trigger)| trigger.pull());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_agent::triggers;

    #[test]
    fn those_who_wait_come_in_their_order_and_are_woken() {
        let slots = Slots::new(1);
        let (source, mut woken) = triggers::channel();
        let take = |uid: &str| slots.take(uid, || source.trigger(uid));
        assert!(take("a") && take("a"), "whoever holds a slot keeps it");
        assert!(!take("b") && !take("c") && !take("b"));
        slots.give_back("a");
        assert_eq!(woken.try_recv().unwrap(), "b");
        assert!(!take("c"), "b was first");
        assert!(take("b"));
        slots.give_back("x");
        assert!(woken.try_recv().is_err(), "nobody was woken for nothing");
        slots.give_back("b");
        assert_eq!(woken.try_recv().unwrap(), "c");
        slots.give_back("c");
        assert!(take("d"), "c no longer waits");
    }

    #[test]
    fn what_moves_already_counts_beyond_the_limit() {
        let slots = Slots::new(1);
        let (source, _woken) = triggers::channel();
        slots.hold("a");
        slots.hold("b");
        assert!(!slots.take("c", || source.trigger("c")));
        slots.give_back("a");
        assert!(!slots.take("c", || source.trigger("c")));
        slots.give_back("b");
        assert!(slots.take("c", || source.trigger("c")));
    }
}

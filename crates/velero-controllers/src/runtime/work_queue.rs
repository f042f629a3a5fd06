//! Which objects of a kind there are, and which of them are to be looked at when. It does not know what time it is.
//!
//! A server knows thousands of objects of which nothing becomes for weeks. So what is kept of one is its name, once, and when
//! it is due: no metadata, and no timer of its own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

/// The objects of a kind. Nothing is due before it has begun and the first list is complete.
#[derive(Default)]
pub(crate) struct WorkQueue {
    objects: HashMap<Arc<str>, Entry>,
    /// Those that are due at some moment and that nobody looks at now.
    due: BTreeSet<(Instant, Arc<str>)>,
    /// The number of the last list.
    list: u32,
    has_begun: bool,
    is_complete: bool,
    is_to_be_settled: bool,
}

/// What is known of an object besides its name.
#[derive(Default)]
struct Entry {
    /// When it is to be looked at; without it, when it changes.
    due: Option<Instant>,
    /// The last list that named it.
    list: u32,
    is_there: bool,
    /// Whether a list has named it and it is not settled yet what follows from that.
    is_unsettled: bool,
    /// Whether somebody looks at it now.
    is_busy: bool,
}

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// An object is to be looked at.
    Object(Arc<str>),
    /// An object is gone, and nobody looks at it any more.
    Gone(Arc<str>),
}

impl WorkQueue {
    /// From now on objects are looked at.
    pub(crate) fn begin(&mut self) {
        self.has_begun = true;
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// All objects are named once more.
    pub(crate) fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
        self.is_to_be_settled = false;
    }

    /// A list names an object.
    pub(crate) fn listed(&mut self, name: &str) {
        let list = self.list;
        self.note(name, None, |entry| {
            entry.list = list;
            entry.is_there = true;
            entry.is_unsettled = true;
        });
    }

    /// All objects have been named: the others are gone.
    pub(crate) fn end_list(&mut self, now: Instant) {
        let list = self.list;
        for name in self.names(|entry| entry.is_there && entry.list != list) {
            self.gone(&name, now);
        }
        self.is_complete = true;
        self.is_to_be_settled = true;
    }

    /// Whether it is to be settled what follows from the last list.
    pub(crate) fn is_to_be_settled(&self) -> bool {
        self.has_begun && self.is_to_be_settled
    }

    /// Settles what follows from the last list: those at rest are looked at when they are due, all others at once. Those
    /// that have changed since are not at rest any more.
    pub(crate) fn settle(&mut self, resting: impl Iterator<Item = (String, Option<Instant>)>, now: Instant) {
        self.is_to_be_settled = false;
        for (name, due) in resting {
            if self.objects.get(name.as_str()).is_some_and(|entry| entry.is_unsettled) {
                self.note(&name, due, |entry| entry.is_unsettled = false);
            }
        }
        for name in self.names(|entry| entry.is_unsettled) {
            self.note(&name, Some(now), |entry| entry.is_unsettled = false);
        }
    }

    /// An object is new, or has changed.
    pub(crate) fn changed(&mut self, name: &str, now: Instant) {
        if !self.has_begun {
            return self.listed(name);
        }
        self.note(name, Some(now), |entry| {
            entry.is_there = true;
            entry.is_unsettled = false;
        });
    }

    /// An object is to be looked at although it has not changed.
    pub(crate) fn woken(&mut self, name: &str, now: Instant) {
        self.note(name, Some(now), |entry| entry.is_unsettled = false);
    }

    /// An object is gone.
    pub(crate) fn gone(&mut self, name: &str, now: Instant) {
        if self.has_begun {
            self.note(name, Some(now), |entry| {
                entry.is_there = false;
                entry.is_unsettled = false;
            });
        } else if let Some((name, Entry { due: Some(due), .. })) = self.objects.remove_entry(name) {
            // Nobody has looked at it, so nobody has to be told.
            self.due.remove(&(due, name));
        }
    }

    /// When something is due next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let (moment, _) = self.due.first().filter(|_| self.has_begun && self.is_complete)?;
        Some(*moment)
    }

    /// Takes what is due. Nobody else gets an object until it is given back.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Due> {
        self.next_due().filter(|moment| *moment <= now)?;
        let (_, name) = self.due.pop_first()?;
        let entry = self.objects.get_mut(&*name)?;
        if !entry.is_there {
            self.objects.remove(&*name);
            return Some(Due::Gone(name));
        }
        entry.due = None;
        entry.is_unsettled = false;
        entry.is_busy = true;
        Some(Due::Object(name))
    }

    /// Gives back an object that was looked at, and when it is to be looked at again.
    pub(crate) fn give_back(&mut self, name: &Arc<str>, next: Option<Instant>) {
        let Some(entry) = self.objects.get_mut(&**name) else { return };
        entry.is_busy = false;
        entry.due = sooner(entry.due, next);
        if let Some(due) = entry.due {
            self.due.insert((due, Arc::clone(name)));
        }
    }

    /// Notes something of an object, known or not, and that it is due at a moment at the latest.
    fn note(&mut self, name: &str, moment: Option<Instant>, note: impl FnOnce(&mut Entry)) {
        let known = self.objects.get_key_value(name).map(|(known, _)| Arc::clone(known));
        let name = known.unwrap_or_else(|| Arc::from(name));
        let entry = self.objects.entry(Arc::clone(&name)).or_default();
        note(entry);
        let (before, after) = (entry.due, sooner(entry.due, moment));
        entry.due = after;
        if entry.is_busy || before == after {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, Arc::clone(&name)));
        }
        if let Some(after) = after {
            self.due.insert((after, name));
        }
    }

    fn names(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<Arc<str>> {
        let found = self.objects.iter().filter(|(_, entry)| wanted(entry));
        found.map(|(name, _)| Arc::clone(name)).collect()
    }
}

fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
#[path = "work_queue_tests.rs"]
mod tests;

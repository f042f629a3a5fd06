//! The operations of backups or restores that wait, as this process last heard of them.
//!
//! The file in the bucket is the truth about which operations there are and which have ended. What changes all the
//! time, how far each one is, stays in memory until somebody asks for the file.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::lock::lock;

/// The operations of those that wait, by name.
pub(crate) struct Kept<O> {
    entries: Mutex<HashMap<String, Entry<O>>>,
}

#[derive(Clone)]
struct Entry<O> {
    uid: String,
    operations: Vec<O>,
    /// Whether the file in the bucket says the same.
    is_stored: bool,
    /// When they are asked about next.
    due: Instant,
}

impl<O> Default for Kept<O> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

impl<O: Clone> Kept<O> {
    /// Keeps operations until they are asked about after `pause`.
    pub(crate) fn keep(&self, name: &str, uid: &str, operations: Vec<O>, is_stored: bool, pause: Duration) {
        let entry = Entry { uid: uid.to_owned(), operations, is_stored, due: Instant::now() + pause };
        self.entries().insert(name.to_owned(), entry);
    }

    /// How long it is until the operations are to be asked about; nothing when it is time, or they are not known.
    pub(crate) fn pause_left(&self, name: &str, uid: &str) -> Duration {
        let entries = self.entries();
        let entry = entries.get(name).filter(|entry| entry.uid == uid);
        entry.map_or(Duration::ZERO, |entry| entry.due.saturating_duration_since(Instant::now()))
    }

    /// The operations of an object; `None` when they are not known here.
    pub(crate) fn get(&self, name: &str, uid: &str) -> Option<Vec<O>> {
        self.entries().get(name).filter(|entry| entry.uid == uid).map(|entry| entry.operations.clone())
    }

    /// Forgets an object; gives what was known of its operations.
    pub(crate) fn forget(&self, name: &str) -> Option<Vec<O>> {
        self.entries().remove(name).map(|entry| entry.operations)
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// What is known of the operations of an object but not in the bucket yet.
    pub(crate) fn unstored(&self, name: &str) -> Option<Vec<O>> {
        self.entries().get(name).filter(|entry| !entry.is_stored).map(|entry| entry.operations.clone())
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry<O>>> {
        lock(&self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_by_name_and_identity() {
        let kept = Kept::default();
        kept.keep("b", "1", vec!["x"], false, Duration::from_secs(60));
        assert_eq!(kept.get("b", "1"), Some(vec!["x"]));
        assert_eq!(kept.get("b", "2"), None, "another object of the same name");
        assert!(kept.pause_left("b", "1") > Duration::from_secs(50));
        assert_eq!(kept.pause_left("b", "2"), Duration::ZERO);
        assert_eq!(kept.unstored("b"), Some(vec!["x"]));
        kept.keep("b", "1", vec!["y"], true, Duration::ZERO);
        assert_eq!(kept.unstored("b"), None);
        assert_eq!(kept.forget("b"), Some(vec!["y"]));
        assert!(kept.is_empty());
    }
}

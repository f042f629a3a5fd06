//! How long the writes of a type have been failing.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock;

/// Since when writes of a type fail. Each waits for its server, but all of a type together no longer than one would.
#[derive(Default)]
pub(super) struct Outages {
    since: Mutex<HashMap<Box<str>, Instant>>,
}

impl Outages {
    /// Takes a failure into account; how long they go on.
    pub(super) fn note(&self, resource: &str) -> Duration {
        lock(&self.since).entry(resource.into()).or_insert_with(Instant::now).elapsed()
    }

    /// Takes an answer into account: the outage is over.
    pub(super) fn end(&self, resource: &str) {
        lock(&self.since).remove(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outage_of_a_type_ends_with_an_answer() {
        let outages = Outages::default();
        outages.note("pods");
        std::thread::sleep(Duration::from_millis(5));
        assert!(outages.note("pods") >= Duration::from_millis(5));
        outages.end("pods");
        assert!(lock(&outages.since).is_empty());
    }
}

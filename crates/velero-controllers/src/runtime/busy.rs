//! Who works on which backup or restore right now, so that a deletion can ask for its end and wait for it.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::runtime::lock::lock;

/// The backups, or the restores, that somebody in this process works on.
#[derive(Default)]
pub(crate) struct Busy {
    held: Mutex<HashMap<String, CancellationToken>>,
    left: Notify,
}

/// The right to work on one object; given back when dropped.
pub(crate) struct Hold<'a> {
    busy: &'a Busy,
    name: String,
    wanted: CancellationToken,
}

impl Busy {
    /// Takes an object; `None` when somebody has it.
    pub(crate) fn enter(&self, name: &str) -> Option<Hold<'_>> {
        let mut held = self.held();
        if held.contains_key(name) {
            return None;
        }
        let wanted = CancellationToken::new();
        held.insert(name.to_owned(), wanted.clone());
        Some(Hold { busy: self, name: name.to_owned(), wanted })
    }

    /// Asks whoever has an object to leave it, and takes it; `None` when they have not left in time.
    pub(crate) async fn take_over(&self, name: &str, patience: Duration) -> Option<Hold<'_>> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            if let Some(hold) = self.enter(name) {
                return Some(hold);
            }
            if let Some(wanted) = self.held().get(name) {
                wanted.cancel();
            }
            tokio::time::timeout_at(deadline, left).await.ok()?;
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        lock(&self.held)
    }
}

impl Hold<'_> {
    /// Whether it is the right to work on that object.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.name == name
    }

    /// Ends when somebody else wants the object.
    pub(crate) async fn interrupted(&self) {
        self.wanted.cancelled().await;
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.busy.held().remove(&self.name);
        self.busy.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn an_object_has_one_holder_at_a_time() {
        let busy = Busy::default();
        let hold = busy.enter("a").unwrap();
        assert!(busy.enter("a").is_none());
        assert!(busy.enter("b").is_some());
        assert!(busy.take_over("a", SOON).await.is_none(), "who does not leave keeps it");
        drop(hold);
        assert!(busy.take_over("a", SOON).await.is_some());
    }

    #[tokio::test]
    async fn who_is_asked_to_leave_and_does_so_is_followed() {
        let busy = Busy::default();
        let hold = busy.enter("a").unwrap();
        let work = async {
            hold.interrupted().await;
            drop(hold);
        };
        let (taken, ()) = tokio::join!(busy.take_over("a", Duration::from_secs(5)), work);
        assert!(taken.is_some());
    }
}

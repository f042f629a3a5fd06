//! What is tried again at the end: items that were refused because a webhook could not be reached, or whose namespace
//! could not be made. What they wait for may be among the things that were restored since.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};

use super::item::{Item, Wanted};
use super::ledger::{Done, Row};
use super::run::{Mode, ROWS, Run, lock};
use super::trouble::{Ended, ItemResult, Passing, Postponed, Trouble};

/// The most items that wait as they are to be written: these are held in memory.
const MOST: usize = 10_000;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Run {
    /// Closes the books of an item, or sets it aside when its trouble may pass; whether it exists now.
    pub(super) fn conclude(&self, item: Item, result: ItemResult, row: Row) -> bool {
        let (item, ended) = match result {
            Ok(ended) => (item, ended),
            Err(trouble) => match self.postpone(item, trouble, row) {
                None => return false,
                Some((item, trouble)) => {
                    let ended = self.end_with(&item, trouble);
                    (item, ended)
                }
            },
        };
        self.log_end(&item, &ended);
        let name = ended.name.as_deref().unwrap_or(&item.name);
        self.ledger.close(&item.key(), ended.kind.as_deref(), name, ended.done, ended.exists);
        ended.exists
    }

    /// Sets an item aside whose trouble may pass; gives both back if it ends here.
    fn postpone(&self, item: Item, trouble: Trouble, row: Row) -> Option<(Item, Trouble)> {
        let mut all = lock(&self.postponed);
        let too_many = trouble.wanted.is_some() && all.len() >= MOST;
        if self.mode == Mode::Preview || !trouble.may_pass() || too_many {
            return Some((item, trouble));
        }
        self.ledger.postpone(&item.key());
        let entry = self.journal.info().item(item.reference());
        entry.message(&format!("Item is tried again at the end: {}", trouble.message));
        all.push(Postponed { item, row, trouble });
        None
    }

    /// Tries the items that were set aside until all have ended, for as long as a single object may take.
    pub(super) async fn restore_postponed(&self) {
        let begin = Instant::now();
        let deadline = begin + self.request.resource_timeout;
        let mut pause = FIRST_PAUSE;
        loop {
            let round = std::mem::take(&mut *lock(&self.postponed));
            let out_of_time = self.is_halted() || Instant::now() >= deadline;
            if round.is_empty() && (out_of_time || !self.misses_namespaces()) {
                return;
            }
            if !out_of_time && self.misses_namespaces() {
                self.restore_namespaces().await;
            }
            let count = round.len();
            self.journal.info().message(&format!("Trying {count} items again that could not be restored before"));
            stream::iter(round).for_each_concurrent(ROWS, |postponed| self.try_again(postponed, begin)).await;
            let left = deadline.saturating_duration_since(Instant::now());
            if !lock(&self.postponed).is_empty() || self.misses_namespaces() {
                self.request.halt.run_until_cancelled(tokio::time::sleep(pause.min(left))).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        }
    }

    async fn try_again(&self, postponed: Postponed, begin: Instant) {
        let Postponed { item, row, mut trouble } = postponed;
        let waited = trouble.passing.patience(self.request.resource_timeout);
        if self.is_halted() || begin.elapsed() >= waited {
            let waited = waited.min(begin.elapsed());
            let message = format!("{}; it was tried again for {waited:?} at the end of the restore", trouble.message);
            self.conclude(item, Err(Trouble { message, passing: Passing::Never, ..trouble }), row);
            return;
        }
        let kind = trouble.kind.take();
        let result = match trouble.wanted.take() {
            Some(wanted) => self.write_as(&item, kind.unwrap_or_default(), *wanted).await,
            None => self.handle(&item, row).await,
        };
        self.conclude(item, result, row);
    }

    /// Writes an item that is listed under this kind. If that may work later, what was to be written stays at hand.
    pub(super) async fn write_as(&self, item: &Item, kind: String, wanted: Wanted) -> ItemResult {
        match self.write(item, &wanted).await {
            Ok(ended) => {
                if ended.done == Done::Created {
                    self.tell_of_data_left(item);
                }
                Ok(Ended { kind: Some(kind), ..ended })
            }
            Err(trouble) => Err(trouble.about(kind).keeping(wanted)),
        }
    }
}

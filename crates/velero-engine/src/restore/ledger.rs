//! What became of each item: who works on it, whether it exists now, and how many are done.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, watch};
use velero_api::records::ResourceList;
use velero_api::v1::RestoreProgress;

use crate::lock;

/// An item by its type and the place it is restored to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ItemKey {
    pub resource: Arc<str>,
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
}

/// A row of work: a planned item and, one after the other, the items it asks for.
pub(super) type Row = u64;

/// What was done with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Created,
    Updated,
    Failed,
    Skipped,
}

impl Done {
    fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// What one who wants to restore an item is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is yours.
    Yours,
    /// It was handled before; whether it exists now.
    Handled { exists: bool },
}

enum State {
    Planned,
    Running(Row),
    Handled { exists: bool },
}

struct Books {
    items: HashMap<ItemKey, State>,
    /// Which row waits for which.
    waits: HashMap<Row, Row>,
    list: ResourceList,
    total: i64,
    done: i64,
}

/// The books of a restore. The total only grows, by items that actions ask for; what is done only grows too.
pub(super) struct Ledger {
    books: Mutex<Books>,
    handled: Notify,
    progress: watch::Sender<RestoreProgress>,
}

impl Ledger {
    /// Opens the books with the planned items and tells the total.
    pub(super) fn new(planned: impl Iterator<Item = ItemKey>, progress: watch::Sender<RestoreProgress>) -> Self {
        let items: HashMap<_, _> = planned.map(|key| (key, State::Planned)).collect();
        let total = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let books = Books { items, waits: HashMap::new(), list: ResourceList::new(), total, done: 0 };
        let ledger = Self { books: Mutex::new(books), handled: Notify::new(), progress };
        ledger.publish(&ledger.books());
        ledger
    }

    /// Takes an item for a row. Waits while another row works on it, unless that row waits for this one.
    pub(super) async fn take(&self, key: &ItemKey, row: Row) -> Turn {
        loop {
            let handled = self.handled.notified();
            tokio::pin!(handled);
            // From here on no wake-up is missed.
            handled.as_mut().enable();
            match self.try_take(key, row) {
                Some(turn) => return turn,
                None => handled.await,
            }
        }
    }

    fn try_take(&self, key: &ItemKey, row: Row) -> Option<Turn> {
        let mut books = self.books();
        books.waits.remove(&row);
        let busy = match books.items.get(key) {
            Some(State::Handled { exists }) => return Some(Turn::Handled { exists: *exists }),
            Some(State::Running(other)) => Some(*other),
            Some(State::Planned) => None,
            None => {
                books.total += 1;
                None
            }
        };
        match busy {
            None => {
                books.items.insert(key.clone(), State::Running(row));
                self.publish(&books);
                Some(Turn::Yours)
            }
            // In a circle nobody can be first: the one that closes it goes on as if the item were handled.
            Some(other) if leads_to(&books.waits, other, row) => Some(Turn::Handled { exists: false }),
            Some(other) => {
                books.waits.insert(row, other);
                None
            }
        }
    }

    /// Lets go of an item that is tried again at the end: until it is closed, it does not exist for those who want it.
    pub(super) fn postpone(&self, key: &ItemKey) {
        let mut books = self.books();
        books.items.insert(key.clone(), State::Handled { exists: false });
        if !books.waits.is_empty() {
            self.handled.notify_waiters();
        }
    }

    /// Closes an item. `kind` is its `<apiVersion>/<Kind>`; without it the item is counted, but not listed.
    pub(super) fn close(&self, key: &ItemKey, kind: Option<&str>, name: &str, done: Done, exists: bool) {
        let mut books = self.books();
        if let Some(kind) = kind {
            let place = key.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            books.list.entry(kind.to_owned()).or_default().push(format!("{place}{name}({})", done.as_str()));
        }
        books.items.insert(key.clone(), State::Handled { exists });
        books.done += 1;
        self.publish(&books);
        if !books.waits.is_empty() {
            self.handled.notify_waiters();
        }
    }

    /// How many planned items nobody has begun with, by the place they would go to and their type.
    pub(super) fn left(&self) -> BTreeMap<(Option<Box<str>>, Arc<str>), usize> {
        let mut left = BTreeMap::new();
        for (key, _) in self.books().items.iter().filter(|(_, state)| matches!(state, State::Planned)) {
            *left.entry((key.namespace.clone(), Arc::clone(&key.resource))).or_default() += 1;
        }
        left
    }

    /// The final counts and the list of items, sorted.
    pub(super) fn finish(&self) -> (RestoreProgress, ResourceList) {
        let mut books = self.books();
        let mut list = std::mem::take(&mut books.list);
        list.values_mut().for_each(|items| items.sort_unstable());
        self.publish(&books);
        (self.progress.borrow().clone(), list)
    }

    fn publish(&self, books: &Books) {
        self.progress.send_modify(|progress| {
            progress.total_items = books.total;
            progress.items_restored = books.done;
        });
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        lock(&self.books)
    }
}

fn leads_to(waits: &HashMap<Row, Row>, from: Row, to: Row) -> bool {
    let mut row = Some(from);
    while let Some(current) = row {
        if current == to {
            return true;
        }
        row = waits.get(&current).copied();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> ItemKey {
        ItemKey { resource: "pods".into(), namespace: Some("shop".into()), name: name.into() }
    }

    fn ledger(names: &[&str]) -> (Arc<Ledger>, watch::Receiver<RestoreProgress>) {
        let (sender, receiver) = watch::channel(RestoreProgress::default());
        (Arc::new(Ledger::new(names.iter().map(|name| key(name)), sender)), receiver)
    }

    fn counts(receiver: &watch::Receiver<RestoreProgress>) -> (i64, i64) {
        let progress = receiver.borrow();
        (progress.items_restored, progress.total_items)
    }

    #[tokio::test]
    async fn the_total_is_there_at_once_and_grows_by_items_that_were_not_planned() {
        let (ledger, receiver) = ledger(&["a", "b"]);
        assert_eq!(counts(&receiver), (0, 2));
        assert_eq!(ledger.take(&key("a"), 1).await, Turn::Yours);
        assert_eq!(ledger.take(&key("b"), 1).await, Turn::Yours);
        assert_eq!(counts(&receiver), (0, 2));
        assert_eq!(ledger.take(&key("c"), 1).await, Turn::Yours);
        assert_eq!(counts(&receiver), (0, 3));
        for name in ["a", "b", "c"] {
            ledger.close(&key(name), Some("v1/Pod"), name, Done::Created, true);
        }
        let (progress, list) = ledger.finish();
        assert_eq!((progress.items_restored, progress.total_items), (3, 3));
        assert_eq!(list["v1/Pod"], ["shop/a(created)", "shop/b(created)", "shop/c(created)"]);
    }

    #[tokio::test]
    async fn what_nobody_began_with_is_counted_by_place_and_type() {
        let (ledger, _receiver) = ledger(&["a", "b", "c"]);
        assert_eq!(ledger.take(&key("a"), 1).await, Turn::Yours);
        ledger.close(&key("a"), Some("v1/Pod"), "a", Done::Created, true);
        assert_eq!(ledger.take(&key("b"), 1).await, Turn::Yours);
        let left = ledger.left();
        assert_eq!(left.into_iter().collect::<Vec<_>>(), [((Some("shop".into()), "pods".into()), 1)]);
    }

    #[tokio::test]
    async fn an_item_is_restored_once_and_others_wait_for_it() {
        let (ledger, _receiver) = ledger(&["a"]);
        assert_eq!(ledger.take(&key("a"), 1).await, Turn::Yours);
        let second = tokio::spawn({
            let ledger = Arc::clone(&ledger);
            async move { ledger.take(&key("a"), 2).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!second.is_finished());
        ledger.close(&key("a"), None, "a", Done::Created, true);
        assert_eq!(second.await.unwrap(), Turn::Handled { exists: true });
    }

    #[tokio::test]
    async fn items_that_ask_for_each_other_do_not_wait_for_ever() {
        let (ledger, _receiver) = ledger(&["a", "b"]);
        assert_eq!(ledger.take(&key("a"), 1).await, Turn::Yours);
        assert_eq!(ledger.take(&key("b"), 2).await, Turn::Yours);
        let first = tokio::spawn({
            let ledger = Arc::clone(&ledger);
            async move { ledger.take(&key("b"), 1).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(ledger.take(&key("a"), 2).await, Turn::Handled { exists: false });
        ledger.close(&key("b"), None, "b", Done::Skipped, false);
        assert_eq!(first.await.unwrap(), Turn::Handled { exists: false });
        assert_eq!(ledger.take(&key("a"), 1).await, Turn::Handled { exists: false });
    }
}

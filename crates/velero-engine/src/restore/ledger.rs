//! What became of each item: who works on it, whether it exists now, and how many are done.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, watch};
use velero_api::v1::RestoreProgress;

pub(super) use crate::items::Done;
use crate::items::{ItemList, ItemTable, Told};
use crate::lock;

/// An item by its type and the place it is restored to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ItemKey {
    pub resource: Arc<str>,
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
}

/// A planned item, in the words of [`ItemKey`].
pub(super) struct PlannedKey<'a> {
    pub resource: &'a str,
    pub namespace: Option<&'a str>,
    pub name: &'a str,
}

/// A row of work: a planned item and, one after the other, the items it asks for.
pub(super) type Row = u64;

/// What one who wants to restore an item is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is yours.
    Yours,
    /// It was handled before; whether it exists now.
    Handled { exists: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Planned,
    Running,
    Handled { exists: bool },
}

/// Where an item stands, and how it is told in the end.
#[derive(Debug, Clone, Copy)]
struct Standing {
    state: State,
    told: Option<Told>,
}

impl From<State> for Standing {
    fn from(state: State) -> Self {
        Self { state, told: None }
    }
}

/// The type of an item among the tables, and its number there.
type Place = (usize, u32);

struct Books {
    types: HashMap<Arc<str>, usize>,
    items: Vec<ItemTable<Standing>>,
    /// The items that are worked on, and by whom.
    running: HashMap<Place, Row>,
    /// Which row waits for which.
    waits: HashMap<Row, Row>,
    /// The `<apiVersion>/<Kind>` of what is listed, and the place of each.
    kinds: Vec<String>,
    kind_numbers: HashMap<String, u32>,
    /// What is listed under another name than it has in the backup.
    renamed: ItemTable<Option<Told>>,
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
    pub(super) fn new<'a>(
        planned: impl Iterator<Item = PlannedKey<'a>>,
        progress: watch::Sender<RestoreProgress>,
    ) -> Self {
        let mut books = Books {
            types: HashMap::new(),
            items: Vec::new(),
            running: HashMap::new(),
            waits: HashMap::new(),
            kinds: Vec::new(),
            kind_numbers: HashMap::new(),
            renamed: ItemTable::default(),
            total: 0,
            done: 0,
        };
        for key in planned {
            let table = books.table(key.resource);
            books.items[table].insert(key.namespace, key.name, State::Planned.into());
        }
        books.total = books.items.iter().map(|items| i64::try_from(items.len()).unwrap_or(i64::MAX)).sum();
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
        let place = match books.find(key) {
            Some((_, State::Handled { exists })) => return Some(Turn::Handled { exists }),
            Some((place, State::Running)) => {
                let other = books.running.get(&place).copied().unwrap_or(row);
                // In a circle nobody can be first: the one that closes it goes on as if the item were handled.
                if leads_to(&books.waits, other, row) {
                    return Some(Turn::Handled { exists: false });
                }
                books.waits.insert(row, other);
                return None;
            }
            Some((place, State::Planned)) => place,
            None => {
                books.total += 1;
                books.enter(key, State::Planned)
            }
        };
        books.items[place.0].set(place.1, State::Running.into());
        books.running.insert(place, row);
        self.publish(&books);
        Some(Turn::Yours)
    }

    /// Lets go of an item that is tried again at the end: until it is closed, it does not exist for those who want it.
    pub(super) fn postpone(&self, key: &ItemKey) {
        let mut books = self.books();
        let place = books.enter(key, State::Handled { exists: false });
        books.running.remove(&place);
        if !books.waits.is_empty() {
            self.handled.notify_waiters();
        }
    }

    /// Closes an item. `kind` is its `<apiVersion>/<Kind>`; without it the item is counted, but not listed.
    pub(super) fn close(&self, key: &ItemKey, kind: Option<&str>, name: &str, done: Done, exists: bool) {
        let mut books = self.books();
        let mut told = kind.map(|kind| Told { kind: books.kind_number(kind), done: Some(done) });
        if name != &*key.name
            && let Some(told) = told.take()
        {
            books.renamed.append(key.namespace.as_deref(), name, Some(told));
        }
        let place = books.enter(key, State::Handled { exists });
        books.items[place.0].set(place.1, Standing { state: State::Handled { exists }, told });
        books.running.remove(&place);
        books.done += 1;
        self.publish(&books);
        if !books.waits.is_empty() {
            self.handled.notify_waiters();
        }
    }

    /// How many planned items nobody has begun with, by the place they would go to and their type.
    pub(super) fn left(&self) -> BTreeMap<(Option<Box<str>>, Arc<str>), usize> {
        let mut left = BTreeMap::new();
        let books = self.books();
        for (resource, table) in &books.types {
            let items = &books.items[*table];
            let items = items.numbers().map(|number| items.get(number));
            for item in items.filter(|item| item.value.state == State::Planned) {
                *left.entry((item.namespace.map(Into::into), Arc::clone(resource))).or_default() += 1;
            }
        }
        left
    }

    /// The final counts and the list of items, sorted. The books are closed with it.
    pub(super) fn finish(&self) -> (RestoreProgress, ItemList) {
        let mut books = self.books();
        self.publish(&books);
        let items = std::mem::take(&mut books.items).into_iter();
        let mut tables: Vec<_> = items.map(|items| items.map(|standing| standing.told)).collect();
        books.types.clear();
        tables.push(std::mem::take(&mut books.renamed));
        (self.progress.borrow().clone(), ItemList::new(tables, &books.kinds))
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

impl Books {
    fn find(&self, key: &ItemKey) -> Option<(Place, State)> {
        let table = *self.types.get(&key.resource)?;
        let items = &self.items[table];
        let number = items.find(key.namespace.as_deref(), &key.name)?;
        Some(((table, number), items.get(number).value.state))
    }

    /// Puts an item into a state, whether it is known or not.
    fn enter(&mut self, key: &ItemKey, state: State) -> Place {
        let table = self.table(&key.resource);
        (table, self.items[table].insert(key.namespace.as_deref(), &key.name, state.into()))
    }

    fn table(&mut self, resource: &str) -> usize {
        if let Some(known) = self.types.get(resource) {
            return *known;
        }
        self.items.push(ItemTable::default());
        self.types.insert(resource.into(), self.items.len() - 1);
        self.items.len() - 1
    }

    fn kind_number(&mut self, kind: &str) -> u32 {
        if let Some(known) = self.kind_numbers.get(kind) {
            return *known;
        }
        let number = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        self.kinds.push(kind.to_owned());
        self.kind_numbers.insert(kind.to_owned(), number);
        number
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
        let planned = names.iter().map(|name| PlannedKey { resource: "pods", namespace: Some("shop"), name });
        (Arc::new(Ledger::new(planned, sender)), receiver)
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
        assert_eq!(list.to_map()["v1/Pod"], ["shop/a(created)", "shop/b(created)", "shop/c(created)"]);
    }

    #[test]
    fn an_item_is_listed_under_the_name_it_has_now() {
        let (ledger, _receiver) = ledger(&["a", "b"]);
        ledger.close(&key("a"), Some("v1/Pod"), "a-new", Done::Created, true);
        ledger.close(&key("b"), None, "b", Done::Skipped, false);
        assert_eq!(
            ledger.finish().1.to_map(),
            BTreeMap::from([("v1/Pod".to_owned(), vec!["shop/a-new(created)".to_owned()])])
        );
    }

    #[test]
    fn an_item_takes_little_room_in_the_books() {
        assert_eq!(size_of::<Standing>(), 12);
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

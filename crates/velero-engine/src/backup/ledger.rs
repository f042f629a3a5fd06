//! Which items are done, and how many there are to do.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::BackupProgress;
use velero_cluster::ItemRef;

use super::plan::{Plan, PlannedType};
use crate::items::{ItemList, ItemTable, Told};
use crate::lock;

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is part of a group that is being worked on.
    Grouped,
    /// It is on its way into the archive.
    Taken,
    /// It is in the archive.
    Written,
    /// It is in the archive, under the name that an action gave it.
    Renamed,
    /// It should be in the archive but is not.
    Failed,
    /// An action kept it out.
    Skipped,
}

/// The state of every item seen so far.
pub(super) struct Ledger {
    state: Mutex<LedgerState>,
    progress: watch::Sender<BackupProgress>,
}

struct LedgerState {
    /// By type: the table serves both to tell items apart and to list them in the end.
    items: Vec<ItemTable<State>>,
    /// By type, the `namespace/name` that actions gave to items, with those the items had before.
    renamed: Vec<BTreeMap<Box<str>, Box<str>>>,
    done: i64,
    expected: i64,
}

impl Ledger {
    pub(super) fn new(types: usize, progress: watch::Sender<BackupProgress>) -> Self {
        let state = LedgerState {
            items: vec![ItemTable::default(); types],
            renamed: vec![BTreeMap::new(); types],
            done: 0,
            expected: 0,
        };
        Self { state: Mutex::new(state), progress }
    }

    /// Reserves an item for a group; false when it has been seen before.
    pub(super) fn group(&self, item: ItemRef<'_, PlannedType>) -> bool {
        let mut state = self.lock();
        let items = &mut state.items[item.resource_type.index];
        if items.find(item.namespace, item.name).is_some() {
            return false;
        }
        items.insert(item.namespace, item.name, State::Grouped);
        true
    }

    /// Takes an item for the archive; false when that happened before.
    pub(super) fn take(&self, item: ItemRef<'_, PlannedType>) -> bool {
        let mut state = self.lock();
        let items = &mut state.items[item.resource_type.index];
        match items.find(item.namespace, item.name) {
            Some(number) if items.get(number).value == State::Grouped => items.set(number, State::Taken),
            Some(_) => return false,
            None => drop(items.insert(item.namespace, item.name, State::Taken)),
        }
        true
    }

    /// The item that has a place in the archive already which another is to get. Only a renamed item can get in the way
    /// of another, so nothing is remembered of those that keep their names.
    pub(super) fn occupant(&self, item: ItemRef<'_, PlannedType>, place: ItemRef<'_, PlannedType>) -> Option<String> {
        let state = self.lock();
        let renamed = &state.renamed[item.resource_type.index];
        if !renamed.is_empty()
            && let Some(other) = renamed.get(place.key().as_str())
        {
            return Some(other.to_string());
        }
        if is_same(item, place) {
            return None;
        }
        let items = &state.items[item.resource_type.index];
        let other = items.find(place.namespace, place.name)?;
        (items.get(other).value == State::Written).then(|| place.key())
    }

    /// Records that an item is in the archive, and at which place.
    pub(super) fn written(&self, item: ItemRef<'_, PlannedType>, place: ItemRef<'_, PlannedType>) {
        let mut state = self.lock();
        let index = item.resource_type.index;
        let written = if is_same(item, place) { State::Written } else { State::Renamed };
        if written == State::Renamed {
            state.renamed[index].insert(place.key().into(), item.key().into());
        }
        if let Some(number) = state.items[index].find(item.namespace, item.name) {
            state.items[index].set(number, written);
        }
        state.done += 1;
    }

    /// Whether an item is in a group or settled.
    pub(super) fn is_known(&self, item: ItemRef<'_, PlannedType>) -> bool {
        self.find(item).is_some()
    }

    /// Whether an item was taken before.
    pub(super) fn is_settled(&self, item: ItemRef<'_, PlannedType>) -> bool {
        self.find(item).is_some_and(|state| state != State::Grouped)
    }

    fn find(&self, item: ItemRef<'_, PlannedType>) -> Option<State> {
        let state = self.lock();
        let items = &state.items[item.resource_type.index];
        items.find(item.namespace, item.name).map(|number| items.get(number).value)
    }

    /// Records that an item that should be in the archive is not.
    pub(super) fn fail(&self, item: ItemRef<'_, PlannedType>) {
        self.settle(item, State::Failed);
    }

    /// Records that an action kept an item out.
    pub(super) fn skip(&self, item: ItemRef<'_, PlannedType>) {
        self.settle(item, State::Skipped);
    }

    fn settle(&self, item: ItemRef<'_, PlannedType>, settled: State) {
        self.lock().items[item.resource_type.index].insert(item.namespace, item.name, settled);
    }

    /// Adds items that are known to come.
    pub(super) fn expect(&self, items: u64) {
        self.lock().expected += i64::try_from(items).unwrap_or(i64::MAX / 2);
    }

    /// Takes back items that will not come after all.
    pub(super) fn forget(&self, items: usize) {
        self.lock().expected -= i64::try_from(items).unwrap_or_default();
    }

    /// Tells how far the backup is. The total never goes down.
    pub(super) fn publish(&self) {
        let (done, expected) = {
            let state = self.lock();
            (state.done, state.expected)
        };
        self.progress.send_modify(|progress| {
            progress.items_backed_up = done;
            progress.total_items = progress.total_items.max(expected).max(done);
        });
    }

    /// Whether any item of a type is in the archive or on its way.
    pub(super) fn has_any(&self, planned: &PlannedType) -> bool {
        let is_taken = |state: State| matches!(state, State::Taken | State::Written | State::Renamed);
        let state = self.lock();
        let items = &state.items[planned.index];
        items.numbers().any(|number| is_taken(items.get(number).value))
    }

    /// Tells that all is done and gives the number of items, the list of them, and those that failed or were skipped.
    /// The archive must be complete: what is not in it by now will never be.
    pub(super) fn close(&self, plan: &Plan) -> Closing {
        let mut state = self.lock();
        let mut closing = Closing::default();
        let LedgerState { items, renamed, .. } = &mut *state;
        let (mut tables, mut places) = (Vec::with_capacity(items.len() + 1), ItemTable::default());
        for (kind, (planned, items)) in (0..).zip(plan.types().iter().zip(std::mem::take(items))) {
            closing.sort_out(planned, &items);
            let told = Told { kind, done: None };
            tables.push(items.map(|state| (state == State::Written).then_some(told)));
            for place in std::mem::take(&mut renamed[planned.index]).into_keys() {
                let (namespace, name) = split(&place);
                places.append(namespace, name, Some(told));
            }
        }
        tables.push(places);
        let kinds: Vec<String> = plan.types().iter().map(|planned| planned.kind_key.clone()).collect();
        closing.resource_list = ItemList::new(tables, &kinds);
        closing.progress.items_backed_up = state.done;
        closing.progress.total_items = state.done;
        self.progress.send_replace(closing.progress.clone());
        closing
    }

    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        lock(&self.state)
    }
}

fn is_same(item: ItemRef<'_, PlannedType>, other: ItemRef<'_, PlannedType>) -> bool {
    (item.namespace, item.name) == (other.namespace, other.name)
}

/// The namespace and name of a `namespace/name`.
fn split(key: &str) -> (Option<&str>, &str) {
    match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, key),
    }
}

/// What the ledger holds in the end.
#[derive(Default)]
pub(super) struct Closing {
    pub progress: BackupProgress,
    pub resource_list: ItemList,
    pub failed: Vec<ResourceIdentifier>,
    pub skipped: Vec<ResourceIdentifier>,
    /// Items that were on their way and never arrived.
    pub lost: Vec<ResourceIdentifier>,
}

impl Closing {
    /// Notes the items of a type that are not in the archive.
    fn sort_out(&mut self, planned: &PlannedType, items: &ItemTable<State>) {
        for item in items.numbers().map(|number| items.get(number)) {
            let missing = match item.value {
                State::Failed => &mut self.failed,
                State::Skipped => &mut self.skipped,
                State::Taken => &mut self.lost,
                State::Written | State::Grouped | State::Renamed => continue,
            };
            missing.push(planned.identifier(item.namespace, item.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use velero_cluster::types;

    use super::*;

    fn pods() -> PlannedType {
        PlannedType::for_test(0, types::PODS.clone())
    }

    fn ledger() -> (Ledger, watch::Receiver<BackupProgress>) {
        let (sender, receiver) = watch::channel(BackupProgress::default());
        (Ledger::new(1, sender), receiver)
    }

    #[test]
    fn an_item_is_taken_once_whether_it_was_grouped_or_not() {
        let (ledger, _) = ledger();
        let pods = pods();
        assert!(ledger.group(pods.item(Some("shop"), "web")));
        assert!(!ledger.group(pods.item(Some("shop"), "web")));
        assert!(ledger.is_known(pods.item(Some("shop"), "web")) && !ledger.is_settled(pods.item(Some("shop"), "web")));
        assert!(ledger.take(pods.item(Some("shop"), "web")));
        assert!(!ledger.take(pods.item(Some("shop"), "web")));
        assert!(ledger.take(pods.item(Some("bank"), "web")));
        assert!(ledger.is_settled(pods.item(Some("shop"), "web")));
    }

    #[test]
    fn an_item_that_failed_or_was_skipped_does_not_count_and_is_not_tried_again() {
        let (ledger, receiver) = ledger();
        let pods = pods();
        for name in ["good", "failed", "skipped"] {
            assert!(ledger.take(pods.item(Some("shop"), name)));
        }
        ledger.publish();
        assert_eq!(receiver.borrow().items_backed_up, 0, "nothing is in the archive yet");
        let good = pods.item(Some("shop"), "good");
        ledger.written(good, good);
        ledger.fail(pods.item(Some("shop"), "failed"));
        ledger.skip(pods.item(Some("shop"), "skipped"));
        assert!(!ledger.take(pods.item(Some("shop"), "failed")) && !ledger.take(pods.item(Some("shop"), "skipped")));
        ledger.publish();
        assert_eq!(receiver.borrow().items_backed_up, 1);
    }

    #[test]
    fn the_total_never_goes_down_and_never_lags_behind() {
        let (ledger, receiver) = ledger();
        let pods = pods();
        let totals = || {
            ledger.publish();
            let progress = receiver.borrow();
            (progress.items_backed_up, progress.total_items)
        };
        ledger.expect(2);
        assert_eq!(totals(), (0, 2));
        ledger.forget(1);
        assert_eq!(totals(), (0, 2));
        for name in ["a", "b", "c"] {
            ledger.take(pods.item(None, name));
            ledger.written(pods.item(None, name), pods.item(None, name));
        }
        assert_eq!(totals(), (3, 3));
    }

    #[test]
    fn only_renamed_items_can_get_in_the_way_of_others() {
        let (ledger, _) = ledger();
        let pods = pods();
        for name in ["a", "b", "c"] {
            ledger.take(pods.item(None, name));
        }
        let occupant = |item, place| ledger.occupant(pods.item(None, item), pods.item(None, place));
        let written = |item, place| ledger.written(pods.item(None, item), pods.item(None, place));
        assert_eq!(occupant("a", "a"), None);
        written("a", "a");
        assert_eq!(occupant("b", "a"), Some("a".to_owned()), "a renamed item and one that is there");
        assert_eq!(occupant("b", "c"), None, "the other has not been written yet");
        written("b", "c");
        assert_eq!(occupant("c", "c"), Some("b".to_owned()), "an item whose place was taken");
        assert_eq!(occupant("c", "b"), None, "the place that the renamed item has left");
    }
}

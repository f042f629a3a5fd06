//! Which items are done, and how many there are to do.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use velero_api::records::{ResourceIdentifier, ResourceList};
use velero_api::v1::BackupProgress;
use velero_cluster::ItemRef;

use super::plan::{Plan, PlannedType};
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
    /// By type, then by `namespace/name`: the key serves both to tell items apart and to list them in the end.
    items: Vec<HashMap<Box<str>, State>>,
    /// By type, the names that actions gave to items, with those the items had before.
    renamed: Vec<BTreeMap<Box<str>, Box<str>>>,
    done: i64,
    expected: i64,
}

impl Ledger {
    pub(super) fn new(types: usize, progress: watch::Sender<BackupProgress>) -> Self {
        let state = LedgerState {
            items: vec![HashMap::new(); types],
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
        let key = item.key();
        if items.contains_key(key.as_str()) {
            return false;
        }
        items.insert(key.into_boxed_str(), State::Grouped);
        true
    }

    /// Takes an item for the archive; false when that happened before.
    pub(super) fn take(&self, item: ItemRef<'_, PlannedType>) -> bool {
        let mut state = self.lock();
        let items = &mut state.items[item.resource_type.index];
        let key = item.key();
        match items.get_mut(key.as_str()) {
            Some(state @ State::Grouped) => *state = State::Taken,
            Some(_) => return false,
            None => {
                items.insert(key.into_boxed_str(), State::Taken);
            }
        }
        true
    }

    /// The item that has a place in the archive already which another, named `key`, is to get. Only a renamed item can
    /// get in the way of another, so nothing is remembered of those that keep their names.
    pub(super) fn occupant(&self, planned: &PlannedType, key: &str, place: &str) -> Option<String> {
        let state = self.lock();
        if let Some(renamed) = state.renamed[planned.index].get(place) {
            return Some(renamed.to_string());
        }
        let is_there = key != place && state.items[planned.index].get(place) == Some(&State::Written);
        is_there.then(|| place.to_owned())
    }

    /// Records that an item is in the archive, and at which place.
    pub(super) fn written(&self, planned: &PlannedType, key: &str, place: &str) {
        let mut state = self.lock();
        let written = if key == place { State::Written } else { State::Renamed };
        if written == State::Renamed {
            state.renamed[planned.index].insert(place.into(), key.into());
        }
        if let Some(item) = state.items[planned.index].get_mut(key) {
            *item = written;
        }
        state.done += 1;
    }

    /// Whether an item is in a group or settled.
    pub(super) fn is_known(&self, item: ItemRef<'_, PlannedType>) -> bool {
        self.lock().items[item.resource_type.index].contains_key(item.key().as_str())
    }

    /// Whether an item was taken before.
    pub(super) fn is_settled(&self, item: ItemRef<'_, PlannedType>) -> bool {
        let state = self.lock();
        let found = state.items[item.resource_type.index].get(item.key().as_str());
        found.is_some_and(|state| *state != State::Grouped)
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
        self.lock().items[item.resource_type.index].insert(item.key().into_boxed_str(), settled);
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
        let is_taken = |state: &State| matches!(state, State::Taken | State::Written | State::Renamed);
        self.lock().items[planned.index].values().any(is_taken)
    }

    /// Tells that all is done and gives the number of items, the list of them, and those that failed or were skipped.
    /// The archive must be complete: what is not in it by now will never be.
    pub(super) fn close(&self, plan: &Plan) -> Closing {
        let mut state = self.lock();
        let mut closing = Closing::default();
        let LedgerState { items, renamed, .. } = &mut *state;
        for ((planned, items), renamed) in plan.types().iter().zip(items).zip(renamed) {
            let mut done: Vec<String> = std::mem::take(renamed).into_keys().map(String::from).collect();
            for (key, state) in items.drain() {
                match state {
                    State::Written => done.push(key.into_string()),
                    State::Failed => closing.failed.push(identifier(planned, &key)),
                    State::Skipped => closing.skipped.push(identifier(planned, &key)),
                    State::Taken => closing.lost.push(identifier(planned, &key)),
                    State::Grouped | State::Renamed => {}
                }
            }
            done.sort_unstable();
            if !done.is_empty() {
                closing.resource_list.insert(planned.kind_key.clone(), done);
            }
        }
        closing.progress.items_backed_up = state.done;
        closing.progress.total_items = state.done;
        self.progress.send_replace(closing.progress.clone());
        closing
    }

    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        lock(&self.state)
    }
}

/// What the ledger holds in the end.
#[derive(Default)]
pub(super) struct Closing {
    pub progress: BackupProgress,
    pub resource_list: ResourceList,
    pub failed: Vec<ResourceIdentifier>,
    pub skipped: Vec<ResourceIdentifier>,
    /// Items that were on their way and never arrived.
    pub lost: Vec<ResourceIdentifier>,
}

fn identifier(planned: &PlannedType, key: &str) -> ResourceIdentifier {
    match key.split_once('/') {
        Some((namespace, name)) => planned.identifier(Some(namespace), name),
        None => planned.identifier(None, key),
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
        ledger.written(&pods, "shop/good", "shop/good");
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
            ledger.written(&pods, name, name);
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
        assert_eq!(ledger.occupant(&pods, "a", "a"), None);
        ledger.written(&pods, "a", "a");
        assert_eq!(ledger.occupant(&pods, "b", "a"), Some("a".to_owned()), "a renamed item and one that is there");
        assert_eq!(ledger.occupant(&pods, "b", "c"), None, "the other has not been written yet");
        ledger.written(&pods, "b", "c");
        assert_eq!(ledger.occupant(&pods, "c", "c"), Some("b".to_owned()), "an item whose place was taken");
        assert_eq!(ledger.occupant(&pods, "c", "b"), None, "the place that the renamed item has left");
    }
}

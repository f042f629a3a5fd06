//! Whether an item belongs into the backup, and whether it comes by itself.

use std::sync::atomic::{AtomicUsize, Ordering};

use velero_api::labels;
use velero_cluster::ItemRef;
use velero_rules::resource_policies::NamespaceVerdict;

use super::collect::LISTS_AHEAD;
use super::ledger::Ledger;
use super::plan::{NAMESPACES, Plan, PlannedType};
use super::pool::{Item, is_held};
use crate::Journal;

/// What it takes to say whether an item belongs into the backup.
#[derive(Clone, Copy)]
pub(super) struct Admission<'a> {
    pub plan: &'a Plan,
    pub ledger: &'a Ledger,
    pub journal: &'a Journal,
    /// The rank of the type that is being worked on.
    pub position: &'a AtomicUsize,
}

impl Admission<'_> {
    /// Whether an item belongs into the backup, also when an action asked for it. Items that must be included pass all
    /// filters; what is being deleted never passes.
    pub(super) fn admits(&self, item: &Item, must_include: bool) -> bool {
        let entry = || self.journal.info().item(item.reference());
        let metadata = match item.raw.metadata() {
            Ok(metadata) => metadata,
            Err(error) => {
                let entry = self.journal.error().item(item.reference());
                entry.error(&error).message("Error backing up item");
                self.ledger.fail(item.reference());
                return false;
            }
        };
        if !must_include && metadata.label(labels::EXCLUDE_FROM_BACKUP) == Some("true") {
            entry().message("Excluding item because it has label velero.io/exclude-from-backup=true");
            return false;
        }
        if !must_include && !self.filters_admit(item.reference()) {
            entry().message("Excluding item because its namespace or resource type is excluded");
            return false;
        }
        if metadata.deletion_timestamp().is_some() {
            entry().message("Skipping item because it's being deleted.");
            return false;
        }
        true
    }

    /// Whether the filters let an item in, as far as its type, namespace and name can tell.
    ///
    /// They are milder with cluster-scoped items, which get here by way of actions: only an explicit exclude counts.
    pub(super) fn filters_admit(&self, item: ItemRef<'_, PlannedType>) -> bool {
        let planned = item.resource_type;
        let by_type = match item.namespace {
            Some(namespace) => planned.included && self.plan.namespaces.includes(namespace),
            None => planned.name == NAMESPACES || !planned.barred,
        };
        by_type && (self.plan.filters.is_empty() || self.policies_admit(item))
    }

    /// Whether all items of a type are still to be listed, so that none of them needs to be asked for.
    pub(super) fn comes_later(&self, planned: &PlannedType) -> bool {
        let reached = self.position.load(Ordering::Relaxed) + LISTS_AHEAD;
        let streamed =
            planned.listed && planned.order.is_empty() && !is_held(&planned.name) && planned.name != NAMESPACES;
        streamed && planned.rank > reached && self.plan.selectors.is_empty() && self.plan.filters.is_empty()
    }

    fn policies_admit(&self, item: ItemRef<'_, PlannedType>) -> bool {
        let (filters, type_name) = (&self.plan.filters, &item.resource_type.name);
        let filter = match item.namespace {
            None => filters.cluster_scoped(type_name),
            Some(namespace) => match filters.namespaced(namespace, type_name) {
                NamespaceVerdict::Filtered(filter) => Some(filter),
                // Types that a policy does not name are left out of lists; here they come from an action.
                NamespaceVerdict::NotGoverned | NamespaceVerdict::LeftOut => None,
            },
        };
        filter.is_none_or(|filter| filter.names.should_include(item.name))
    }
}

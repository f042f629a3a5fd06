//! The definitions of the custom resources in a backup, without which they could not be restored.

use std::collections::BTreeSet;

use futures::{FutureExt, StreamExt, stream};
use velero_api::type_names::CUSTOM_RESOURCE_DEFINITIONS as DEFINITIONS;
use velero_cluster::{Cluster, ItemRef};

use super::ledger::Ledger;
use super::plan::Plan;
use super::pool::Item;
use crate::Journal;

const REQUESTS_AT_A_TIME: usize = 8;

/// The definitions of all custom resources that are in the archive, unless the filters say something about
/// definitions: then these have been listed, or are not wanted.
pub(super) async fn of_custom_resources(
    plan: &Plan,
    ledger: &Ledger,
    cluster: &Cluster,
    journal: &Journal,
) -> Vec<Item> {
    let Some(planned) = plan.preferred(DEFINITIONS) else {
        return Vec::new();
    };
    if planned.included || planned.barred {
        return Vec::new();
    }
    let in_archive = plan.types().iter().filter(|found| ledger.has_any(found));
    // The group of a custom resource always holds a dot.
    let names: BTreeSet<&str> =
        in_archive.filter(|found| found.resource_type.group.contains('.')).map(|found| found.name.as_str()).collect();
    let requests = names
        .into_iter()
        .map(|name| async move { (name, cluster.get_raw(planned.resource_type.item(None, name)).await) }.boxed());
    let mut answers = stream::iter(requests.collect::<Vec<_>>()).buffered(REQUESTS_AT_A_TIME).boxed();
    let mut items = Vec::new();
    while let Some((name, answer)) = answers.next().await {
        match answer {
            Ok(Some(raw)) => {
                journal.info().message(&format!("Found associated CRD {name} to add to backup"));
                items.push(Item::new(planned, raw));
            }
            // Not a custom resource.
            Ok(None) => {}
            Err(error) => {
                let entry = journal.error().item(ItemRef::new(DEFINITIONS, None, name)).error(&error);
                entry.message("Error getting CRD");
            }
        }
    }
    items
}

//! Listing: pages of raw items, a few lists ahead of the work.

use std::sync::{Arc, Mutex};

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use serde::Deserialize;
use tokio_util::task::AbortOnDropHandle;
use velero_cluster::{Cluster, Page, RawItem};
use velero_rules::selector::SelectorSet;

use super::ledger::Ledger;
use super::plan::{NAMESPACES, Plan, PlannedType};
use super::pool::{CLAIMS, Item, Pool, VOLUMES};
use crate::stage::{self, Sums};
use crate::{Journal, lock};

/// How many lists are begun before their turn. Each holds two pages at most.
pub(super) const LISTS_AHEAD: usize = 4;

/// From so many claims on, all volumes are listed.
const MANY_CLAIMS: usize = 20;

/// What it takes to list items.
#[derive(Clone, Copy)]
pub(super) struct Lister<'a> {
    pub plan: &'a Plan,
    pub cluster: &'a Cluster,
    pub ledger: &'a Ledger,
    pub journal: &'a Journal,
    /// The most items a page may hold.
    pub page_size: u32,
    /// How long pages take.
    pub sums: &'a Arc<Sums>,
}

/// Items of one type.
pub(super) struct CollectedPage {
    pub planned: Arc<PlannedType>,
    pub items: Vec<RawItem>,
}

/// One list call.
struct Call {
    planned: Arc<PlannedType>,
    namespace: Option<String>,
    query: String,
}

type Pages = BoxStream<'static, velero_cluster::Result<Page>>;

/// Lists types in order. Lists begin a few at a time ahead of their turn; what cannot be listed is an error in the
/// journal and does not stop the others.
pub(super) fn pages<'a>(lister: Lister<'a>, types: &[Arc<PlannedType>]) -> BoxStream<'a, CollectedPage> {
    let calls: Vec<Call> = types.iter().flat_map(|planned| calls(lister.plan, planned)).collect();
    stream::iter(calls)
        .map(move |call| open(lister, call).boxed())
        .buffered(LISTS_AHEAD)
        .flat_map(move |(call, first, rest)| read(lister, call, first, rest))
        .boxed()
}

/// Lists one type to its end.
pub(super) async fn whole_type(lister: Lister<'_>, planned: &Arc<PlannedType>) -> Vec<Item> {
    let mut pages = pages(lister, std::slice::from_ref(planned));
    let mut items = Vec::new();
    while let Some(page) = pages.next().await {
        items.extend(page.items.iter().map(|raw| Item::new(&page.planned, raw.detach())));
    }
    items
}

/// The namespaces that the backup holds. They were listed before anything else.
pub(super) fn namespaces(plan: &Plan) -> Vec<Item> {
    let Some(planned) = plan.preferred(NAMESPACES) else {
        return Vec::new();
    };
    plan.namespaces.selected().into_iter().map(|raw| Item::new(planned, raw)).collect()
}

/// Lists types into the pool.
pub(super) async fn into_pool(lister: Lister<'_>, types: &[Arc<PlannedType>], pool: &Mutex<Pool>) {
    let mut pages = pages(lister, types);
    while let Some(page) = pages.next().await {
        let mut pool = lock(pool);
        page.items.iter().for_each(|raw| pool.insert(Item::new(&page.planned, raw.detach())));
    }
}

/// Lists the volumes of the claims in the pool where the filters do not list volumes for themselves: one list is
/// cheaper than a request for each claim.
pub(super) async fn volumes_of_claims(lister: Lister<'_>, pool: &Mutex<Pool>) {
    let plan = lister.plan;
    let (Some(claims), Some(volumes)) = (plan.preferred(CLAIMS), plan.preferred(VOLUMES)) else {
        return;
    };
    if volumes.listed || volumes.barred || lock(pool).len() < MANY_CLAIMS {
        return;
    }
    let mut pages = lister.cluster.list_pages(&volumes.resource_type, None, None, lister.page_size).boxed();
    // A list that breaks off is no loss: what it did not bring is asked for one by one.
    while let Some(Ok(page)) = pages.next().await {
        let mut pool = lock(pool);
        for raw in &page.items {
            let claim = claim_of(raw).filter(|claim| pool.contains(claims.item(Some(&claim.namespace), &claim.name)));
            if claim.is_some() {
                pool.insert(Item::new(volumes, raw.detach()));
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    spec: VolumeSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeSpec {
    claim_ref: Option<ClaimReference>,
}

#[derive(Deserialize)]
struct ClaimReference {
    namespace: String,
    name: String,
}

fn claim_of(volume: &RawItem) -> Option<ClaimReference> {
    serde_json::from_slice::<Volume>(volume.as_bytes()).ok()?.spec.claim_ref
}

/// The list calls for a type: one for each namespace to list and each label selector.
fn calls(plan: &Plan, planned: &Arc<PlannedType>) -> Vec<Call> {
    let call = |namespace: &Option<String>, selectors: &SelectorSet| {
        let queries = selectors.queries().into_iter();
        let make = |query| Call { planned: Arc::clone(planned), namespace: namespace.clone(), query };
        queries.map(make).collect::<Vec<_>>()
    };
    if !planned.resource_type.namespaced {
        let own = plan.filters.cluster_scoped(&planned.name);
        return call(&None, own.map_or(&plan.selectors, |filter| &filter.selectors));
    }
    let of_namespace = |namespace: &Option<String>| match namespace {
        // Namespaces differ in the labels they ask for, so each item is looked at when it has come.
        None if plan.filters.govern_namespaces() => call(namespace, &SelectorSet::default()),
        None => call(namespace, &plan.selectors),
        Some(name) => {
            plan.selectors_in(name, &planned.name).map(|selectors| call(namespace, selectors)).unwrap_or_default()
        }
    };
    plan.namespaces.to_list().iter().flat_map(of_namespace).collect()
}

/// Begins a list in a task of its own, so that its first page comes while others are worked on.
async fn open(lister: Lister<'_>, call: Call) -> (Call, Option<velero_cluster::Result<Page>>, Pages) {
    let query = Some(call.query.as_str()).filter(|query| !query.is_empty());
    let resource_type = &call.planned.resource_type;
    let pages = lister.cluster.list_pages(resource_type, call.namespace.as_deref(), query, lister.page_size).boxed();
    let mut pages = summed_up(lister.sums, &call.planned.name, pages);
    let task = AbortOnDropHandle::new(tokio::spawn(async move {
        let first = pages.next().await;
        (first, pages)
    }));
    match task.await {
        Ok((first, rest)) => (call, first, rest),
        Err(error) => {
            lister.journal.error().resource(&call.planned.name).error(&error).message("Error listing items");
            (call, None, stream::empty().boxed())
        }
    }
}

/// The same pages; where somebody wants to know, how long each took is added to those of the type.
fn summed_up(sums: &Arc<Sums>, resource: &str, pages: Pages) -> Pages {
    if !stage::is_on() {
        return pages;
    }
    let state = (Arc::clone(sums), resource.to_owned(), pages);
    stream::unfold(state, |(sums, resource, mut pages)| async move {
        let next = async { pages.next().await.transpose() };
        let page = sums.add(&resource, next).await.transpose()?;
        Some((page, (sums, resource, pages)))
    })
    .boxed()
}

/// The pages of one list, without the items that the filters leave out.
fn read<'a>(
    lister: Lister<'a>,
    call: Call,
    first: Option<velero_cluster::Result<Page>>,
    rest: Pages,
) -> BoxStream<'a, CollectedPage> {
    let mut counted = false;
    let pages = stream::iter(first).chain(rest);
    let collected = pages.filter_map(move |page| {
        let collected = match page {
            Ok(page) => {
                if !counted {
                    lister.ledger.expect(page.remaining.unwrap_or_default());
                }
                // Items of later pages were counted with the first one if the server said how many there are.
                if !counted || page.remaining.is_none() && !page.restarted {
                    lister.ledger.expect(page.items.len() as u64);
                }
                counted |= page.remaining.is_some();
                Some(select(lister, &call, page))
            }
            Err(error) => {
                let entry = lister.journal.error().resource(&call.planned.name).namespace(call.namespace.as_deref());
                entry.error(&error).message("Error listing items");
                None
            }
        };
        std::future::ready(collected)
    });
    collected.boxed()
}

/// A namespace on a page.
struct OnPage<'a> {
    name: String,
    /// What labels its items need; `None` when they are not taken.
    selectors: Option<&'a SelectorSet>,
    has_items: bool,
}

/// Leaves out the items that the list brought but the filters do not want.
fn select(lister: Lister<'_>, call: &Call, page: Page) -> CollectedPage {
    let plan = lister.plan;
    let by_query = SelectorSet::default();
    let selectors_in = |namespace: &str| match &call.namespace {
        Some(_) => Some(&by_query),
        None if !plan.namespaces.includes(namespace) => None,
        None if plan.filters.govern_namespaces() => plan.selectors_in(namespace, &call.planned.name),
        None => Some(&by_query),
    };
    let mut items = page.items;
    let found = items.len();
    let mut current: Option<OnPage<'_>> = None;
    items.retain(|item| {
        let Some(namespace) = item.namespace() else { return true };
        // Items come sorted by namespace: one question a namespace is enough.
        let current = match current.take().filter(|current| current.name == namespace) {
            Some(same) => current.insert(same),
            None => {
                let selectors = selectors_in(namespace);
                current.insert(OnPage { name: namespace.to_owned(), selectors, has_items: false })
            }
        };
        let taken = current.selectors.is_some_and(|selectors| has_labels(selectors, item));
        if taken && !current.has_items {
            current.has_items = true;
            plan.namespaces.saw_item_in(namespace);
        }
        taken
    });
    lister.ledger.forget(found - items.len());
    CollectedPage { planned: Arc::clone(&call.planned), items }
}

fn has_labels(selectors: &SelectorSet, item: &RawItem) -> bool {
    let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    selectors.is_empty()
        || item.metadata().is_ok_and(|metadata| selectors.matches(&metadata.labels().map(pair).collect()))
}

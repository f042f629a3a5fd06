//! Which namespaces a backup covers, and which namespace objects it holds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use futures::{StreamExt, TryStreamExt};
use velero_cluster::{RawItem, types};
use velero_rules::includes_excludes::{NamespaceFilter, NamespacesToList};
use velero_rules::selector::SelectorSet;

use super::{BackupError, BackupRequest};
use crate::Journal;
use crate::lock;

const MANAGED_BY_ARGO_CD: &str = "argocd.argoproj.io/managed-by";

/// The namespaces of the cluster as the backup sees them.
pub(super) struct Namespaces {
    pub filter: NamespaceFilter,
    existing: Vec<Existing>,
    included: HashMap<String, bool>,
    /// Namespaces that selected items live in.
    with_items: Mutex<HashSet<String>>,
    listed: bool,
}

struct Existing {
    item: RawItem,
    /// Whether the filters of the backup select the namespace object itself.
    selected: bool,
    managed_by_argo_cd: bool,
}

/// Lists the namespaces and expands the patterns of the backup against them.
pub(super) async fn read(
    request: &BackupRequest,
    selectors: &SelectorSet,
    journal: &Journal,
) -> Result<Namespaces, BackupError> {
    let items = list(request).await.map_err(BackupError::Namespaces)?;
    let names: Vec<String> = items.iter().map(|item| item.name().to_owned()).collect();
    let filter = filter(request, &names)?;
    let included: HashMap<String, bool> =
        names.iter().map(|name| (name.clone(), filter.should_include(name))).collect();
    let mut existing = Vec::with_capacity(items.len());
    for item in items {
        let labels = labels_of(&item);
        let active = is_active(&item);
        if !active {
            journal.info().message(&format!("Skip namespace {} because it's not in Active phase.", item.name()));
        }
        let by_labels = !selectors.is_empty() && selectors.matches(&labels);
        // A selector without any choice of namespaces asks for what it matches, not for every namespace; but the original
        // takes every namespace that no label leaves out where one does, and what it takes must not be missing here.
        let names_count = selectors.is_empty() || !filter.include_everything() || filter.leaves_out_labelled();
        let by_name = names_count && filter.should_include(item.name());
        existing.push(Existing {
            selected: active && (by_labels || by_name),
            managed_by_argo_cd: labels.get(MANAGED_BY_ARGO_CD).is_some_and(|value| !value.is_empty()),
            item,
        });
    }
    Ok(Namespaces { filter, existing, included, with_items: Mutex::default(), listed: false })
}

/// The lists of the user decide what was asked for; what the server has added to them is left out besides.
fn filter(request: &BackupRequest, existing: &[String]) -> Result<NamespaceFilter, BackupError> {
    let (asked, completed) = (&request.asked, &request.backup.spec);
    let by_label = completed.excluded_namespaces.iter().filter(|name| !asked.excluded_namespaces.contains(name));
    let filter = NamespaceFilter::expand(&asked.included_namespaces, &asked.excluded_namespaces, existing)?;
    Ok(filter.without_labelled(by_label.cloned()))
}

async fn list(request: &BackupRequest) -> velero_cluster::Result<Vec<RawItem>> {
    let mut pages = request.cluster.list_pages(&types::NAMESPACES, None, None, request.page_size).boxed();
    let mut items: Vec<RawItem> = Vec::new();
    while let Some(page) = pages.try_next().await? {
        if page.restarted {
            items.clear();
        }
        items.extend(page.items.iter().map(RawItem::detach));
    }
    Ok(items)
}

fn labels_of(item: &RawItem) -> BTreeMap<String, String> {
    let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    item.metadata().map(|metadata| metadata.labels().map(pair).collect()).unwrap_or_default()
}

fn is_active(item: &RawItem) -> bool {
    item.to_value().is_ok_and(|namespace| namespace["status"]["phase"] == "Active")
}

impl Namespaces {
    /// Whether items of a namespace are taken.
    pub(super) fn includes(&self, namespace: &str) -> bool {
        self.included.get(namespace).copied().unwrap_or_else(|| self.filter.should_include(namespace))
    }

    /// The namespaces to list items in; `None` stands for all at once.
    pub(super) fn to_list(&self) -> Vec<Option<String>> {
        match self.filter.namespaces_to_list() {
            NamespacesToList::All => vec![None],
            // One list of everything is cheaper than a list for each of most namespaces.
            NamespacesToList::These(names) if names.len() > 8 && names.len() * 2 > self.existing.len() => vec![None],
            NamespacesToList::These(names) => names.into_iter().map(Some).collect(),
        }
    }

    /// Remembers that a selected item lives in a namespace.
    pub(super) fn saw_item_in(&self, namespace: &str) {
        let mut with_items = lock(&self.with_items);
        if !with_items.contains(namespace) {
            with_items.insert(namespace.to_owned());
        }
    }

    /// Sets whether namespace objects are part of the backup at all.
    pub(super) fn set_listed(&mut self, listed: bool) {
        self.listed = listed;
    }

    /// Tells what the filters came to.
    pub(super) fn report(&self, journal: &Journal) {
        let lists = self.filter.lists();
        journal.info().message(&format!("Including namespaces: {}", lists.includes_text()));
        journal.info().message(&format!("Excluding namespaces: {}", self.filter.excludes_text()));
        let managed: Vec<&str> = self
            .existing
            .iter()
            .filter(|namespace| namespace.managed_by_argo_cd && self.includes(namespace.item.name()))
            .map(|namespace| namespace.item.name())
            .collect();
        if !managed.is_empty() {
            journal.warning().message(&format!(
                "namespaces {managed:?} are managed by Argo CD, which may undo or hinder what a restore does"
            ));
        }
        for name in self.missing() {
            journal
                .error()
                .message(&format!("fail to get the namespace {name} specified in backup.Spec.IncludedNamespaces"));
        }
    }

    /// The namespace objects to back up: those the filters select and those that hold selected items.
    pub(super) fn selected(&self) -> Vec<RawItem> {
        let with_items = lock(&self.with_items);
        let is_selected = |found: &&Existing| found.selected || with_items.contains(found.item.name());
        let existing = self.existing.iter().filter(|_| self.listed);
        existing.filter(is_selected).map(|found| found.item.clone()).collect()
    }

    /// Namespaces the backup names that do not exist.
    fn missing(&self) -> impl Iterator<Item = &str> {
        let names = self.filter.lists().includes.iter().filter(|_| self.listed);
        names.filter(|name| *name != "*" && !self.included.contains_key(*name))
    }
}

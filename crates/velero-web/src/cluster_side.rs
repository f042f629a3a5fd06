//! The side of the cluster in a comparison with a backup: listed with the rights of who asks, page by page.

use std::time::Instant;

use futures::StreamExt;
use serde_json::Value;
use tokio::time::timeout_at;
use velero_api::v1::BackupSpec;
use velero_cluster::{Discovery, RawItem, ResourceType};
use velero_rules::includes_excludes::IncludesExcludes;

use crate::comparison::{Comparison, Object, Side};
use crate::problem::{Problem, from_cluster};
use crate::user::User;

/// How many objects a page of a list has.
const PAGE: u32 = 250;
/// In how many namespaces objects are listed one by one; of more they are listed in the whole cluster.
const MOST_NAMESPACES: usize = 8;

/// The cluster in a comparison.
pub(crate) struct ClusterSide<'a> {
    user: &'a User,
    deadline: Instant,
    /// Whether the backup takes what belongs to no namespace, so that what it lacks is a difference.
    takes_cluster: bool,
    comparison: Comparison,
    /// What was not compared, and why.
    notes: Vec<String>,
}

/// Why a list came to no end.
enum NoList {
    Problem(Problem),
    Note(String),
}

impl<'a> ClusterSide<'a> {
    /// Begins with what a backup holds.
    pub(crate) fn new(user: &'a User, spec: &BackupSpec, comparison: Comparison, deadline: Instant) -> Self {
        let namespaces = IncludesExcludes::new(&spec.included_namespaces, &spec.excluded_namespaces);
        let takes_cluster = namespaces.include_everything() && spec.include_cluster_resources != Some(false);
        Self { user, deadline, takes_cluster, comparison, notes: Vec::new() }
    }

    /// Lists what the cluster has of the types and in the namespaces of the backup; says what could not be compared.
    pub(crate) async fn take(mut self) -> Result<(Comparison, Vec<String>), Problem> {
        let discovery = timeout_at(self.deadline.into(), self.user.cluster().discover()).await;
        let discovery = discovery.map_err(|_| Problem::Late)?;
        let discovery = discovery.map_err(|error| from_cluster(&self.user.name, &error))?;
        for (resource, (api_version, kind)) in self.comparison.types() {
            match find(&discovery, &resource, &api_version, &kind) {
                Ok(Some(found)) => self.take_type(found, &resource).await?,
                Ok(None) => {
                    self.notes.push(format!("{resource}: the cluster does not serve {api_version} {kind} any more"))
                }
                Err(reason) => self.leave_out(&resource, None, &reason),
            }
        }
        Ok((self.comparison, self.notes))
    }

    async fn take_type(&mut self, found: &ResourceType, resource: &str) -> Result<(), Problem> {
        let namespaces: Vec<String> = self.comparison.namespaces().iter().cloned().collect();
        let places: Vec<Option<String>> = match found.namespaced && namespaces.len() <= MOST_NAMESPACES {
            true => namespaces.into_iter().map(Some).collect(),
            false => vec![None],
        };
        for namespace in places {
            match self.take_list(found, resource, namespace.as_deref()).await {
                Ok(()) => {}
                Err(NoList::Problem(problem)) => return Err(problem),
                Err(NoList::Note(reason)) => self.leave_out(resource, namespace.as_deref(), &reason),
            }
        }
        Ok(())
    }

    async fn take_list(&mut self, found: &ResourceType, resource: &str, namespace: Option<&str>) -> Result<(), NoList> {
        let mut pages = std::pin::pin!(self.user.cluster().list_pages(found, namespace, None, PAGE));
        loop {
            let page = timeout_at(self.deadline.into(), pages.next()).await;
            let page = page.map_err(|_| NoList::Note("it took too long: look for a type or a namespace".to_owned()))?;
            let Some(page) = page else { return Ok(()) };
            let page = page.map_err(|error| match from_cluster(&self.user.name, &error) {
                problem @ Problem::BadToken => NoList::Problem(problem),
                problem => NoList::Note(problem.to_string()),
            })?;
            for item in &page.items {
                self.take_item(found, resource, item)?;
            }
        }
    }

    fn take_item(&mut self, found: &ResourceType, resource: &str, item: &RawItem) -> Result<(), NoList> {
        let object = Object { resource, namespace: item.namespace().unwrap_or_default(), name: item.name() };
        let is_in_place = match found.namespaced {
            true => self.comparison.namespaces().contains(object.namespace),
            false => self.takes_cluster || self.comparison.holds(object),
        };
        if !is_in_place || !self.comparison.is_wanted(Side::Other, object) {
            return Ok(());
        }
        let content: Value = item.to_value().map_err(|error| NoList::Note(error.to_string()))?;
        let added = self.comparison.add(Side::Other, object, content);
        added.map_err(|problem| NoList::Problem(Problem::Refused(problem.to_string())))
    }

    /// Leaves out what cannot be compared: it is neither there nor away.
    fn leave_out(&mut self, resource: &str, namespace: Option<&str>, reason: &str) {
        let count = self.comparison.forget(resource, namespace);
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        self.notes.push(format!("{resource}{place}: {count} objects were not compared: {reason}"));
    }
}

/// A type as the cluster serves it: in the version of the backup where it can.
fn find<'a>(
    discovery: &'a Discovery,
    resource: &str,
    api_version: &str,
    kind: &str,
) -> Result<Option<&'a ResourceType>, String> {
    let by_name = || discovery.resolve(resource).filter(|found| found.group_resource() == resource);
    let found = discovery.by_kind(api_version, kind).or_else(by_name);
    match found {
        Some(found) if found.supports("list") => Ok(Some(found)),
        Some(_) => Err("they cannot be listed".to_owned()),
        None if discovery.resolve_lost(resource).is_some() => Err("their API group does not answer".to_owned()),
        None => Ok(None),
    }
}

/// One object as it is in the cluster; nothing when it is not there.
pub(crate) async fn read_object(
    user: &User,
    api_version: &str,
    kind: &str,
    object: Object<'_>,
) -> Result<Option<Value>, Problem> {
    let problem = |error| from_cluster(&user.name, &error);
    let discovery = user.cluster().discover().await.map_err(problem)?;
    match find(&discovery, object.resource, api_version, kind) {
        Err(reason) => Err(Problem::Away(format!("{}: {reason}", object.resource))),
        Ok(None) => Ok(None),
        Ok(Some(found)) => {
            let namespace = Some(object.namespace).filter(|namespace| !namespace.is_empty());
            user.cluster().get(found.item(namespace, object.name)).await.map_err(problem)
        }
    }
}

#[cfg(test)]
mod tests {
    use velero_cluster::UnansweredGroup;

    use super::*;

    #[test]
    fn a_type_is_found_in_the_version_of_the_backup_before_any_other() {
        let served = |api_version: &str, verbs: &[&str]| ResourceType {
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..ResourceType::new(api_version, "Widget", "widgets", true)
        };
        let types = vec![served("shop.example/v2", &["list"]), served("shop.example/v1", &["list"])];
        let discovery = Discovery::new(types, Vec::new());
        let version = |api_version| {
            let found = find(&discovery, "widgets.shop.example", api_version, "Widget").unwrap();
            found.map(|found| found.version.clone())
        };
        assert_eq!(version("shop.example/v1").as_deref(), Some("v1"));
        assert_eq!(version("shop.example/v1alpha1").as_deref(), Some("v2"), "the one that the cluster prefers");
        assert_eq!(find(&discovery, "gadgets.shop.example", "shop.example/v1", "Gadget"), Ok(None));
        let unlisted = Discovery::new(vec![served("shop.example/v1", &["create"])], Vec::new());
        assert!(find(&unlisted, "widgets.shop.example", "shop.example/v1", "Widget").is_err());
        let lost = vec![ResourceType::new("shop.example/v1", "Widget", "widgets", true)];
        let away = Discovery::new(Vec::new(), vec![UnansweredGroup::new("shop.example", "v1", Some(lost))]);
        assert!(
            find(&away, "widgets.shop.example", "shop.example/v1", "Widget").unwrap_err().contains("does not answer")
        );
    }
}

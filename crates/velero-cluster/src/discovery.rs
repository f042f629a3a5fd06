//! What the API server serves.
//!
//! One request for the core group and one for all others, where the server offers aggregated discovery as version 2
//! (Kubernetes 1.30 and later); older servers are asked group by group.

use std::collections::HashSet;

use http::Request;
use http::header::ACCEPT;
use kube::client::{APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery, APIVersionDiscovery};
use kube::core::discovery::v2::ACCEPT_AGGREGATED_DISCOVERY_V2;
use serde::Deserialize;

use crate::connect::Cluster;
use crate::error::{Error, Result};
use crate::resource_type::ResourceType;
use crate::unanswered::UnansweredGroup;

/// The types an API server serves, in all versions. Groups stand in the order they are served in, the core group
/// first and `extensions` last; versions of a group follow its preference.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    types: Vec<ResourceType>,
    unanswered: Vec<UnansweredGroup>,
    /// The types of those groups, as they were last seen.
    lost: Vec<ResourceType>,
}

/// What was found: types that are served, and groups that do not answer.
pub(crate) type Found = (Vec<ResourceType>, Vec<UnansweredGroup>);

impl Cluster {
    /// Asks the server what it serves. A group that does not answer is no error: [`Discovery::unanswered`] tells.
    pub async fn discover(&self) -> Result<Discovery> {
        let (core, groups) = futures::try_join!(self.aggregated("/api"), self.aggregated("/apis"))?;
        let (types, mut unanswered) = match (core, groups) {
            (Some(core), Some(groups)) => from_aggregated([core, groups]),
            _ => self.discover_classic().await?,
        };
        self.memory().recall(&types, &mut unanswered);
        Ok(Discovery::new(types, unanswered))
    }

    /// The aggregated document of a root; `None` when the server does not offer it.
    async fn aggregated(&self, root: &str) -> Result<Option<APIGroupDiscoveryList>> {
        let action = format!("discover {root}");
        let request = Request::get(root)
            .header(ACCEPT, ACCEPT_AGGREGATED_DISCOVERY_V2)
            .body(Vec::new())
            .map_err(|error| Error::BadRequest { action: action.clone(), message: error.to_string() })?;
        match self.fetch(&action, request, 0).await {
            Ok(bytes) => parse_aggregated(&bytes).map_err(|error| Error::Unreadable { action, source: error.into() }),
            Err(error) if error.refusal().is_some_and(|refusal| refusal.code == 406) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Discovery {
    /// Puts types together; groups and versions are taken in the given order. The first version that serves a type is
    /// marked as preferred when none of its versions is.
    pub fn new(types: Vec<ResourceType>, mut unanswered: Vec<UnansweredGroup>) -> Self {
        let types = in_order(types);
        unanswered.iter_mut().for_each(|group| group.without_served(&types));
        let lost = in_order(unanswered.iter().flat_map(UnansweredGroup::last_seen).cloned().collect());
        Self { types, unanswered, lost }
    }

    /// Every type in the version the server prefers for it.
    pub fn preferred(&self) -> impl Iterator<Item = &ResourceType> {
        self.types.iter().filter(|item| item.preferred)
    }

    /// Every type in every version.
    pub fn all_versions(&self) -> impl Iterator<Item = &ResourceType> {
        self.types.iter()
    }

    /// The group versions that did not answer.
    pub fn unanswered(&self) -> &[UnansweredGroup] {
        &self.unanswered
    }

    /// The type of an object by its `apiVersion` and `kind`.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&ResourceType> {
        self.types.iter().find(|item| item.kind == kind && item.api_version() == api_version)
    }

    /// Finds a type by a name a person would use: `deployments`, `deployment`, `Deployment` or `deploy`, each alone or
    /// followed by `.group` or `.version.group`. As for kubectl, a plural name wins over a short name, which wins over
    /// a singular name, and the start of a group's name stands for the group when no group has that name.
    pub fn resolve(&self, name: &str) -> Option<&ResourceType> {
        resolve_among(&self.types, name)
    }

    /// Finds a type by its name among those of groups that do not answer, as they were last seen.
    pub fn resolve_lost(&self, name: &str) -> Option<&ResourceType> {
        resolve_among(&self.lost, name)
    }
}

/// Puts the types of `extensions` last and settles which version of each type is preferred. Subresources are dropped.
fn in_order(types: Vec<ResourceType>) -> Vec<ResourceType> {
    let (extensions, mut types): (Vec<_>, Vec<_>) =
        types.into_iter().filter(|item| !item.plural.contains('/')).partition(|item| item.group == "extensions");
    types.extend(extensions);
    let key = |item: &ResourceType| (item.group.clone(), item.plural.clone());
    let mut settled: HashSet<_> = types.iter().filter(|item| item.preferred).map(key).collect();
    for item in &mut types {
        item.preferred |= settled.insert(key(item));
    }
    types
}

fn resolve_among<'a>(types: &'a [ResourceType], name: &str) -> Option<&'a ResourceType> {
    let name = name.to_lowercase();
    let mut parts = name.splitn(3, '.');
    let resource = parts.next()?;
    if let (Some(version), Some(group)) = (parts.next(), parts.next())
        && let Some(found) = find(types, resource, |item| item.group == group && item.version == version)
    {
        return Some(found);
    }
    match name.split_once('.') {
        None => find(types, resource, |item| item.preferred),
        Some((_, group)) => find(types, resource, |item| item.preferred && item.group == group)
            .or_else(|| find(types, resource, |item| item.preferred && item.group.starts_with(group))),
    }
}

fn find<'a>(types: &'a [ResourceType], name: &str, wanted: impl Fn(&ResourceType) -> bool) -> Option<&'a ResourceType> {
    let by = |matches: fn(&ResourceType, &str) -> bool| types.iter().find(|item| wanted(item) && matches(item, name));
    by(|item, name| item.plural == name)
        .or_else(|| by(|item, name| item.short_names.iter().any(|short| short == name)))
        .or_else(|| by(|item, name| item.singular == name || item.kind.eq_ignore_ascii_case(name)))
}

/// Reads an aggregated document; `None` when it is a classic one.
fn parse_aggregated(bytes: &[u8]) -> serde_json::Result<Option<APIGroupDiscoveryList>> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    match serde_json::from_slice::<Kind>(bytes)?.kind.as_str() {
        "APIGroupDiscoveryList" => serde_json::from_slice(bytes).map(Some),
        _ => Ok(None),
    }
}

fn from_aggregated(documents: [APIGroupDiscoveryList; 2]) -> Found {
    let mut found = Found::default();
    for group in documents.into_iter().flat_map(|document| document.items) {
        add_group(group, &mut found);
    }
    found
}

/// A stale version carries what the API server remembers of it, if it does.
fn add_group(group: APIGroupDiscovery, (types, unanswered): &mut Found) {
    let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
    for (index, APIVersionDiscovery { version, resources, freshness }) in group.versions.into_iter().enumerate() {
        let version = version.unwrap_or_default();
        let resources: Vec<_> = resources
            .into_iter()
            .filter_map(|found| from_aggregated_resource(&name, &version, index == 0, found))
            .collect();
        if freshness.as_deref() == Some("Stale") {
            let last_seen = Some(resources).filter(|resources| !resources.is_empty());
            unanswered.push(UnansweredGroup::new(&name, &version, last_seen));
        } else {
            types.extend(resources);
        }
    }
}

fn from_aggregated_resource(
    group: &str,
    version: &str,
    preferred: bool,
    found: APIResourceDiscovery,
) -> Option<ResourceType> {
    // A resource without a kind only exists to carry subresources.
    let kind = found.response_kind.and_then(|response| response.kind).filter(|kind| !kind.is_empty())?;
    Some(ResourceType {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: found.resource?,
        singular: found.singular_resource.filter(|name| !name.is_empty()).unwrap_or_else(|| kind.to_lowercase()),
        short_names: found.short_names,
        namespaced: found.scope.as_deref() == Some("Namespaced"),
        verbs: found.verbs,
        preferred,
        kind,
    })
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;

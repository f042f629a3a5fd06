//! Before the first item: which namespaces, types and actions take part.

use std::collections::HashMap;
use std::sync::Arc;

use velero_api::records::ResourceIdentifier;
pub(super) use velero_api::type_names::NAMESPACES;
use velero_cluster::{Discovery, ItemRef, ResourceType};
use velero_plugin::{BackupItemAction, ItemBlockAction, Resolved, resolve};
use velero_rules::hooks::HookRules;
use velero_rules::ordering::{Cohabitation, ordered_names, sort_for_collection};
use velero_rules::resource_filter::{self, ResourceFilter};
use velero_rules::resource_policies::{FilterPolicies, NamespaceVerdict};
use velero_rules::selector::SelectorSet;

use super::namespaces::{self, Namespaces};
use super::{BackupError, BackupRequest, missing_types};
use crate::Journal;
use crate::journal::TypeName;
pub(super) use crate::volumes::PODS;

/// A type as the backup sees it.
pub(super) struct PlannedType {
    /// Its place among all types.
    pub index: usize,
    pub resource_type: Arc<ResourceType>,
    /// `deployments.apps`
    pub name: String,
    /// `apps/v1/Deployment`, its key in the resource list.
    pub kind_key: String,
    /// Whether the filters let its items in.
    pub included: bool,
    /// Whether its items stay out even if an action asks for them.
    pub barred: bool,
    /// Whether it is listed.
    pub listed: bool,
    /// How many types are listed before it.
    pub rank: usize,
    /// The backup item actions that may apply, by their place in the plan.
    pub backup_actions: Vec<usize>,
    /// The item block actions that may apply, by their place in the plan.
    pub block_actions: Vec<usize>,
    /// Names of items to take first.
    pub order: Vec<String>,
}

impl PlannedType {
    /// Whether its items can go from the list into the archive without being looked into.
    pub(super) fn is_plain(&self) -> bool {
        self.backup_actions.is_empty() && self.block_actions.is_empty() && self.name != PODS
    }

    /// One of its items.
    pub(super) fn item<'a>(&'a self, namespace: Option<&'a str>, name: &'a str) -> ItemRef<'a, Self> {
        ItemRef::new(self, namespace, name)
    }

    /// One of its items, as others refer to it.
    pub(super) fn identifier(&self, namespace: Option<&str>, name: &str) -> ResourceIdentifier {
        self.resource_type.identifier(namespace.unwrap_or_default(), name)
    }
}

impl TypeName for PlannedType {
    fn type_name(&self) -> &str {
        &self.name
    }
}

/// Everything that is decided before the first item.
pub(super) struct Plan {
    pub namespaces: Namespaces,
    pub selectors: SelectorSet,
    pub filters: FilterPolicies,
    pub hooks: HookRules,
    pub backup_actions: BackupActions,
    pub block_actions: BlockActions,
    types: Vec<Arc<PlannedType>>,
    preferred: HashMap<String, usize>,
}

impl Plan {
    /// The types to list, in order. Namespaces are not among them: they have been listed already.
    pub(super) fn listed(&self) -> impl Iterator<Item = Arc<PlannedType>> {
        let types = self.types.iter().filter(|planned| planned.listed);
        types.filter(|planned| planned.name != NAMESPACES).cloned()
    }

    /// All types, by their index.
    pub(super) fn types(&self) -> &[Arc<PlannedType>] {
        &self.types
    }

    /// The label selectors that count for a type in a namespace; `None` when nothing of it is taken. Those of a filter
    /// policy take the place of the backup's.
    pub(super) fn selectors_in(&self, namespace: &str, type_name: &str) -> Option<&SelectorSet> {
        match self.filters.namespaced(namespace, type_name) {
            NamespaceVerdict::NotGoverned => Some(&self.selectors),
            NamespaceVerdict::LeftOut => None,
            NamespaceVerdict::Filtered(filter) => Some(&filter.selectors),
        }
    }

    /// A type by `plural.group`, in the version the server prefers.
    pub(super) fn preferred(&self, name: &str) -> Option<&Arc<PlannedType>> {
        self.preferred.get(name).map(|index| &self.types[*index])
    }
}

/// Makes the plan of a backup.
pub(super) async fn prepare(request: &BackupRequest, journal: &Journal) -> Result<Plan, BackupError> {
    let selectors = selectors(request)?;
    let namespaces = namespaces::read(request, &selectors, journal).await?;
    let (backup_actions, block_actions) = resolve_actions(request).await?;
    let filter = resource_filter(request, &namespaces)?;
    missing_types::report(request, &filter, journal);
    let mut plan = Plan {
        namespaces,
        selectors,
        filters: filter_policies(request)?,
        hooks: hook_rules(request)?,
        backup_actions,
        block_actions,
        types: Vec::new(),
        preferred: HashMap::new(),
    };
    plan_types(&mut plan, request, &filter);
    let namespaces_are_listed = plan.preferred(NAMESPACES).is_some_and(|planned| planned.listed);
    plan.namespaces.set_listed(namespaces_are_listed);
    plan.namespaces.report(journal);
    Ok(plan)
}

fn selectors(request: &BackupRequest) -> Result<SelectorSet, BackupError> {
    let spec = &request.backup.spec;
    let field = "spec.labelSelector or spec.orLabelSelectors";
    SelectorSet::new(spec.label_selector.as_ref(), &spec.or_label_selectors)
        .map_err(|source| BackupError::Selector { field, source })
}

fn hook_rules(request: &BackupRequest) -> Result<HookRules, BackupError> {
    let field = "spec.hooks.resources.labelSelector";
    HookRules::new(&request.backup.spec.hooks, |name| type_name(request, name))
        .map_err(|source| BackupError::Selector { field, source })
}

fn filter_policies(request: &BackupRequest) -> Result<FilterPolicies, BackupError> {
    let filters = request.policies.as_ref().map(|policies| policies.filters.clone()).unwrap_or_default();
    Ok(filters.resolved(|name| type_name(request, name))?)
}

/// `plural.group` of a type, whatever name it is given by.
fn type_name(request: &BackupRequest, name: &str) -> Option<String> {
    any_type(request, name).map(ResourceType::group_resource)
}

/// A type by any of its names, also one that is out of reach: what was asked for must be known to be missing.
fn any_type<'a>(request: &'a BackupRequest, name: &str) -> Option<&'a ResourceType> {
    request.discovery.resolve(name).or_else(|| request.discovery.resolve_lost(name))
}

type BackupActions = Vec<Resolved<Arc<dyn BackupItemAction>>>;
type BlockActions = Vec<Resolved<Arc<dyn ItemBlockAction>>>;

/// Asks every action what it applies to.
async fn resolve_actions(request: &BackupRequest) -> Result<(BackupActions, BlockActions), BackupError> {
    let mut backup_actions = Vec::new();
    for action in request.actions.backup_item() {
        let selector = action.applies_to().await?;
        backup_actions.push(resolve(action.name(), Arc::clone(action), &selector, &request.discovery)?);
    }
    let mut block_actions = Vec::new();
    for action in request.actions.item_block() {
        let selector = action.applies_to().await?;
        block_actions.push(resolve(action.name(), Arc::clone(action), &selector, &request.discovery)?);
    }
    Ok((backup_actions, block_actions))
}

fn resource_filter(request: &BackupRequest, namespaces: &Namespaces) -> Result<ResourceFilter, BackupError> {
    let resolve = |name: &str| {
        any_type(request, name)
            .map(|found| resource_filter::ResourceType { name: found.group_resource(), namespaced: found.namespaced })
    };
    let mut filter = ResourceFilter::from_backup_spec(&request.asked, &namespaces.filter, resolve);
    if let Some(policy) = request.policies.as_ref().and_then(|policies| policies.include_exclude.as_ref()) {
        filter.merge_policy(policy, resolve)?;
    }
    Ok(filter)
}

/// Goes through all types the server knows: those to list in their order, then the rest, which actions may name.
fn plan_types(plan: &mut Plan, request: &BackupRequest, filter: &ResourceFilter) {
    let every_version = request.features.api_group_versions();
    let mut cohabitation = Cohabitation::default();
    for found in in_order(&request.discovery) {
        let name = found.group_resource();
        let included = filter.should_include(&name, found.namespaced);
        let version_counts = found.preferred || every_version;
        let listed =
            included && version_counts && found.can_be_backed_up() && cohabitation.admit(&found.group, &found.plural);
        let (backup_actions, block_actions) = actions_for(plan, &name);
        let index = plan.types.len();
        let rank = plan.listed().count();
        if found.preferred {
            plan.preferred.entry(name.clone()).or_insert(index);
        }
        plan.types.push(Arc::new(PlannedType {
            index,
            kind_key: format!("{}/{}", found.api_version(), found.kind),
            included,
            barred: filter.should_exclude_as_additional_item(&name, found.namespaced),
            listed,
            rank,
            backup_actions,
            block_actions,
            order: order_of(request, found),
            resource_type: Arc::new(found.clone()),
            name,
        }));
    }
}

fn in_order(discovery: &Discovery) -> Vec<&ResourceType> {
    let mut types: Vec<&ResourceType> = discovery.all_versions().collect();
    sort_for_collection(&mut types, |found| (found.group.as_str(), found.plural.as_str()));
    types
}

/// `spec.orderedResources` names types by their plural.
fn order_of(request: &BackupRequest, found: &ResourceType) -> Vec<String> {
    let names = ordered_names(&request.backup.spec.ordered_resources, &found.plural);
    names.into_iter().map(str::to_owned).collect()
}

fn actions_for(plan: &Plan, name: &str) -> (Vec<usize>, Vec<usize>) {
    fn applying<A>(actions: &[Resolved<A>], name: &str) -> Vec<usize> {
        let numbered = actions.iter().enumerate();
        numbered.filter(|(_, action)| action.applies_to_type(name)).map(|(index, _)| index).collect()
    }
    (applying(&plan.backup_actions, name), applying(&plan.block_actions, name))
}

#[cfg(test)]
impl PlannedType {
    /// A type for tests.
    pub(super) fn for_test(index: usize, resource_type: ResourceType) -> Self {
        Self {
            index,
            name: resource_type.group_resource(),
            kind_key: format!("{}/{}", resource_type.api_version(), resource_type.kind),
            included: true,
            barred: false,
            listed: true,
            rank: index,
            backup_actions: Vec::new(),
            block_actions: Vec::new(),
            order: Vec::new(),
            resource_type: Arc::new(resource_type),
        }
    }
}

//! Types that a restore asks for and does not get: names that mean nothing. A type in the backup that the cluster does
//! not serve is an error of each of its items.

use velero_cluster::Discovery;
use velero_rules::includes_excludes::PatternSet;

use super::RestoreRequest;
use super::contents::Contents;
use super::selection::Selection;
use crate::Journal;
use crate::type_names::{Meaning, NamedType, meaning};

/// Tells which names mean nothing, before the first item.
pub(super) fn report(request: &RestoreRequest, contents: &Contents, selection: &Selection, journal: &Journal) {
    let types: Vec<&str> = contents.types().keys().map(AsRef::as_ref).collect();
    for problem in named(request).iter().filter_map(|named| problem(&request.discovery, &types, selection, named)) {
        journal.warning().message(&problem);
    }
}

fn named(request: &RestoreRequest) -> Vec<NamedType<'_>> {
    let spec = &request.restore.spec;
    let mut named: Vec<_> = NamedType::list("spec.includedResources", &spec.included_resources).collect();
    if let Some(status) = &spec.restore_status {
        named.extend(NamedType::list("spec.restoreStatus.includedResources", &status.included_resources));
    }
    if let Some(policies) = &request.policies {
        let [cluster_scoped, namespaced] = policies.filters.kinds();
        let of_policy = |field| move |name| NamedType { field, name };
        named.extend(cluster_scoped.into_iter().map(of_policy("clusterScopedFilterPolicy")));
        named.extend(namespaced.into_iter().map(of_policy("namespacedFilterPolicies")));
    }
    named
}

/// What is wrong with a name: neither the cluster nor the backup knows it, or such objects are never restored.
fn problem(discovery: &Discovery, types: &[&str], selection: &Selection, named: &NamedType<'_>) -> Option<String> {
    let NamedType { field, name } = named;
    let pattern = PatternSet::from_iter([*name]);
    let is_in_backup = types.iter().any(|resource| pattern.matches(resource));
    match meaning(discovery, name) {
        Meaning::Served(found) if selection.excludes_type(&found.group_resource()) => {
            let resource = found.group_resource();
            Some(format!("{field}: {name:?} restores nothing: {resource} are excluded, or never restored"))
        }
        Meaning::Pattern | Meaning::Served(_) => None,
        _ if is_in_backup => None,
        Meaning::OutOfReach(silent) => {
            let lost = discovery.resolve_lost(name).map(|lost| lost.group_resource());
            let is_in_backup = lost.is_some_and(|lost| types.contains(&lost.as_str()));
            let text = "and the backup holds nothing of that name; repair the APIService";
            (!is_in_backup).then(|| format!("{field}: {name:?}: {silent}, {text}"))
        }
        Meaning::Nothing => Some(format!(
            "{field}: {name:?} names no type that the cluster serves or the backup holds; check the spelling, or give \
             the plural name with the group"
        )),
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::RestoreSpec;
    use velero_cluster::{ResourceType, UnansweredGroup, types};

    use super::*;

    #[test]
    fn a_name_that_neither_the_cluster_nor_the_backup_knows_is_told() {
        let boxes = ResourceType::new("seen.example.com/v1", "Box", "boxes", true);
        let unanswered = vec![
            UnansweredGroup::new("seen.example.com", "v1", Some(vec![boxes])),
            UnansweredGroup::new("never.example.com", "v1", None),
        ];
        let nodes =
            ResourceType { short_names: vec!["no".to_owned()], ..ResourceType::new("v1", "Node", "nodes", false) };
        let discovery = Discovery::new(vec![types::PODS.clone(), nodes], unanswered);
        let spec = RestoreSpec { excluded_resources: vec!["nodes".to_owned()], ..RestoreSpec::default() };
        let selection = Selection::new(&spec, None, &discovery).unwrap();
        let types = ["pods", "boxes.seen.example.com", "things.never.example.com", "widgets.example.com"];
        for (name, expected) in [
            ("*", None),
            ("pod", None),
            ("box", None),
            ("things.never.example.com", None),
            ("*.never.example.com", None),
            ("widgets.example.com", None),
            ("widgets", Some("the plural name with the group")),
            ("wodgets.example.com", Some("names no type")),
            ("others.never.example.com", Some("APIService v1.never.example.com")),
            ("no", Some("never restored")),
        ] {
            let named = NamedType { field: "spec.includedResources", name };
            let found = problem(&discovery, &types, &selection, &named);
            match expected {
                None => assert_eq!(found, None, "{name}"),
                Some(expected) => {
                    assert!(found.as_ref().is_some_and(|text| text.contains(expected)), "{name}: {found:?}");
                }
            }
        }
    }
}

use std::collections::BTreeMap;

use velero_cluster::{ResourceType, types};

use super::super::contents::{Collector, NewItem};
use super::*;

fn contents(items: &[(&str, &str, &str)]) -> Contents {
    let mut collector = Collector::new(u64::MAX, &std::env::temp_dir());
    for (resource, namespace, name) in items {
        let namespace = Some(*namespace).filter(|namespace| !namespace.is_empty());
        let completed = name.starts_with("done");
        let body = b"{\"metadata\":{}}";
        collector.add(NewItem { resource, version: None, namespace, name, body, selected: true, completed }).unwrap();
    }
    collector.finish().unwrap()
}

fn discovery() -> Discovery {
    let types = vec![
        types::PODS.clone(),
        types::CONFIG_MAPS.clone(),
        types::NAMESPACES.clone(),
        ResourceType::new("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
        ResourceType::new("apps/v1", "Deployment", "deployments", true),
        types::CUSTOM_RESOURCE_DEFINITIONS.clone(),
    ];
    Discovery::new(types, Vec::new())
}

fn plan(items: &[(&str, &str, &str)], spec: &RestoreSpec) -> Plan {
    plan_with(items, spec).0
}

fn plan_with(items: &[(&str, &str, &str)], spec: &RestoreSpec) -> (Plan, Vec<String>) {
    let contents = contents(items);
    let selection = Selection::new(spec, None, &discovery()).unwrap();
    let plan = Plan::new(&contents, &selection, spec, &Priorities::default(), &discovery()).unwrap();
    let text = |step: &Step| {
        let name =
            |item: PlannedItem<'_>| format!("{} {}/{}", step.resource, item.namespace.unwrap_or_default(), item.name);
        step.items(&contents).map(name).collect::<Vec<_>>()
    };
    let planned = plan.steps.iter().flat_map(text).collect();
    (plan, planned)
}

const SHOP: &[(&str, &str, &str)] = &[
    ("configmaps", "bank", "a"),
    ("configmaps", "shop", "a"),
    ("deployments.apps", "shop", "web"),
    ("pods", "shop", "web-0"),
    ("clusterroles.rbac.authorization.k8s.io", "", "reader"),
    ("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com"),
    ("widgets.example.com", "shop", "one"),
    ("namespaces", "", "shop"),
    ("namespaces", "", "empty"),
];

#[test]
fn types_follow_the_priorities_and_the_total_is_known() {
    let (plan, items) = plan_with(SHOP, &RestoreSpec::default());
    assert_eq!(
        items,
        [
            "customresourcedefinitions.apiextensions.k8s.io /widgets.example.com",
            "clusterroles.rbac.authorization.k8s.io /reader",
            "configmaps bank/a",
            "configmaps shop/a",
            "pods shop/web-0",
            "deployments.apps shop/web",
            "widgets.example.com shop/one",
        ]
    );
    assert_eq!(plan.namespaces.keys().collect::<Vec<_>>(), ["bank", "empty", "shop"]);
    assert_eq!(plan.total(), 10);
}

#[test]
fn some_namespaces_alone_leave_cluster_scoped_items_out_unless_they_are_asked_for() {
    let mut spec = RestoreSpec { included_namespaces: vec!["shop".to_owned()], ..RestoreSpec::default() };
    let items = |spec: &RestoreSpec| plan_with(SHOP, spec).1;
    let chosen = plan(SHOP, &spec);
    assert!(!items(&spec).iter().any(|item| item.contains(" /")), "{:?}", items(&spec));
    assert_eq!(chosen.namespaces.keys().collect::<Vec<_>>(), ["shop"]);
    spec.include_cluster_resources = Some(true);
    assert!(items(&spec).iter().any(|item| item.contains("/reader")));
    spec = RestoreSpec { include_cluster_resources: Some(false), ..RestoreSpec::default() };
    assert!(!items(&spec).iter().any(|item| item.contains(" /")));
}

#[test]
fn a_pattern_that_matches_no_namespace_restores_nothing() {
    let spec = RestoreSpec { included_namespaces: vec!["nowhere-*".to_owned()], ..RestoreSpec::default() };
    assert_eq!(plan(SHOP, &spec).total(), 0);
}

#[test]
fn two_namespaces_mapped_to_one_give_each_name_once() {
    let mapping = BTreeMap::from([("bank", "all"), ("shop", "all")]);
    let mapping = mapping.into_iter().map(|(from, to)| (from.to_owned(), to.to_owned())).collect();
    let spec = RestoreSpec { namespace_mapping: mapping, ..RestoreSpec::default() };
    let (plan, items) = plan_with(SHOP, &spec);
    assert_eq!(items.iter().filter(|item| item.starts_with("configmaps")).count(), 1);
    assert_eq!(plan.namespaces.keys().collect::<Vec<_>>(), ["all", "empty"]);
}

#[test]
fn what_is_completed_is_not_planned_but_its_namespace_is() {
    let all = [("pods", "shop", "done-1"), ("pods", "bank", "web")];
    let (plan, items) = plan_with(&all, &RestoreSpec::default());
    assert_eq!(items, ["pods bank/web"]);
    assert_eq!(plan.completed.len(), 1);
    assert_eq!(plan.namespaces.len(), 2);
}

#[test]
fn definitions_come_first_whatever_the_priorities_say() {
    let order = ["pods", "secrets", DEFINITIONS, "services"].map(str::to_owned).to_vec();
    assert_eq!(definitions_first(order), [DEFINITIONS, "pods", "secrets", "services"]);
}

#[test]
fn admission_comes_last_whatever_the_priorities_say() {
    let [validating, mutating] = ["validating", "mutating"];
    let hook = |kind: &str| format!("{kind}webhookconfigurations.admissionregistration.k8s.io");
    let policy = |part: &str| format!("validatingadmission{part}.admissionregistration.k8s.io");
    let order = vec![
        hook(validating),
        "pods".to_owned(),
        policy("policybindings"),
        policy("policies"),
        hook(mutating),
        "z".to_owned(),
    ];
    let expected = [
        "pods".to_owned(),
        "z".to_owned(),
        policy("policies"),
        policy("policybindings"),
        hook(mutating),
        hook(validating),
    ];
    assert_eq!(admission_last(order), expected);
}

#[test]
fn an_action_may_ask_for_cluster_scoped_items_unless_they_were_ruled_out() {
    let spec = RestoreSpec { included_namespaces: vec!["shop".to_owned()], ..RestoreSpec::default() };
    let scope = plan(SHOP, &spec).scope;
    assert!(scope.admits(None) && scope.admits(Some("shop")) && !scope.admits(Some("bank")));
    let spec = RestoreSpec { include_cluster_resources: Some(false), ..RestoreSpec::default() };
    assert!(!plan(SHOP, &spec).scope.admits(None));
}

#[test]
fn work_of_velero_is_seen_from_every_namespace_and_brings_none() {
    let all = [SHOP, &[("datauploads.velero.io", "velero-of-old", "b-1")]].concat();
    let spec = RestoreSpec { included_namespaces: vec!["shop".to_owned()], ..RestoreSpec::default() };
    let (plan, items) = plan_with(&all, &spec);
    assert!(items.contains(&"datauploads.velero.io velero-of-old/b-1".to_owned()), "{items:?}");
    assert_eq!(plan.namespaces.keys().collect::<Vec<_>>(), ["shop"]);
}

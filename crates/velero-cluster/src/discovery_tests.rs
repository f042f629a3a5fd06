//! Tests of discovery on documents as the API server sends them.

use super::*;
use crate::unanswered::Loss;

const CORE: &str = include_str!("../tests/data/aggregated-api.json");
const GROUPS: &str = include_str!("../tests/data/aggregated-apis.json");

fn discovery() -> Discovery {
    let parse = |text: &str| parse_aggregated(text.as_bytes()).unwrap().unwrap();
    let (types, unanswered) = from_aggregated([parse(CORE), parse(GROUPS)]);
    Discovery::new(types, unanswered)
}

fn names<'a>(types: impl Iterator<Item = &'a ResourceType>) -> Vec<String> {
    types.map(|item| format!("{}/{}", item.group_resource(), item.version)).collect()
}

#[test]
fn preferred_types_follow_the_served_order_with_extensions_last() {
    assert_eq!(
        names(discovery().preferred()),
        [
            "bindings/v1",
            "pods/v1",
            "namespaces/v1",
            "events/v1",
            "persistentvolumes/v1",
            "deployments.apps/v1",
            "events.events.k8s.io/v1",
            "horizontalpodautoscalers.autoscaling/v2",
            "widgets.example.com/v2",
            "gadgets.example.com/v1",
            "pods.metrics.k8s.io/v1beta1",
            "deployments.extensions/v1beta1",
        ]
    );
}

#[test]
fn a_type_the_preferred_version_lacks_is_preferred_in_the_next() {
    let discovery = discovery();
    let gadgets: Vec<_> = discovery.all_versions().filter(|item| item.plural == "gadgets").collect();
    assert_eq!(gadgets.len(), 1);
    assert!(gadgets[0].preferred && gadgets[0].version == "v1");
    assert_eq!(names(discovery.all_versions().filter(|item| item.plural == "widgets")).len(), 2);
}

#[test]
fn only_types_with_all_verbs_can_be_backed_up() {
    let discovery = discovery();
    let backupable = names(discovery.preferred().filter(|item| item.can_be_backed_up()));
    assert!(backupable.contains(&"pods/v1".to_owned()));
    assert!(!backupable.contains(&"bindings/v1".to_owned()), "bindings cannot be listed");
    assert!(!backupable.contains(&"pods.metrics.k8s.io/v1beta1".to_owned()), "metrics cannot be created");
}

#[test]
fn a_stale_group_is_told_and_its_types_are_not_served() {
    let discovery = discovery();
    let unanswered: Vec<_> = discovery.unanswered().iter().map(UnansweredGroup::api_service).collect();
    assert_eq!(unanswered, ["v1.broken.example.com"]);
    assert_eq!(discovery.unanswered()[0].loss(), Loss::Unknown);
    assert!(discovery.resolve_lost("widgets").is_none());
}

#[test]
fn a_stale_group_keeps_what_the_server_remembers_of_it() {
    let stale = GROUPS.replace("\"Current\"", "\"Stale\"");
    let parse = |text: &str| parse_aggregated(text.as_bytes()).unwrap().unwrap();
    let (types, unanswered) = from_aggregated([parse(CORE), parse(&stale)]);
    let discovery = Discovery::new(types, unanswered);
    assert!(discovery.resolve("deploy").is_none() && discovery.resolve("pods").is_some());
    assert_eq!(discovery.resolve_lost("deploy").unwrap().group_resource(), "deployments.apps");
    let loss = |group: &str| discovery.unanswered().iter().find(|silent| silent.group == group).unwrap().loss();
    assert!(matches!(loss("apps"), Loss::Types(types) if types[0].plural == "deployments"));
    assert_eq!(loss("metrics.k8s.io"), Loss::Nothing);
}

#[test]
fn names_resolve_as_kubectl_resolves_them() {
    let discovery = discovery();
    for (name, expected) in [
        ("pods", Some("pods/v1")),
        ("pod", Some("pods/v1")),
        ("Pod", Some("pods/v1")),
        ("po", Some("pods/v1")),
        ("pods.v1.", Some("pods/v1")),
        ("pv", Some("persistentvolumes/v1")),
        ("events", Some("events/v1")),
        ("events.events.k8s.io", Some("events.events.k8s.io/v1")),
        ("events.events", Some("events.events.k8s.io/v1")),
        ("deploy", Some("deployments.apps/v1")),
        ("deployments", Some("deployments.apps/v1")),
        ("deployments.apps", Some("deployments.apps/v1")),
        ("deployments.extensions", Some("deployments.extensions/v1beta1")),
        ("deploy.ext", Some("deployments.extensions/v1beta1")),
        ("Deployment.v1.apps", Some("deployments.apps/v1")),
        ("hpa", Some("horizontalpodautoscalers.autoscaling/v2")),
        ("horizontalpodautoscalers.v1.autoscaling", Some("horizontalpodautoscalers.autoscaling/v1")),
        ("widgets.v1.example.com", Some("widgets.example.com/v1")),
        ("widgets.example.com", Some("widgets.example.com/v2")),
        ("gadget", Some("gadgets.example.com/v1")),
        ("pods.metrics.k8s.io", Some("pods.metrics.k8s.io/v1beta1")),
        ("unknown", None),
        ("pods.nowhere", None),
        ("", None),
    ] {
        let found = discovery.resolve(name).map(|item| names(std::iter::once(item)).remove(0));
        assert_eq!(found.as_deref(), expected, "{name}");
    }
}

#[test]
fn a_plural_name_wins_over_a_short_name_and_that_over_a_singular_one() {
    let mut first = ResourceType::new("a.example.com/v1", "Thing", "things", true);
    first.short_names = vec!["box".to_owned(), "boxes".to_owned()];
    let second = ResourceType::new("b.example.com/v1", "Box", "boxes", true);
    let discovery = Discovery::new(vec![first, second], Vec::new());
    assert_eq!(discovery.resolve("boxes").unwrap().kind, "Box");
    assert_eq!(discovery.resolve("box").unwrap().kind, "Thing");
}

#[test]
fn objects_find_their_type_by_kind() {
    let discovery = discovery();
    assert_eq!(discovery.by_kind("apps/v1", "Deployment").unwrap().plural, "deployments");
    assert_eq!(discovery.by_kind("v1", "Pod").unwrap().plural, "pods");
    assert!(discovery.by_kind("apps/v2", "Deployment").is_none());
}

#[test]
fn a_classic_document_is_told_apart() {
    assert!(parse_aggregated(br#"{"kind":"APIGroupList","groups":[]}"#).unwrap().is_none());
    assert!(parse_aggregated(b"<html>").is_err());
}

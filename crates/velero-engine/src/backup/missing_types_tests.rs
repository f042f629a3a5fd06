//! Tests of what a backup says about types that it does not get.

use velero_api::v1::BackupSpec;
use velero_cluster::ResourceType;
use velero_rules::includes_excludes::NamespaceFilter;
use velero_rules::resource_filter;

use super::*;

fn served(api_version: &str, kind: &str, plural: &str, verbs: &[&str]) -> ResourceType {
    let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
    ResourceType { verbs, ..ResourceType::new(api_version, kind, plural, kind != "ClusterRole") }
}

const ALL: [&str; 4] = ["list", "get", "create", "delete"];

/// A cluster in which one group was seen before it fell silent, one was never seen and one only ever served readings.
fn discovery() -> Discovery {
    let boxes = served("seen.example.com/v1", "Box", "boxes", &ALL);
    let readings = served("readings.example.com/v1", "Reading", "readings", &["get", "list"]);
    let types = vec![
        served("v1", "Pod", "pods", &ALL),
        served("v1", "Binding", "bindings", &["create"]),
        served("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", &ALL),
        served("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "volumesnapshots", &ALL),
    ];
    let unanswered = vec![
        UnansweredGroup::new("seen.example.com", "v1", Some(vec![boxes])),
        UnansweredGroup::new("never.example.com", "v1", None),
        UnansweredGroup::new("readings.example.com", "v1", Some(vec![readings])),
        UnansweredGroup::new("metrics.k8s.io", "v1beta1", None),
    ];
    Discovery::new(types, unanswered)
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&item| item.to_owned()).collect()
}

fn filter(discovery: &Discovery, spec: &BackupSpec) -> ResourceFilter {
    let namespaces = NamespaceFilter::expand(&spec.included_namespaces, &spec.excluded_namespaces, &[]).unwrap();
    ResourceFilter::from_backup_spec(spec, &namespaces, |name| {
        let found = discovery.resolve(name).or_else(|| discovery.resolve_lost(name))?;
        Some(resource_filter::ResourceType { name: found.group_resource(), namespaced: found.namespaced })
    })
}

/// `E` or `W` and the APIService, for each group that is told.
fn told(included: &[&str], excluded: &[&str]) -> Vec<String> {
    let discovery = discovery();
    let spec = BackupSpec {
        included_resources: strings(included),
        excluded_resources: strings(excluded),
        ..BackupSpec::default()
    };
    let any = NamedType::list("spec.includedResources", &spec.included_resources).collect();
    let included = Included { any, ..Included::default() };
    let filter = filter(&discovery, &spec);
    let verdicts = discovery.unanswered().iter().filter_map(|silent| {
        let (level, text) = verdict(&discovery, silent, &filter, &included)?;
        assert!(text.contains(&silent.to_string()), "{text}");
        Some(format!("{} {}", if level == Level::Error { 'E' } else { 'W' }, silent.group))
    });
    verdicts.collect()
}

#[test]
fn a_group_that_cannot_be_asked_is_an_error_where_something_asked_for_is_missing_and_else_a_warning() {
    let (seen, never) = ("E seen.example.com", "W never.example.com");
    let table: &[(&[&str], &[&str], &[&str])] = &[
        (&[], &[], &[seen, never]),
        (&["*"], &[], &[seen, never]),
        (&["boxes"], &[], &[seen, never]),
        (&["box"], &[], &[seen, never]),
        (&["boxes.seen.example.com"], &[], &[seen, never]),
        (&["*.seen.example.com"], &[], &[seen, never]),
        (&["pods"], &[], &["W seen.example.com", never]),
        (&["pods", "things.never.example.com"], &[], &["W seen.example.com", "E never.example.com"]),
        (&["*.never.example.com"], &[], &["W seen.example.com", "E never.example.com"]),
        (&[], &["boxes"], &[never]),
        (&[], &["*.seen.example.com", "*.never.example.com"], &[]),
        (&[], &["*.example.com"], &[]),
    ];
    for (included, excluded, expected) in table {
        assert_eq!(told(included, excluded), *expected, "{included:?} {excluded:?}");
    }
}

#[test]
fn a_name_that_adds_nothing_is_told_with_its_field() {
    let discovery = discovery();
    let table: &[(&str, Option<bool>, Option<&str>)] = &[
        ("*", None, None),
        ("pods", None, None),
        ("po*", None, None),
        ("things.never.example.com", None, None),
        ("boxes", None, None),
        ("thingz", None, Some("spec.includedResources: \"thingz\" names no type that the cluster serves")),
        ("*.example.org", None, Some("names no type")),
        ("bindings", None, Some("cannot be backed up")),
        ("volumesnapshots.snapshot.storage.k8s.io", None, Some("only with the volumes")),
        ("pods", Some(true), None),
        ("pods", Some(false), Some("pods are namespaced")),
        ("clusterrole", Some(true), Some("are cluster-scoped")),
    ];
    for (name, namespaced, expected) in table {
        let named = NamedType { field: "spec.includedResources", name };
        let found = problem(&discovery, &named, *namespaced);
        match expected {
            None => assert_eq!(found, None),
            Some(expected) => assert!(found.as_ref().is_some_and(|text| text.contains(expected)), "{name}: {found:?}"),
        }
    }
}

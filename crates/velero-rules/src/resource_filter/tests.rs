use super::*;

const CLUSTER_SCOPED: [&str; 6] = [
    "namespaces",
    "persistentvolumes",
    "clusterroles.rbac.authorization.k8s.io",
    "storageclasses.storage.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
];

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&item| item.to_owned()).collect()
}

fn resolve(name: &str) -> Option<ResourceType> {
    let known = [
        ("po", "pods"),
        ("pods", "pods"),
        ("configmaps", "configmaps"),
        ("deploy", "deployments.apps"),
        ("deployments", "deployments.apps"),
        ("volumesnapshots.snapshot.storage.k8s.io", "volumesnapshots.snapshot.storage.k8s.io"),
        ("namespaces", "namespaces"),
        ("pv", "persistentvolumes"),
        ("persistentvolumes", "persistentvolumes"),
        ("clusterroles", "clusterroles.rbac.authorization.k8s.io"),
        ("storageclasses", "storageclasses.storage.k8s.io"),
        ("volumesnapshotcontents.snapshot.storage.k8s.io", "volumesnapshotcontents.snapshot.storage.k8s.io"),
    ];
    let (_, full) = known.into_iter().find(|(written, full)| *written == name || *full == name)?;
    Some(ResourceType { name: full.to_owned(), namespaced: !CLUSTER_SCOPED.contains(&full) })
}

fn filter(spec: &BackupSpec) -> ResourceFilter {
    filter_beside(spec, &[])
}

fn filter_beside(spec: &BackupSpec, labelled_out: &[&str]) -> ResourceFilter {
    assert!(validate_and_complete(&mut spec.clone()).is_empty());
    let existing = strings(&["default", "app"]);
    let namespaces = NamespaceFilter::expand(&spec.included_namespaces, &spec.excluded_namespaces, &existing).unwrap();
    let namespaces = namespaces.without_labelled(strings(labelled_out));
    ResourceFilter::from_backup_spec(spec, &namespaces, resolve)
}

fn listed(spec: &BackupSpec) -> Vec<&'static str> {
    let filter = filter(spec);
    let types = [
        "pods",
        "deployments.apps",
        "volumesnapshots.snapshot.storage.k8s.io",
        "namespaces",
        "persistentvolumes",
        "clusterroles.rbac.authorization.k8s.io",
        "volumesnapshotcontents.snapshot.storage.k8s.io",
    ];
    types.into_iter().filter(|name| filter.should_include(name, !CLUSTER_SCOPED.contains(name))).collect()
}

const ALL: &[&str] =
    &["pods", "deployments.apps", "namespaces", "persistentvolumes", "clusterroles.rbac.authorization.k8s.io"];
const NAMESPACED: &[&str] = &["pods", "deployments.apps", "namespaces"];

#[test]
fn a_backup_without_any_filter_takes_every_type_but_snapshots() {
    assert_eq!(listed(&BackupSpec::default()), ALL);
    assert_eq!(listed(&BackupSpec { included_namespaces: strings(&["*"]), ..Default::default() }), ALL);
}

#[test]
fn a_namespace_filter_leaves_out_cluster_scoped_types() {
    let some = BackupSpec { included_namespaces: strings(&["app"]), ..Default::default() };
    assert_eq!(listed(&some), NAMESPACED);
    let without = BackupSpec { excluded_namespaces: strings(&["app"]), ..Default::default() };
    assert_eq!(listed(&without), NAMESPACED);
    let each = BackupSpec { included_namespaces: strings(&["app", "default"]), ..Default::default() };
    assert_eq!(listed(&each), ALL);
}

#[test]
fn a_namespace_that_a_label_leaves_out_is_no_filter_of_the_user() {
    let roles = "clusterroles.rbac.authorization.k8s.io";
    let old = BackupSpec { included_resources: strings(&["*"]), ..Default::default() };
    for spec in [BackupSpec::default(), old] {
        assert!(filter_beside(&spec, &["app"]).should_include(roles, false), "{spec:?}");
    }
    let chosen = BackupSpec { excluded_namespaces: strings(&["app"]), ..Default::default() };
    assert!(!filter_beside(&chosen, &["app"]).should_include(roles, false));
}

#[test]
fn asking_for_snapshots_alone_does_not_ask_for_everything() {
    let (snapshots, contents) = (ALWAYS_EXCLUDED_NAMESPACED, ALWAYS_EXCLUDED_CLUSTER_SCOPED);
    let old = BackupSpec { included_resources: strings(&[snapshots]), ..Default::default() };
    assert_eq!(listed(&old), Vec::<&str>::new());
    let cluster = BackupSpec { included_cluster_scoped_resources: strings(&[contents]), ..Default::default() };
    assert_eq!(listed(&cluster), NAMESPACED);
    let namespaced = BackupSpec { included_namespace_scoped_resources: strings(&[snapshots]), ..Default::default() };
    assert_eq!(listed(&namespaced), ["namespaces"]);
}

#[test]
fn a_completed_backup_that_is_created_again_means_the_same() {
    for spec in [BackupSpec::default(), BackupSpec { included_resources: strings(&["*"]), ..Default::default() }] {
        let mut completed = spec.clone();
        validate_and_complete(&mut completed);
        assert_eq!(listed(&completed), listed(&spec));
    }
}

#[test]
fn a_group_is_excluded_by_a_pattern_over_all_its_types() {
    let old = |excluded: &str| BackupSpec { excluded_resources: strings(&[excluded]), ..Default::default() };
    for (excluded, expected) in
        [("*.gone.example.com", true), ("*.example.com", true), ("things.gone.example.com", false), ("*.apps", false)]
    {
        assert_eq!(filter(&old(excluded)).excludes_group("gone.example.com"), expected, "{excluded}");
    }
    let one_scope =
        BackupSpec { excluded_namespace_scoped_resources: strings(&["*.gone.example.com"]), ..Default::default() };
    assert!(!filter(&one_scope).excludes_group("gone.example.com"));
}

#[test]
fn the_older_family_follows_its_switch() {
    let spec = |switch, namespaces: &[&str], included: &[&str], excluded: &[&str]| BackupSpec {
        include_cluster_resources: switch,
        included_namespaces: strings(namespaces),
        included_resources: strings(included),
        excluded_resources: strings(excluded),
        ..Default::default()
    };
    let table: &[(BackupSpec, &[&str])] = &[
        (spec(Some(true), &["app"], &[], &[]), ALL),
        (spec(Some(false), &[], &[], &[]), &["pods", "deployments.apps"]),
        (spec(None, &[], &["*"], &[]), ALL),
        (spec(None, &["app"], &["*"], &[]), NAMESPACED),
        (spec(None, &[], &["po", "pv"], &[]), &["pods", "persistentvolumes"]),
        (spec(None, &["app"], &["po", "pv"], &[]), &["pods"]),
        (spec(None, &["app"], &["*"], &["namespaces"]), &["pods", "deployments.apps"]),
        (spec(None, &[], &["unknown"], &[]), &[]),
        (spec(None, &[], &["*.apps"], &[]), &["deployments.apps"]),
        (spec(Some(true), &[], &[], &["deploy"]), &["pods", "namespaces", "persistentvolumes", ALL[4]]),
    ];
    for (spec, expected) in table {
        assert_eq!(listed(spec), *expected, "{spec:?}");
    }
}

#[test]
fn the_scoped_family_follows_its_lists() {
    let spec =
        |cluster_in: &[&str], cluster_out: &[&str], namespaced_in: &[&str], namespaced_out: &[&str]| BackupSpec {
            included_cluster_scoped_resources: strings(cluster_in),
            excluded_cluster_scoped_resources: strings(cluster_out),
            included_namespace_scoped_resources: strings(namespaced_in),
            excluded_namespace_scoped_resources: strings(namespaced_out),
            ..Default::default()
        };
    let table: &[(BackupSpec, &[&str])] = &[
        (spec(&["*"], &[], &[], &[]), ALL),
        (spec(&["*"], &["pv"], &[], &[]), &["pods", "deployments.apps", "namespaces", ALL[4]]),
        (spec(&["pv"], &[], &[], &[]), &["pods", "deployments.apps", "namespaces", "persistentvolumes"]),
        (spec(&[], &["pv"], &[], &[]), NAMESPACED),
        (spec(&[], &["*"], &[], &[]), &["pods", "deployments.apps"]),
        (spec(&[], &[], &["po"], &[]), &["pods", "namespaces"]),
        (spec(&[], &[], &["*"], &[]), ALL),
        (spec(&[], &[], &[], &["deploy"]), &["pods", "namespaces"]),
        (spec(&[], &[], &[], &["*"]), &["namespaces"]),
        (spec(&["*"], &[], &[], &["*"]), &["namespaces", "persistentvolumes", ALL[4]]),
        (spec(&["po"], &[], &["pv"], &[]), NAMESPACED),
        (spec(&["namespaces"], &[], &["po"], &[]), &["pods", "namespaces"]),
    ];
    for (spec, expected) in table {
        assert_eq!(listed(spec), *expected, "{spec:?}");
    }
}

#[test]
fn additional_items_are_kept_out_only_by_what_was_said() {
    let table = [
        (BackupSpec::default(), "persistentvolumes", false, false),
        (BackupSpec::default(), "volumesnapshots.snapshot.storage.k8s.io", true, true),
        (BackupSpec { include_cluster_resources: Some(false), ..Default::default() }, "persistentvolumes", false, true),
        (
            BackupSpec {
                include_cluster_resources: Some(true),
                included_resources: strings(&["po"]),
                ..Default::default()
            },
            "persistentvolumes",
            false,
            false,
        ),
        (BackupSpec { included_resources: strings(&["po"]), ..Default::default() }, "persistentvolumes", false, true),
        (BackupSpec { included_resources: strings(&["po"]), ..Default::default() }, "configmaps", true, false),
        (BackupSpec { excluded_resources: strings(&["configmaps"]), ..Default::default() }, "configmaps", true, true),
        (
            BackupSpec { included_cluster_scoped_resources: strings(&["clusterroles"]), ..Default::default() },
            "persistentvolumes",
            false,
            false,
        ),
        (
            BackupSpec { excluded_cluster_scoped_resources: strings(&["*"]), ..Default::default() },
            "persistentvolumes",
            false,
            true,
        ),
        (BackupSpec { excluded_namespace_scoped_resources: strings(&["*"]), ..Default::default() }, "pods", true, true),
    ];
    for (spec, name, namespaced, excluded) in table {
        let filter = filter(&spec);
        assert_eq!(filter.should_exclude_as_additional_item(name, namespaced), excluded, "{name} {spec:?}");
    }
}

#[test]
fn what_the_backup_says_wins_over_a_policy() {
    let mut decided = filter(&BackupSpec {
        included_namespace_scoped_resources: strings(&["pods"]),
        excluded_cluster_scoped_resources: strings(&["pv"]),
        ..Default::default()
    });
    let policy = IncludeExcludePolicy {
        included_namespace_scoped_resources: strings(&["deploy", "configmaps"]),
        excluded_namespace_scoped_resources: strings(&["po", "configmaps"]),
        included_cluster_scoped_resources: strings(&["pv", "clusterroles", "deploy"]),
        excluded_cluster_scoped_resources: vec![],
    };
    decided.merge_policy(&policy, resolve).unwrap();
    assert!(decided.should_include("pods", true));
    assert!(decided.should_include("deployments.apps", true));
    assert!(!decided.should_include("configmaps", true));
    assert!(!decided.should_include("persistentvolumes", false));
    assert!(decided.should_include("clusterroles.rbac.authorization.k8s.io", false));
}

#[test]
fn a_policy_ends_a_backup_of_everything() {
    let mut all = filter(&BackupSpec::default());
    all.merge_policy(&IncludeExcludePolicy::default(), resolve).unwrap();
    assert!(all.should_include("persistentvolumes", false));
    let policy =
        IncludeExcludePolicy { excluded_cluster_scoped_resources: strings(&["clusterroles"]), ..Default::default() };
    all.merge_policy(&policy, resolve).unwrap();
    assert!(!all.should_include("persistentvolumes", false));
}

#[test]
fn a_policy_cannot_join_the_older_family() {
    let mut old = filter(&BackupSpec { included_resources: strings(&["po"]), ..Default::default() });
    assert_eq!(old.merge_policy(&IncludeExcludePolicy::default(), resolve), Err(PolicyNotApplicable));
}

#[test]
fn snapshots_are_moved_from_the_includes_to_the_excludes() {
    let snapshots = "volumesnapshots.snapshot.storage.k8s.io";
    let mut spec = BackupSpec { included_resources: strings(&["po", snapshots]), ..Default::default() };
    assert!(validate_and_complete(&mut spec).is_empty());
    assert_eq!(spec.included_resources, ["po"]);
    assert_eq!(spec.excluded_resources, [snapshots, "volumesnapshotcontents.snapshot.storage.k8s.io"]);
    assert!(validate_and_complete(&mut spec).is_empty());
    assert_eq!(spec.excluded_resources.len(), 2, "completing twice adds nothing");
}

#[test]
fn bad_lists_are_reported_with_their_field() {
    let mut mixed = BackupSpec {
        included_resources: strings(&["po"]),
        excluded_cluster_scoped_resources: strings(&["pv"]),
        ..Default::default()
    };
    assert_eq!(validate_and_complete(&mut mixed), [MIXED_FAMILIES]);

    let mut old = BackupSpec { excluded_resources: strings(&["*"]), ..Default::default() };
    assert_eq!(
        validate_and_complete(&mut old),
        ["Invalid included/excluded resource lists: excludes list cannot contain '*'"]
    );
    assert_eq!(old.excluded_resources, ["*"], "an invalid list is left as it is");

    let mut new = BackupSpec {
        included_cluster_scoped_resources: strings(&["a"]),
        excluded_cluster_scoped_resources: strings(&["*"]),
        included_namespace_scoped_resources: strings(&["*", "a"]),
        ..Default::default()
    };
    assert_eq!(
        validate_and_complete(&mut new),
        [
            "Invalid cluster-scoped included/excluded resource lists: when exclude is '*', include cannot have value",
            "Invalid namespace-scoped included/excluded resource lists: includes list must either contain '*' only, or a non-empty list of items",
        ]
    );
}

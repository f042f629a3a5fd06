use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&item| item.to_owned()).collect()
}

fn facts<'a>() -> BackupFacts<'a> {
    BackupFacts {
        storage_location: StorageLocationFacts::Found { read_only: false, available: true },
        namespaces_labelled_out: &[],
        policies: Ok(None),
    }
}

#[test]
fn a_plain_backup_is_valid_and_gets_its_filters() {
    let mut spec = BackupSpec::default();
    let labelled = strings(&["scratch"]);
    let facts = BackupFacts { namespaces_labelled_out: &labelled, ..facts() };
    assert!(complete_and_validate(&mut spec, &facts).is_empty());
    assert_eq!(spec.included_namespaces, ["*"]);
    assert_eq!(spec.excluded_namespaces, ["scratch"]);
    assert_eq!(spec.excluded_cluster_scoped_resources, ["volumesnapshotcontents.snapshot.storage.k8s.io"]);
    assert_eq!(spec.excluded_namespace_scoped_resources, ["volumesnapshots.snapshot.storage.k8s.io"]);
    let completed = spec.clone();
    assert!(complete_and_validate(&mut spec, &facts).is_empty());
    assert_eq!(spec, completed, "completing twice changes nothing");
}

#[test]
fn a_namespace_that_is_asked_for_and_labelled_out_is_refused_with_the_reason() {
    let labelled = strings(&["scratch"]);
    let facts = BackupFacts { namespaces_labelled_out: &labelled, ..facts() };
    let mut spec = BackupSpec { included_namespaces: strings(&["scratch"]), ..Default::default() };
    let problems = complete_and_validate(&mut spec, &facts);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].contains("includes list: scratch: its label velero.io/exclude-from-backup=true"),
        "{problems:?}"
    );
    let mut by_user = BackupSpec {
        included_namespaces: strings(&["scratch"]),
        excluded_namespaces: strings(&["scratch"]),
        ..Default::default()
    };
    let problems = complete_and_validate(&mut by_user, &facts);
    assert!(problems[0].ends_with("includes list: scratch"), "{problems:?}");
}

#[test]
fn the_storage_location_must_be_usable() {
    let table = [
        (
            StorageLocationFacts::Found { read_only: true, available: true },
            "backup can't be created because backup storage location default is currently in read-only mode",
        ),
        (
            StorageLocationFacts::Found { read_only: false, available: false },
            "backup can't be created because BackupStorageLocation default is in Unavailable status.",
        ),
        (
            StorageLocationFacts::NotFound { chosen_by_server: true, error: "gone".into() },
            "an existing backup storage location was not specified at backup creation time and the server default \
             default does not exist. Please address this issue (see `velero backup-location -h` for options) and \
             create a new backup. Error: gone",
        ),
        (
            StorageLocationFacts::NotFound { chosen_by_server: false, error: "gone".into() },
            "an existing backup storage location was not specified at backup creation time and the default default \
             was not found. Please address this issue (see `velero backup-location -h` for options) and create a new \
             backup. Error: gone",
        ),
        (
            StorageLocationFacts::Unreadable { error: "forbidden".into() },
            "error getting backup storage location: forbidden",
        ),
    ];
    for (storage_location, message) in table {
        let mut spec = BackupSpec { storage_location: "default".into(), ..Default::default() };
        let facts = BackupFacts { storage_location, ..facts() };
        assert_eq!(complete_and_validate(&mut spec, &facts), [message]);
    }
}

#[test]
fn each_field_is_reported_with_its_prefix() {
    let mut spec = BackupSpec {
        included_namespaces: strings(&["a", "*"]),
        excluded_namespaces: strings(&["b("]),
        included_resources: strings(&["a"]),
        excluded_resources: strings(&["a"]),
        label_selector: Some(LabelSelector::default()),
        or_label_selectors: vec![LabelSelector::default()],
        ..Default::default()
    };
    assert_eq!(
        complete_and_validate(&mut spec, &facts()),
        [
            "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: a",
            "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
            "Invalid included/excluded namespace lists: wildcard pattern contains unsupported characters: |, (, ), !, {, }, ,",
            "encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified",
        ]
    );
}

#[test]
fn a_label_selector_that_cannot_be_used_is_reported() {
    let selector =
        LabelSelector { match_labels: Some([("a b".to_owned(), "c".to_owned())].into()), ..Default::default() };
    let mut spec = BackupSpec { label_selector: Some(selector), ..Default::default() };
    let problems = complete_and_validate(&mut spec, &facts());
    assert!(problems[0].starts_with("invalid label selector: label selector key \"a b\""), "{problems:?}");
}

#[test]
fn policies_need_the_newer_filters() {
    let policies = ResourcePolicies::parse(
        "version: v1
includeExcludePolicy: {excludedClusterScopedResources: [a]}
clusterScopedFilterPolicy: {resourceFilters: [{kinds: [b]}]}",
    )
    .unwrap();
    let with_policies = BackupFacts { policies: Ok(Some(&policies)), ..facts() };
    assert!(complete_and_validate(&mut BackupSpec::default(), &with_policies).is_empty());
    let mut old = BackupSpec { include_cluster_resources: Some(true), ..Default::default() };
    let problems = complete_and_validate(&mut old, &with_policies);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].ends_with("They cannot be used with include-exclude policies."));
    assert!(problems[1].ends_with("fine-grained global filter policies."));

    let unusable = BackupFacts { policies: Err(Unusable("no such ConfigMap".into())), ..facts() };
    let problems = complete_and_validate(&mut BackupSpec::default(), &unusable);
    assert_eq!(problems, ["invalid resource policies: no such ConfigMap"]);
}

#[test]
fn one_snapshot_location_is_chosen_for_each_provider() {
    let location = |name: &str, provider: &str| SnapshotLocation { name: name.into(), provider: provider.into() };
    let existing = [location("aws-1", "aws"), location("aws-2", "aws"), location("gcp-1", "gcp")];
    let defaults = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(provider, name)| ((*provider).to_owned(), (*name).to_owned())).collect()
    };
    let choose = |requested: &[&str], pairs: &[(&str, &str)]| {
        choose_snapshot_locations(&strings(requested), &existing, &defaults(pairs))
    };
    assert_eq!(choose(&["aws-2"], &[]), Ok(strings(&["aws-2", "gcp-1"])));
    assert_eq!(choose(&["aws-2", "aws-2"], &[]), Ok(strings(&["aws-2", "gcp-1"])));
    assert_eq!(choose(&[], &[("aws", "aws-1")]), Ok(strings(&["aws-1", "gcp-1"])));
    assert_eq!(
        choose(&[], &[]),
        Err(strings(&[
            "provider aws has more than one possible volume snapshot location, and none were specified explicitly or as a default"
        ]))
    );
    assert!(choose(&[], &[("aws", "gone")]).unwrap_err()[0].contains("named gone"));
    assert!(choose(&["aws-1", "aws-2"], &[]).unwrap_err()[0].contains("unexpected name was aws-1"));
    assert!(choose(&["nope"], &[]).unwrap_err()[0].contains("for the location nope"));
}

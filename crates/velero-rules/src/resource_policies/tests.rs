use super::*;
use serde_json::json;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn policy(conditions: &str) -> ResourcePolicies {
    let yaml = format!("version: v1\nvolumePolicies:\n- conditions: {conditions}\n  action: {{type: skip}}\n");
    ResourcePolicies::parse(&yaml).unwrap()
}

fn volume() -> VolumeData {
    let volume = json!({"spec": {
        "capacity": {"storage": "10Gi"},
        "storageClassName": "gp2",
        "csi": {"driver": "ebs.csi.aws.com", "volumeAttributes": {"type": "gp3", "zone": "a"}},
    }});
    let claim = json!({
        "metadata": {"labels": {"app": "db", "tier": "gold"}},
        "spec": {"volumeMode": "Block", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
        "status": {"phase": "Bound"},
    });
    VolumeData::of_persistent_volume(&volume).with_claim(&claim)
}

#[test]
fn conditions_match_as_the_table_says() {
    let table = [
        ("{}", true),
        ("{capacity: '10Gi,20Gi'}", true),
        ("{capacity: '1Gi,10Gi'}", true),
        ("{capacity: '11Gi,'}", false),
        ("{capacity: ',5Gi'}", false),
        ("{capacity: ',10Gi'}", true),
        ("{capacity: ','}", true),
        ("{storageClass: [gp2, io1]}", true),
        ("{storageClass: [io1]}", false),
        ("{nfs: {}}", false),
        ("{nfs: null}", true),
        ("{csi: {}}", true),
        ("{csi: {driver: ebs.csi.aws.com}}", true),
        ("{csi: {driver: other}}", false),
        ("{csi: {driver: ebs.csi.aws.com, volumeAttributes: {type: gp3}}}", true),
        ("{csi: {driver: ebs.csi.aws.com, volumeAttributes: {type: gp2}}}", false),
        ("{volumeTypes: [nfs, csi]}", true),
        ("{volumeTypes: [nfs]}", false),
        ("{pvcLabels: {app: db}}", true),
        ("{pvcLabels: {app: db, tier: silver}}", false),
        ("{pvcPhase: [Pending, Bound]}", true),
        ("{pvcPhase: [Lost]}", false),
        ("{pvcVolumeMode: Block}", true),
        ("{pvcVolumeMode: Filesystem}", false),
        ("{pvcAccessModes: [ReadOnlyMany, ReadWriteOnce]}", true),
        ("{pvcAccessModes: [ReadWriteOnce]}", false),
        ("{storageClass: [gp2], pvcLabels: {app: web}}", false),
    ];
    for (conditions, expected) in table {
        assert_eq!(policy(conditions).volume_action(&volume()).is_some(), expected, "{conditions}");
    }
}

#[test]
fn an_nfs_condition_may_leave_server_or_path_open() {
    let pod_volume = VolumeData::of_pod_volume(&json!({"name": "data", "nfs": {"server": "s1", "path": "/a"}}));
    let table = [
        ("{nfs: {}}", true),
        ("{nfs: {server: s1}}", true),
        ("{nfs: {server: s2}}", false),
        ("{nfs: {path: /a}}", true),
        ("{nfs: {path: /b}}", false),
        ("{nfs: {server: s2, path: /a}}", false),
        ("{volumeTypes: [nfs]}", true),
        ("{csi: {}}", false),
    ];
    for (conditions, expected) in table {
        assert_eq!(policy(conditions).volume_action(&pod_volume).is_some(), expected, "{conditions}");
    }
}

#[test]
fn volume_types_are_recognised() {
    let kind = |value| VolumeData::of_pod_volume(&value).volume_type;
    assert_eq!(kind(json!({"name": "a", "emptyDir": {}})), "emptyDir");
    assert_eq!(kind(json!({"name": "a", "configMap": {"name": "x"}})), "configMap");
    assert_eq!(kind(json!({"name": "a", "persistentVolumeClaim": {"claimName": "x"}})), "");
    assert_eq!(kind(json!({"name": "a", "storageos": {}})), "storageOS");
    assert_eq!(kind(json!({"name": "a", "image": {"reference": "registry.example.com/models:1"}})), "image");
}

#[test]
fn the_first_matching_policy_wins() {
    let policies = ResourcePolicies::parse(
        "version: v1
volumePolicies:
- conditions: {capacity: '100Gi,'}
  action: {type: snapshot}
- conditions: {storageClass: [gp2]}
  action: {type: fs-backup, parameters: {speed: slow}}
- conditions: {}
  action: {type: skip}
",
    )
    .unwrap();
    let action = policies.volume_action(&volume()).unwrap();
    assert_eq!(action.kind, VolumeActionType::FsBackup);
    assert_eq!(action.parameters["speed"], "slow");
    assert_eq!(policies.volume_action(&VolumeData::default()).unwrap().kind, VolumeActionType::Skip);
}

#[test]
fn global_policies_are_asked_last() {
    let mut own = policy("{storageClass: [gp2]}");
    let global =
        ResourcePolicies::parse("version: v1\nvolumePolicies: [{conditions: {}, action: {type: custom}}]").unwrap();
    own.append_global(&global);
    assert_eq!(own.volume_action(&volume()).unwrap().kind, VolumeActionType::Skip);
    assert_eq!(own.volume_action(&VolumeData::default()).unwrap().kind, VolumeActionType::Custom);
}

#[test]
fn documents_are_refused_with_their_reason() {
    let table = [
        ("version: v2", "incompatible version number v2 with supported version v1"),
        ("volumePolicies: []", "incompatible version number  with supported version v1"),
        ("version: v1\nvolumePolicies: [{action: {type: copy}}]", "invalid action type copy"),
        (
            "version: v1\nvolumePolicies: [{conditions: {pvcVolumeMode: block}, action: {type: skip}}]",
            "volumePolicies[0].conditions.pvcVolumeMode: \"block\" is unknown, use Filesystem, Block",
        ),
        (
            "version: v1\nvolumePolicies: [{conditions: {pvcAccessModes: [RWO]}, action: {type: skip}}]",
            "volumePolicies[0].conditions.pvcAccessModes: \"RWO\" is unknown, use ReadWriteOnce, ReadOnlyMany, \
             ReadWriteMany, ReadWriteOncePod",
        ),
        (
            "version: v1\nvolumePolicies: [{conditions: {capacity: '5Gi,1Gi'}, action: {type: skip}}]",
            "illegal values for capacity 5Gi,1Gi",
        ),
        (
            "version: v1\nvolumePolicies: [{conditions: {capacity: 5Gi}, action: {type: skip}}]",
            "wrong format of Capacity 5Gi",
        ),
        (
            "version: v1\nvolumePolicies: [{conditions: {csi: {volumeAttributes: {a: b}}}, action: {type: skip}}]",
            "csi driver should not be empty when filtering by volume attributes",
        ),
        (
            "version: v1\nincludeExcludePolicy: {includedClusterScopedResources: ['*']}",
            "cannot use '*' in includes or excludes filters in the policy",
        ),
        (
            "version: v1\nincludeExcludePolicy: {includedNamespaceScopedResources: [a], excludedNamespaceScopedResources: [a]}",
            "excludes list cannot contain an item in the includes list: a",
        ),
        ("version: v1\nvolumePolicy: []", "volumePolicy"),
        ("version: v1\nvolumePolicies: [{conditions: {size: 1}, action: {type: skip}}]", "size"),
        ("version: v1\nvolumePolicies: [{conditions: {pvcLabels: [a]}, action: {type: skip}}]", "failed to decode"),
    ];
    for (yaml, reason) in table {
        let error = ResourcePolicies::parse(yaml).unwrap_err().to_string();
        assert!(error.contains(reason), "{yaml}\n{error}");
    }
}

#[test]
fn numbers_and_flags_are_read_as_text_where_text_is_wanted() {
    let policies = policy("{pvcLabels: {version: 1, enabled: true}}");
    let data = VolumeData { claim_labels: labels(&[("version", "1"), ("enabled", "true")]), ..Default::default() };
    assert!(policies.volume_action(&data).is_some());
}

#[test]
fn a_config_map_holds_exactly_one_document() {
    assert!(ResourcePolicies::from_config_map(&labels(&[("policy", "version: v1")])).is_ok());
    assert_eq!(ResourcePolicies::from_config_map(&labels(&[])), Err(PolicyError::DataKeys { keys: 0 }));
    let two = labels(&[("a", "version: v1"), ("b", "version: v1")]);
    assert_eq!(ResourcePolicies::from_config_map(&two), Err(PolicyError::DataKeys { keys: 2 }));
}

#[test]
fn a_restore_knows_object_filters_only() {
    assert!(ResourcePolicies::parse("version: v1").unwrap().validate_for_restore().is_ok());
    assert!(policy("{}").validate_for_restore().is_err());
    assert!(ResourcePolicies::parse("version: v1\nincludeExcludePolicy: {}").unwrap().validate_for_restore().is_err());
}

const FILTERS: &str = "version: v1
clusterScopedFilterPolicy:
  resourceFilters:
  - kinds: [clusterroles]
    names: ['app-*']
    excludedNames: [app-old]
namespacedFilterPolicies:
- namespaces: ['team-*']
  resourceFilters:
  - kinds: [configmaps]
    labelSelector: {matchLabels: {backup: 'yes'}}
  - kinds: ['*']
- namespaces: [team-a]
  resourceFilters:
  - kinds: [secrets]
    orLabelSelectors:
    - matchExpressions: [{key: a, operator: Exists}]
    - matchLabels: {b: '1'}
";

#[test]
fn object_filters_go_by_name_before_pattern() {
    let resolve = |name: &str| (name == "clusterroles").then(|| "clusterroles.rbac.authorization.k8s.io".to_owned());
    let filters = ResourcePolicies::parse(FILTERS).unwrap().filters.resolved(resolve).unwrap();
    assert!(!filters.is_empty());

    let roles = filters.cluster_scoped("clusterroles.rbac.authorization.k8s.io").unwrap();
    assert!(roles.names.should_include("app-1") && !roles.names.should_include("app-old"));
    assert_eq!(filters.cluster_scoped("persistentvolumes"), None);

    assert_eq!(filters.namespaced("default", "configmaps"), NamespaceVerdict::NotGoverned);
    assert_eq!(filters.namespaced("team-a", "configmaps"), NamespaceVerdict::LeftOut);
    let NamespaceVerdict::Filtered(secrets) = filters.namespaced("team-a", "secrets") else {
        panic!("team-a has a filter for secrets");
    };
    assert_eq!(secrets.selectors.queries(), ["a", "b=1"]);
    let NamespaceVerdict::Filtered(maps) = filters.namespaced("team-b", "configmaps") else {
        panic!("team-b has a filter for configmaps");
    };
    assert!(maps.selectors.matches(&labels(&[("backup", "yes")])) && !maps.selectors.matches(&labels(&[])));
    let NamespaceVerdict::Filtered(any) = filters.namespaced("team-b", "pods") else {
        panic!("team-b has a catch-all filter");
    };
    assert!(any.selectors.is_empty());
}

#[test]
fn one_type_under_two_names_has_one_filter() {
    let resolve = |name: &str| (name == "cm").then(|| "configmaps".to_owned());
    let resolved = |filters: &str| {
        let policy = format!("{{namespaces: [shop], resourceFilters: [{filters}]}}");
        let document = format!("version: v1\nnamespacedFilterPolicies: [{policy}]");
        ResourcePolicies::parse(&document).unwrap().filters.resolved(resolve)
    };
    assert!(resolved("{kinds: [cm, configmaps], names: [a]}").is_ok());
    assert!(resolved("{kinds: [cm], names: [a]}, {kinds: [secrets], names: [b]}").is_ok());
    let refused = resolved("{kinds: [cm], names: [a]}, {kinds: [configmaps], names: [b]}").unwrap_err().to_string();
    assert!(refused.contains("is configmaps") && refused.contains("make one filter"), "{refused}");
}

#[test]
fn malformed_object_filters_are_refused() {
    let namespaced = |body: &str| format!("version: v1\nnamespacedFilterPolicies: [{body}]");
    let table = [
        (namespaced("{namespaces: [a]}"), "namespacedFilterPolicies[0]: at least one resourceFilter must be specified"),
        (namespaced("{resourceFilters: [{kinds: [a]}]}"), "at least one namespace must be specified"),
        (
            namespaced("{namespaces: ['a**'], resourceFilters: [{}]}"),
            "namespaces[0]: wildcard pattern contains consecutive",
        ),
        (
            namespaced("{namespaces: [a], resourceFilters: [{}]}, {namespaces: [a], resourceFilters: [{}]}"),
            "duplicate namespace pattern 'a' found in policies [0 1]",
        ),
        (namespaced("{namespaces: [a], resourceFilters: [{}, {kinds: ['*']}]}"), "only one catch-all"),
        (namespaced("{namespaces: [a], resourceFilters: [{names: [x]}]}"), "cannot be specified for catch-all"),
        (
            namespaced("{namespaces: [a], resourceFilters: [{kinds: [p]}, {kinds: [p]}]}"),
            "kind \"p\" appears in both resourceFilters[0] and resourceFilters[1]",
        ),
        (namespaced("{namespaces: [a], resourceFilters: [{kinds: [p], names: ['[a-z0-9]']}]}"), "invalid glob pattern"),
        (
            namespaced(
                "{namespaces: [a], resourceFilters: [{kinds: [p], labelSelector: {matchLabels: {a: b}}, orLabelSelectors: [{}]}]}",
            ),
            "labelSelector and orLabelSelectors cannot co-exist",
        ),
        ("version: v1\nclusterScopedFilterPolicy: {}".to_owned(), "resourceFilters cannot be empty"),
        (
            "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: ['*']}]}".to_owned(),
            "kinds must be specified",
        ),
    ];
    for (yaml, reason) in table {
        let error = ResourcePolicies::parse(&yaml).unwrap_err().to_string();
        assert!(error.contains(reason), "{yaml}\n{error}");
    }
}

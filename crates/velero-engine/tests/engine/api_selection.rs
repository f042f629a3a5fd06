//! Which objects a backup holds, against a real API server.

use crate::support::{Scene, config_maps};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;
use velero_api::v1::BackupSpec;
use velero_cluster::types;
use velero_rules::resource_policies::ResourcePolicies;
use velero_testkit::cluster_test;

fn app(value: &str) -> LabelSelector {
    LabelSelector { match_labels: Some([("app".to_owned(), value.to_owned())].into()), ..LabelSelector::default() }
}

#[test]
fn a_backup_of_a_namespace_holds_its_objects_and_the_namespace() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.config_map("mine", json!({})).await;
        let taken = scene.back_up(scene.own_namespace()).await;
        let namespace = &scene.namespace;
        assert_eq!(taken.paths[0], "metadata/version");
        let plain = format!("resources/configmaps/namespaces/{namespace}/mine.json");
        let versioned = format!("resources/configmaps/v1-preferredversion/namespaces/{namespace}/mine.json");
        assert_eq!(taken.body(&plain), taken.body(&versioned));
        assert_eq!(taken.body(&plain)["kind"], "ConfigMap");
        assert_eq!(taken.body(&plain)["apiVersion"], "v1");
        assert!(taken.has(&format!("resources/namespaces/cluster/{namespace}.json")));
        assert_eq!(taken.paths.iter().filter(|path| path.starts_with("resources/namespaces/cluster/")).count(), 1);
        let foreign =
            taken.paths.iter().find(|path| path.contains("/namespaces/") && !path.contains(namespace.as_str()));
        assert_eq!(foreign, None);
        assert!(taken.outcome.resource_list.to_map()["v1/ConfigMap"].contains(&format!("{namespace}/mine")));
        let listed: usize = taken.outcome.resource_list.to_map().values().map(Vec::len).sum();
        assert_eq!(taken.outcome.progress.items_backed_up, listed as i64);
        assert_eq!(taken.progress, taken.outcome.progress);
        assert_eq!(taken.progress.total_items, taken.progress.items_backed_up);
        assert_eq!(taken.journal.counts().errors, 0, "{:?}", taken.journal.results());
    });
}

#[test]
fn what_is_labelled_or_being_deleted_stays_out() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.config_map("kept", json!({"velero.io/exclude-from-backup": "false"})).await;
        scene.config_map("excluded", json!({"velero.io/exclude-from-backup": "true"})).await;
        let going = json!({"metadata": {"name": "going", "finalizers": ["example.com/hold"]}});
        scene.create(&config_maps(), going).await;
        scene.cluster.delete(config_maps().item(Some(&scene.namespace), "going"), &Default::default()).await.unwrap();
        let taken = scene.back_up(scene.own_namespace()).await;
        let names = taken.names("configmaps", &scene.namespace);
        assert!(names.contains(&"kept"), "{names:?}");
        assert!(!names.contains(&"excluded") && !names.contains(&"going"), "{names:?}");
        let free = json!({"metadata": {"finalizers": null}});
        scene.cluster.merge_patch(config_maps().item(Some(&scene.namespace), "going"), &free).await.unwrap();
    });
}

#[test]
fn a_selector_takes_matching_objects_and_the_namespaces_they_are_in() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let value = scene.namespace.as_str();
        scene.config_map("match", json!({"app": value})).await;
        scene.config_map("other", json!({"app": "other"})).await;
        let spec = BackupSpec { label_selector: Some(app(value)), ..BackupSpec::default() };
        let taken = scene.back_up(spec).await;
        assert_eq!(taken.names("configmaps", value), ["match"]);
        let namespaces: Vec<_> =
            taken.paths.iter().filter(|path| path.starts_with("resources/namespaces/cluster/")).collect();
        assert_eq!(namespaces, [&format!("resources/namespaces/cluster/{value}.json")]);
    });
}

#[test]
fn an_object_that_matches_two_selectors_is_stored_once() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.config_map("both", json!({"app": "a", "tier": "b"})).await;
        scene.config_map("one", json!({"app": "a"})).await;
        let tier = LabelSelector {
            match_labels: Some([("tier".to_owned(), "b".to_owned())].into()),
            ..LabelSelector::default()
        };
        let spec = BackupSpec { or_label_selectors: vec![app("a"), tier], ..scene.own_namespace() };
        let taken = scene.back_up(spec).await;
        assert_eq!(taken.names("configmaps", &scene.namespace), ["both", "one"]);
        assert_eq!(taken.progress.total_items, taken.progress.items_backed_up);
    });
}

#[test]
fn old_and_new_filters_choose_types() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.config_map("mine", json!({})).await;
        scene.create(&types::SECRETS, json!({"metadata": {"name": "hidden"}})).await;
        let only = BackupSpec { included_resources: vec!["cm".to_owned()], ..scene.own_namespace() };
        let taken = scene.back_up(only).await;
        assert_eq!(taken.names("secrets", &scene.namespace), Vec::<&str>::new());
        assert!(taken.names("configmaps", &scene.namespace).contains(&"mine"));
        assert!(!taken.has(&format!("resources/namespaces/cluster/{}.json", scene.namespace)));
        let but =
            BackupSpec { excluded_namespace_scoped_resources: vec!["secrets".to_owned()], ..scene.own_namespace() };
        let taken = scene.back_up(but).await;
        assert_eq!(taken.names("secrets", &scene.namespace), Vec::<&str>::new());
        assert!(taken.has(&format!("resources/namespaces/cluster/{}.json", scene.namespace)));
    });
}

#[test]
fn a_backup_without_filters_takes_cluster_scoped_types_too() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let taken =
            scene.back_up(BackupSpec { included_namespaces: vec!["*".to_owned()], ..BackupSpec::default() }).await;
        assert!(taken.has("resources/clusterroles.rbac.authorization.k8s.io/cluster/cluster-admin.json"));
        assert!(taken.has("resources/namespaces/cluster/kube-system.json"));
        let first = taken.paths.iter().find(|path| path.starts_with("resources/events.events.k8s.io/"));
        assert_eq!(first, None, "events belong to the core group");
    });
}

#[test]
fn a_namespace_that_the_server_leaves_out_is_no_choice_of_the_user() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.config_map("mine", json!({"app": "x"})).await;
        let left_out = |spec: BackupSpec| {
            let mut request = scene.request(spec);
            request.backup.spec.excluded_namespaces.push(scene.namespace.clone());
            request
        };
        let taken = scene.try_back_up(left_out(BackupSpec::default())).await.unwrap();
        assert!(taken.has("resources/clusterroles.rbac.authorization.k8s.io/cluster/cluster-admin.json"));
        assert_eq!(taken.names("configmaps", &scene.namespace), Vec::<&str>::new());
        let value = format!("only-{}", scene.namespace);
        let selected = BackupSpec { label_selector: Some(app(&value)), ..BackupSpec::default() };
        let taken = scene.try_back_up(left_out(selected)).await.unwrap();
        // As the original does: beside a namespace that is left out, a selector takes all other namespaces.
        assert!(taken.has("resources/namespaces/cluster/default.json"));
        assert!(!taken.has(&format!("resources/namespaces/cluster/{}.json", scene.namespace)));
    });
}

#[test]
fn a_filter_policy_means_the_same_whether_namespaces_are_listed_at_once_or_one_by_one() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        let value = scene.namespace.as_str();
        scene.config_map("of-backup", json!({"app": value})).await;
        scene.config_map("of-policy", json!({"tier": value})).await;
        scene.config_map("of-none", json!({})).await;
        let policies = format!(
            "version: v1\nnamespacedFilterPolicies:\n- namespaces: [{value}]\n  resourceFilters:\n  \
             - kinds: [ConfigMap]\n    labelSelector: {{matchLabels: {{tier: {value}}}}}\n"
        );
        let policies = ResourcePolicies::from_config_map(&[("policies".to_owned(), policies)].into()).unwrap();
        for namespaces in ["*", value] {
            let mut request = scene.request(BackupSpec {
                included_namespaces: vec![namespaces.to_owned()],
                label_selector: Some(app(value)),
                ..BackupSpec::default()
            });
            request.policies = Some(policies.clone());
            let taken = scene.try_back_up(request).await.unwrap();
            assert_eq!(taken.names("configmaps", value), ["of-policy"], "{namespaces}");
            let others = taken.paths.iter().find(|path| path.starts_with("resources/") && !path.contains(value));
            assert_eq!(others, None, "the selector of the backup counts where no policy is");
        }
    });
}

#[test]
fn a_namespace_that_does_not_exist_is_an_error_and_the_rest_is_saved() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        scene.config_map("mine", json!({})).await;
        let mut spec = scene.own_namespace();
        spec.included_namespaces.push("no-such-namespace".to_owned());
        let taken = scene.back_up(spec).await;
        assert!(taken.names("configmaps", &scene.namespace).contains(&"mine"));
        assert_eq!(taken.journal.counts().errors, 1);
        let results = taken.journal.results();
        assert!(results.errors.velero[0].contains("no-such-namespace"), "{results:?}");
    });
}

#[test]
fn named_objects_come_first_and_missing_ones_are_a_warning() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        for name in ["a", "b", "c", "d"] {
            scene.config_map(name, json!({"app": "ordered"})).await;
        }
        let namespace = &scene.namespace;
        let order = format!("{namespace}/c,{namespace}/nobody,{namespace}/b");
        let spec = BackupSpec {
            ordered_resources: [("configmaps".to_owned(), order)].into(),
            label_selector: Some(app("ordered")),
            ..scene.own_namespace()
        };
        let taken = scene.back_up(spec).await;
        assert_eq!(taken.names("configmaps", namespace), ["c", "b", "a", "d"]);
        assert_eq!(taken.journal.counts().warnings, 1);
    });
}

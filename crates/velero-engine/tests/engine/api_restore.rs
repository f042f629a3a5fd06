//! The restore pipeline against a real API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::restore::{archive, preview, request, try_restore};
use crate::support::{Scene, config_maps};
use async_trait::async_trait;
use serde_json::{Value, json};
use velero_api::records::{BackupVolumeInfo, PodVolumeInfo, ResourceIdentifier, VolumeMethod};
use velero_api::v1::{ExistingResourcePolicy, RestoreSpec};
use velero_cluster::{Discovery, ResourceType, UnansweredGroup, types};
use velero_engine::restore::{PreviewAction, RestoreError};
use velero_plugin::{
    ActionSource, Actions, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result,
};
use velero_testkit::cluster_test;

fn plural(kind: &str) -> &'static str {
    match kind {
        "ConfigMap" => "configmaps",
        "ServiceAccount" => "serviceaccounts",
        "Namespace" => "namespaces",
        "Pod" => "pods",
        "PersistentVolumeClaim" => "persistentvolumeclaims",
        "DataUpload" => "datauploads.velero.io",
        "PriorityClass" => "priorityclasses.scheduling.k8s.io",
        "CustomResourceDefinition" => "customresourcedefinitions.apiextensions.k8s.io",
        "Gizmo" => "gizmos.restore.example.com",
        "Ghost" => "ghosts.nowhere.example.com",
        other => panic!("no plural for {other}"),
    }
}

fn config_map(namespace: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "uid": "old", "resourceVersion": "7", "labels": {"name": name},
            "managedFields": [{"manager": "kubectl-create", "operation": "Update", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:k": {}}}}]},
        "data": {"k": value}})
}

fn into(target: &str) -> RestoreSpec {
    let namespace_mapping = BTreeMap::from([("shop".to_owned(), target.to_owned())]);
    RestoreSpec { namespace_mapping, ..RestoreSpec::default() }
}

#[test]
fn items_get_into_their_new_namespace_and_the_total_is_there_from_the_start() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let items: Vec<_> = (0..200).map(|index| config_map("shop", &format!("c{index}"), "v")).collect();
        let target = format!("{}-new", scene.namespace);
        let request = request(&scene.cluster, into(&target), Actions::default()).await;
        let restored = try_restore(request, archive(&items, plural)).await.unwrap();
        assert_eq!(restored.journal.counts(), Default::default(), "{:?}", restored.journal.results());
        assert_eq!(restored.list("v1/Namespace"), [format!("{target}(created)")]);
        assert_eq!(restored.list("v1/ConfigMap").len(), 200);
        assert!(restored.list("v1/ConfigMap").iter().all(|item| item.ends_with("(created)")));
        assert!(restored.seen.iter().all(|(_, total)| *total == 201), "{:?}", restored.seen);
        assert!(restored.seen.is_sorted());
        assert_eq!(restored.seen.last(), Some(&(201, 201)));
        let live = scene.cluster.get(config_maps().item(Some(&target), "c7")).await.unwrap().unwrap();
        assert_eq!(live["data"], json!({"k": "v"}));
        let labels = json!({"name": "c7", "velero.io/backup-name": "b1", "velero.io/restore-name": "r1"});
        assert_eq!(live["metadata"]["labels"], labels);
        let owners = live["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(owners.iter().map(|entry| &entry["manager"]).collect::<Vec<_>>(), ["kubectl-create"]);
    });
}

#[test]
fn pods_wait_until_the_server_knows_the_priority_classes_restored_before_them() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let class = |index: usize| format!("{}-{index}", scene.namespace);
        let classes = (0..10).map(|index| {
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": class(index)},
                "value": 7})
        });
        let pods = (0..10).map(|index| {
            let containers = json!([{"name": "c", "image": "busybox"}]);
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{index}"), "namespace": "shop"},
                "spec": {"priorityClassName": class(index), "containers": containers}})
        });
        let items: Vec<Value> = classes.chain(pods).collect();
        let request = request(&scene.cluster, into(&scene.namespace), Actions::default()).await;
        let restored = try_restore(request, archive(&items, plural)).await.unwrap();
        assert_eq!(restored.journal.counts(), Default::default(), "{:?}", restored.journal.results());
        assert_eq!(restored.list("v1/Pod").len(), 10);
    });
}

#[test]
fn more_owners_than_one_are_written_back() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let mut item = config_map("shop", "c", "v");
        let mut second = item["metadata"]["managedFields"][0].clone();
        second["manager"] = json!("argo");
        second["operation"] = json!("Apply");
        item["metadata"]["managedFields"].as_array_mut().unwrap().push(second);
        let request = request(&scene.cluster, into(&scene.namespace), Actions::default()).await;
        let restored = try_restore(request, archive(&[item], plural)).await.unwrap();
        assert_eq!(restored.journal.counts(), Default::default(), "{:?}", restored.journal.results());
        let live = scene.cluster.get(config_maps().item(Some(&scene.namespace), "c")).await.unwrap().unwrap();
        let owners = live["metadata"]["managedFields"].as_array().unwrap();
        let mut managers: Vec<_> = owners.iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
        managers.sort_unstable();
        assert_eq!(managers, ["argo", "kubectl-create"]);
    });
}

/// Asks for `extra` with every ConfigMap named `asks-…`.
struct AsksForExtra;

#[async_trait]
impl RestoreItemAction for AsksForExtra {
    fn name(&self) -> &str {
        "example.com/asks-for-extra"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["configmaps"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let name = input.item["metadata"]["name"].as_str().unwrap_or_default();
        let extra = |suffix: &str| ResourceIdentifier {
            resource: "configmaps".to_owned(),
            namespace: "shop".to_owned(),
            name: format!("extra-{suffix}"),
            ..ResourceIdentifier::default()
        };
        let additional_items = match name.strip_prefix("asks-") {
            Some(index) => vec![extra(index), extra("shared")],
            None => Vec::new(),
        };
        Ok(RestoreItemOutcome { additional_items, ..RestoreItemOutcome::default() })
    }
}

#[test]
fn the_total_grows_by_exactly_the_items_that_actions_add() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let mut items = vec![config_map("shop", "extra-shared", "v")];
        for index in 0..20 {
            items.push(config_map("shop", &format!("asks-{index}"), "v"));
            items.push(config_map("shop", &format!("extra-{index}"), "v"));
        }
        for item in items.iter_mut().filter(|item| item["metadata"]["name"].as_str().unwrap().starts_with("asks")) {
            item["metadata"]["labels"] = json!({"take": "me"});
        }
        let mut spec = into(&scene.namespace);
        spec.label_selector = serde_json::from_value(json!({"matchLabels": {"take": "me"}})).unwrap();
        let extra = ActionSource { restore_item: vec![Arc::new(AsksForExtra)], ..ActionSource::default() };
        let request = request(&scene.cluster, spec, Actions::from_source(extra).unwrap()).await;
        let restored = try_restore(request, archive(&items, plural)).await.unwrap();
        assert_eq!(restored.journal.counts(), Default::default(), "{:?}", restored.journal.results());
        assert_eq!(restored.seen.first().map(|(_, total)| *total), Some(21), "20 items and their namespace");
        assert!(restored.seen.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(restored.seen.last(), Some(&(42, 42)), "21 items were added");
        assert_eq!(restored.list("v1/ConfigMap").len(), 41);
    });
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.restore.example.com"},
        "spec": {"group": "restore.example.com", "scope": "Namespaced",
            "names": {"kind": "Gizmo", "plural": "gizmos", "singular": "gizmo", "listKind": "GizmoList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[test]
fn a_definition_and_its_objects_come_back_together() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let gizmo = json!({"apiVersion": "restore.example.com/v1", "kind": "Gizmo",
            "metadata": {"name": "one", "namespace": "shop"}, "spec": {"size": 3}});
        let items = [gizmo, definition()];
        forget_definition(&scene).await;
        let planned =
            preview(request(&scene.cluster, into(&scene.namespace), Actions::default()).await, archive(&items, plural));
        let planned: Vec<_> = planned.await.items.into_iter().map(|item| (item.kind, item.action)).collect();
        assert_eq!(
            planned,
            [
                ("CustomResourceDefinition".to_owned(), PreviewAction::Create),
                ("Gizmo".to_owned(), PreviewAction::Create),
            ]
        );
        let request = request(&scene.cluster, into(&scene.namespace), Actions::default()).await;
        let restored = try_restore(request, archive(&items, plural)).await.unwrap();
        assert_eq!(restored.journal.counts(), Default::default(), "{:?}", restored.journal.results());
        let gizmos = ResourceType::new("restore.example.com/v1", "Gizmo", "gizmos", true);
        let live = scene.cluster.get(gizmos.item(Some(&scene.namespace), "one")).await.unwrap().unwrap();
        assert_eq!(live["spec"], json!({"size": 3}));
        forget_definition(&scene).await;
    });
}

/// The API server is shared with later runs, which must not find the definition.
async fn forget_definition(scene: &Scene) {
    let name = "gizmos.restore.example.com";
    let definitions = types::CUSTOM_RESOURCE_DEFINITIONS.clone();
    scene.cluster.delete(definitions.item(None, name), &Default::default()).await.unwrap();
    let minute = std::time::Duration::from_secs(60);
    scene.cluster.wait_until(definitions.item(None, name), minute, |live| live.is_none()).await.unwrap();
}

#[test]
fn a_type_nobody_serves_is_an_error_of_its_items_and_the_rest_goes_on() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let ghost = json!({"apiVersion": "nowhere.example.com/v1", "kind": "Ghost",
            "metadata": {"name": "boo", "namespace": "shop"}});
        let items = [ghost, config_map("shop", "c", "v")];
        let request = request(&scene.cluster, into(&scene.namespace), Actions::default()).await;
        let restored = try_restore(request, archive(&items, plural)).await.unwrap();
        let errors = restored.journal.results().errors;
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors.namespaces[&scene.namespace][0].contains("ghosts.nowhere.example.com"), "{errors:?}");
        let place = &scene.namespace;
        assert_eq!(restored.list("nowhere.example.com/v1/Ghost"), [format!("{place}/boo(failed)")]);
        assert_eq!(restored.list("v1/ConfigMap"), [format!("{place}/c(created)")]);
        assert_eq!(restored.seen.last(), Some(&(3, 3)));
    });
}

#[test]
fn an_existing_object_is_treated_as_the_policy_says_and_the_preview_says_the_same() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let items = [config_map("shop", "equal", "v"), config_map("shop", "other", "v")];
        for (policy, action, listed, warnings, value) in [
            (None, PreviewAction::Conflict, "skipped", 1, "mine"),
            (Some(ExistingResourcePolicy::None), PreviewAction::Conflict, "skipped", 1, "mine"),
            (Some(ExistingResourcePolicy::Update), PreviewAction::Update, "updated", 0, "v"),
        ] {
            let place = format!("{}-{}", scene.namespace, policy.as_ref().map_or("unset", |policy| policy.as_str()));
            scene.cluster.create(&types::NAMESPACES, None, &json!({"metadata": {"name": place}})).await.unwrap();
            for (name, value) in [("equal", "v"), ("other", "mine")] {
                let live = json!({"metadata": {"name": name, "labels": {"name": name}}, "data": {"k": value}});
                scene.cluster.create(&config_maps(), Some(&place), &live).await.unwrap();
            }
            let spec = RestoreSpec { existing_resource_policy: policy.clone(), ..into(&place) };
            let planned =
                preview(request(&scene.cluster, spec.clone(), Actions::default()).await, archive(&items, plural)).await;
            let planned: Vec<_> = planned.items.iter().map(|item| (item.name.as_str(), item.action)).collect();
            assert!(
                planned.contains(&("equal", PreviewAction::Skip)) && planned.contains(&("other", action)),
                "{planned:?}"
            );
            let request = request(&scene.cluster, spec, Actions::default()).await;
            let restored = try_restore(request, archive(&items, plural)).await.unwrap();
            let expected = [format!("{place}/equal(skipped)"), format!("{place}/other({listed})")];
            assert_eq!(restored.list("v1/ConfigMap"), expected, "{policy:?}");
            assert_eq!(restored.journal.counts().warnings, warnings, "{:?}", restored.journal.results());
            let live = scene.cluster.get(config_maps().item(Some(&place), "other")).await.unwrap().unwrap();
            assert_eq!(live["data"]["k"], value);
        }
    });
}

#[test]
fn a_damaged_archive_writes_nothing() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let items: Vec<_> = (0..300).map(|index| config_map("shop", &format!("c{index}"), "v")).collect();
        let mut bytes = archive(&items, plural);
        bytes.truncate(bytes.len() - 4);
        let target = format!("{}-damaged", scene.namespace);
        let request = request(&scene.cluster, into(&target), Actions::default()).await;
        let error = try_restore(request, bytes).await.err().unwrap();
        assert!(matches!(error, RestoreError::Archive(_)), "{error}");
        assert_eq!(scene.cluster.get(types::NAMESPACES.item(None, &target)).await.unwrap(), None);
    });
}

#[test]
fn an_object_under_a_foreign_path_is_not_applied() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let mut writer = velero_archive::ArchiveWriter::new(Vec::new(), 0).unwrap();
        let body = config_map("kube-system", "planted", "v").to_string();
        writer.append("resources/configmaps/namespaces/shop/innocent.json", body.as_bytes()).unwrap();
        let request = request(&scene.cluster, into(&scene.namespace), Actions::default()).await;
        let restored = try_restore(request, writer.finish().unwrap()).await.unwrap();
        assert_eq!(restored.journal.counts().errors, 1);
        for (namespace, name) in [("kube-system", "planted"), (scene.namespace.as_str(), "planted")] {
            assert_eq!(scene.cluster.get(config_maps().item(Some(namespace), name)).await.unwrap(), None);
        }
    });
}

#[test]
fn a_namespace_that_does_not_go_away_fails_its_items_and_no_others() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let stuck = format!("{}-stuck", scene.namespace);
        scene.cluster.create(&types::NAMESPACES, None, &json!({"metadata": {"name": stuck}})).await.unwrap();
        let keeper = json!({"metadata": {"name": "keeper", "finalizers": ["example.com/never"]}});
        scene.cluster.create(&config_maps(), Some(&stuck), &keeper).await.unwrap();
        scene.cluster.delete(types::NAMESPACES.item(None, &stuck), &Default::default()).await.unwrap();
        let mut spec = into(&scene.namespace);
        spec.namespace_mapping.insert("bank".to_owned(), stuck.clone());
        let items = [config_map("bank", "a", "v"), config_map("shop", "b", "v")];
        let mut request = request(&scene.cluster, spec, Actions::default()).await;
        request.terminating_timeout = std::time::Duration::from_secs(2);
        let restored = try_restore(request, archive(&items, plural)).await.unwrap();
        let errors = restored.journal.results().errors;
        assert!(errors.velero.iter().all(|error| error.contains(&stuck)), "{errors:?}");
        assert!(restored.list("v1/ConfigMap").contains(&format!("{}/b(created)", scene.namespace).as_str()));
        assert_eq!(restored.seen.last(), Some(&(4, 4)));
        let release = json!({"metadata": {"finalizers": null}});
        scene.cluster.merge_patch(config_maps().item(Some(&stuck), "keeper"), &release).await.unwrap();
    });
}

#[test]
fn what_a_restore_cannot_have_is_told_in_the_preview_as_it_is_in_the_restore() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let ghost = json!({"apiVersion": "nowhere.example.com/v1", "kind": "Ghost",
            "metadata": {"name": "mine", "namespace": "shop"}});
        let types: Vec<ResourceType> = scene.discovery.all_versions().cloned().collect();
        let last_seen = ResourceType::new("nowhere.example.com/v1", "Ghost", "ghosts", true);
        let silent = UnansweredGroup::new("nowhere.example.com", "v1", Some(vec![last_seen]));
        let discovery = Arc::new(Discovery::new(types, vec![silent]));
        let spec = RestoreSpec {
            included_resources: vec!["ghost".to_owned(), "secretz".to_owned()],
            ..into(&scene.namespace)
        };
        let mut previewed = request(&scene.cluster, spec.clone(), Actions::default()).await;
        previewed.discovery = Arc::clone(&discovery);
        let journal = crate::support::restore::journal();
        let bytes = archive(std::slice::from_ref(&ghost), plural);
        let preview = velero_engine::restore::preview(previewed, std::io::Cursor::new(bytes.clone()), &journal);
        let preview = preview.await.unwrap();
        let failed = preview.items.iter().find(|item| item.action == PreviewAction::Fail).unwrap();
        assert!(failed.reason.contains("APIService v1.nowhere.example.com"), "{}", failed.reason);

        let mut restored = request(&scene.cluster, spec, Actions::default()).await;
        restored.discovery = discovery;
        let restored = try_restore(restored, bytes).await.unwrap();
        assert_eq!(restored.journal.results(), journal.results());
        assert_eq!(restored.journal.counts(), journal.counts());
        let told = format!("{:?}", journal.results());
        assert!(told.contains("APIService v1.nowhere.example.com") && told.contains("secretz"), "{told}");
    });
}

#[test]
fn what_the_server_would_refuse_is_in_the_preview_as_it_is_in_the_restore() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let frozen = json!({"metadata": {"name": "frozen", "labels": {"name": "frozen"}}, "data": {"k": "mine"}, "immutable": true});
        scene.create(&config_maps(), frozen).await;
        let mut invalid = config_map("shop", "invalid", "v");
        invalid["data"] = json!({"no such key": "v"});
        let items = [config_map("shop", "frozen", "v"), invalid, config_map("shop", "good", "v")];
        let spec =
            RestoreSpec { existing_resource_policy: Some(ExistingResourcePolicy::Update), ..into(&scene.namespace) };
        let planned =
            preview(request(&scene.cluster, spec.clone(), Actions::default()).await, archive(&items, plural)).await;
        let planned: BTreeMap<_, _> = planned.items.iter().map(|item| (item.name.as_str(), item.action)).collect();
        assert_eq!(planned["frozen"], PreviewAction::Conflict);
        assert_eq!(planned["invalid"], PreviewAction::Fail);
        assert_eq!(planned["good"], PreviewAction::Create);
        assert_eq!(scene.cluster.get(config_maps().item(Some(&scene.namespace), "good")).await.unwrap(), None);
        let request = request(&scene.cluster, spec, Actions::default()).await;
        let restored = try_restore(request, archive(&items, plural)).await.unwrap();
        let place = &scene.namespace;
        let expected = ["frozen(failed)", "good(created)", "invalid(failed)"].map(|item| format!("{place}/{item}"));
        assert_eq!(restored.list("v1/ConfigMap"), expected);
        assert_eq!((restored.journal.counts().warnings, restored.journal.counts().errors), (1, 1));
    });
}

#[test]
fn data_that_cannot_come_back_is_an_error_of_each_volume_and_work_that_was_done_is_not_made_again() {
    cluster_test(async |test| {
        let scene = Scene::new(&test).await;
        let target = format!("{}-new", scene.namespace);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": {
            "automountServiceAccountToken": false, "nodeSelector": {"example.com/never": "true"},
            "containers": [{"name": "main", "image": "none"}], "volumes": [{"name": "cache", "emptyDir": {}}],
        }});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "shop"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "volumeName": "pv-filtered-out",
                "resources": {"requests": {"storage": "1Mi"}}}});
        let upload = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
            "metadata": {"name": "b1-x", "namespace": "shop"},
            "spec": {"sourceNamespace": "shop", "sourcePVC": "moved", "snapshotType": "CSI"},
            "status": {"phase": "Completed"}});
        let copied = |volume: &str, claim: &str| BackupVolumeInfo {
            pvc_name: claim.to_owned(),
            pvc_namespace: if claim.is_empty() { String::new() } else { "shop".to_owned() },
            backup_method: Some(VolumeMethod::PodVolumeBackup),
            pvb_info: Some(PodVolumeInfo {
                snapshot_handle: "s1".to_owned(),
                volume_name: volume.to_owned(),
                pod_name: "web".to_owned(),
                pod_namespace: "shop".to_owned(),
                ..PodVolumeInfo::default()
            }),
            ..BackupVolumeInfo::default()
        };
        let mut request = request(&scene.cluster, into(&target), Actions::default()).await;
        request.volumes = vec![copied("cache", ""), copied("data", "data")];
        let restored = try_restore(request, archive(&[pod, claim, upload], plural)).await.unwrap();
        let errors = restored.journal.results().errors;
        let told = errors.namespaces.get(&target).cloned().unwrap_or_default();
        for expected in ["volume cache of pod shop/web", "claim shop/data is in", "claim shop/moved is in a data mover"]
        {
            assert!(told.iter().any(|error| error.contains(expected)), "{expected}: {errors:?}");
        }
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert_eq!(restored.list("v1/Pod"), [format!("{target}/web(created)")]);
        assert_eq!(restored.list("velero.io/v2alpha1/DataUpload"), [format!("{target}/b1-x(skipped)")]);
        scene.cluster.delete(types::NAMESPACES.item(None, &target), &Default::default()).await.unwrap();
    });
}

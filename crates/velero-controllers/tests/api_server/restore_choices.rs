//! What decides about the objects of a restore beside its spec: the modifiers of the server and filter policies. Restores, dry
//! runs and restores that go on with others see the same.

use std::collections::BTreeMap;

use flate2::read::MultiGzDecoder;
use k8s_openapi::api::core::v1::{ConfigMap, TypedLocalObjectReference};
use kube::Api;
use kube::api::ListParams;
use velero_api::dry_run;
use velero_api::v1::{BackupPhase, Restore, RestorePhase, RestoreSpec};
use velero_controllers::DryRunReport;
use velero_controllers::server::Settings;
use velero_engine::restore::PreviewAction;
use velero_rules::resume::resuming;
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test};

use crate::support::{
    Server, Workload, assert_phase, assert_restore_phase, assert_says, config_map, delete_namespace, settings,
};

fn reference(name: &str) -> Option<TypedLocalObjectReference> {
    Some(TypedLocalObjectReference { kind: "configmap".to_owned(), name: name.to_owned(), api_group: None })
}

fn into(workload: &Workload, namespace: &str) -> RestoreSpec {
    let mapping = [(workload.namespace.clone(), namespace.to_owned())].into();
    RestoreSpec { backup_name: "b".to_owned(), namespace_mapping: mapping, ..Default::default() }
}

/// What the ConfigMaps of a namespace say under a key.
async fn values(cluster: &TestCluster, namespace: &str, key: &str) -> BTreeMap<String, Option<String>> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let all = api.list(&ListParams::default()).await.unwrap().items.into_iter();
    let own = all.filter(|found| found.metadata.name.as_deref() != Some("kube-root-ca.crt"));
    own.map(|found| (found.metadata.name.unwrap(), found.data.unwrap_or_default().remove(key))).collect()
}

fn painting(colour: &str) -> String {
    format!(
        "version: v1\nresourceModifierRules:\n- conditions: {{groupResource: configmaps, resourceNameRegex: '^settings-'}}\n  \
         mergePatches:\n  - patchData: '{{\"data\": {{\"colour\": \"{colour}\"}}}}'\n"
    )
}

#[test]
fn the_modifiers_of_the_server_count_for_restores_that_name_none_and_do_not_refuse_them() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings { default_resource_modifier_configmap: "everywhere".to_owned(), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("b", workload.spec()).await, &BackupPhase::Completed);

        let missing = server.restore("missing", into(&workload, "never")).await;
        assert_restore_phase(&missing, &RestorePhase::FailedValidation);
        for piece in ["--default-resource-modifier-configmap", "everywhere", "spec.skipDefaultResourceModifier"] {
            assert_says(&missing.status.validation_errors, piece);
        }
        config_map(&cluster, "everywhere", "rules", &painting("blue")).await;
        config_map(&cluster, "own", "rules", &painting("red")).await;
        let skips = |spec: RestoreSpec| RestoreSpec { skip_default_resource_modifier: Some(true), ..spec };
        let names = |spec: RestoreSpec| RestoreSpec { resource_modifier: reference("own"), ..spec };
        for (name, spec, expected) in [
            ("plain", into(&workload, &unique_name("copy")), Some("blue")),
            ("skips", skips(into(&workload, &unique_name("copy"))), None),
            ("names", names(into(&workload, &unique_name("copy"))), Some("red")),
            ("both", skips(names(into(&workload, &unique_name("copy")))), Some("red")),
        ] {
            let copy = spec.namespace_mapping.values().next().unwrap().clone();
            let restore = server.restore(name, spec.clone()).await;
            assert_restore_phase(&restore, &RestorePhase::Completed);
            assert_eq!(restore.spec.resource_modifier, spec.resource_modifier, "the spec says what was asked for");
            assert_eq!(values(&cluster, &copy, "colour").await["settings-0"].as_deref(), expected, "{name}");
            delete_namespace(&cluster, &copy).await;
        }
        workload.delete().await;
        server.stop().await;
    });
}

const ONLY_TWO: &str = "version: v1
namespacedFilterPolicies:
- namespaces: [NAMESPACE]
  resourceFilters:
  - kinds: [configmaps]
    names: ['settings-*']
    excludedNames: ['settings-1']
clusterScopedFilterPolicy:
  resourceFilters:
  - kinds: [namespaces]
    names: [NAMESPACE]
";

async fn plan(server: &Server, wanted: &Restore, folder: &std::path::Path) -> DryRunReport {
    let request = dry_run::ask(wanted, &unique_name("dry-run"));
    let name = request.metadata.name.clone().unwrap();
    server.create(request).await;
    let answered = server.restore_ended(&name).await;
    assert_restore_phase(&answered, &RestorePhase::Completed);
    let file = folder.join("restores").join(&name).join(format!("restore-{name}-results.gz"));
    serde_json::from_reader(MultiGzDecoder::new(std::fs::File::open(file).unwrap())).unwrap()
}

#[test]
fn filter_policies_choose_the_objects_of_a_restore_its_dry_run_and_the_one_that_resumes_it() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let (workload, copy) = (Workload::new(&cluster, 3).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("b", workload.spec()).await, &BackupPhase::Completed);
        config_map(&cluster, "two", "policy", &ONLY_TWO.replace("NAMESPACE", &workload.namespace)).await;

        let spec = RestoreSpec { resource_policy: reference("two"), ..into(&workload, &copy) };
        let mut asked = Restore::new(&cluster.namespace, "some", spec.clone());
        let report = plan(&server, &asked, directory.path()).await;
        let planned: Vec<_> = report.items.iter().filter(|item| item.kind == "ConfigMap").collect();
        assert!(planned.iter().all(|item| item.action == PreviewAction::Create), "{planned:?}");
        let mut names: Vec<&str> = planned.iter().map(|item| item.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["settings-0", "settings-2"], "dry run");

        let restore = server.restore_object(asked.clone()).await;
        assert_restore_phase(&restore, &RestorePhase::Completed);
        let found = values(&cluster, &copy, "number").await;
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["settings-0", "settings-2"]);

        // As if another one had been interrupted: the next one asks for the same, and gets no more.
        delete_namespace(&cluster, &copy).await;
        asked.metadata.name = Some("cut".to_owned());
        asked.spec.namespace_mapping = [(workload.namespace.clone(), unique_name("copy"))].into();
        asked.status.phase = Some(RestorePhase::Failed);
        let failed = server.create(asked).await;
        let resumed = server.restore_object(resuming(&failed, "cut-resume-1").unwrap()).await;
        assert_restore_phase(&resumed, &RestorePhase::Completed);
        let copy = resumed.spec.namespace_mapping.values().next().unwrap();
        let found = values(&cluster, copy, "number").await;
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["settings-0", "settings-2"], "resumed");
        delete_namespace(&cluster, copy).await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn policies_that_a_restore_cannot_use_refuse_it_and_name_the_field() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("b", workload.spec()).await, &BackupPhase::Completed);
        for (name, document, expected) in [
            ("volumes", "volumePolicies: [{conditions: {}, action: {type: skip}}]", "volumePolicies"),
            ("lists", "includeExcludePolicy: {includedClusterScopedResources: [a]}", "includeExcludePolicy"),
            ("misspelt", "namespacedFilterPolicy: []", "namespacedFilterPolicy"),
            ("empty", "namespacedFilterPolicies: [{namespaces: [a]}]", "namespacedFilterPolicies[0]"),
        ] {
            config_map(&cluster, name, "policy", &format!("version: v1\n{document}\n")).await;
            let spec = RestoreSpec { resource_policy: reference(name), ..into(&workload, "never") };
            let refused = server.restore(name, spec).await;
            assert_restore_phase(&refused, &RestorePhase::FailedValidation);
            assert_says(&refused.status.validation_errors, expected);
        }
        workload.delete().await;
        server.stop().await;
    });
}

//! Types that a backup or restore asks for and does not get, in a box of its own: groups that cannot be asked and labels
//! of namespaces are seen by all who use a cluster.

use std::fs;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use velero_api::v1::{Backup, BackupPhase, BackupSpec, RestorePhase, RestoreSpec};
use velero_cluster::{Cluster, ResourceType};
use velero_testkit::{BoxKind, TestBox, TestCluster, harness};

use crate::support::{Server, Workload, assert_phase, assert_restore_phase};

const BOX: &str = "missing-types";
const SEEN: &str = "v1.seen.example.com";
const NEVER: &str = "v1.never.example.com";
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn what_is_asked_for_and_not_there_is_told() {
    TestBox::down(BOX).unwrap();
    harness::run(BOX, BoxKind::ControlPlane, |cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let scene = Scene::new(&cluster, directory.path()).await;
        scene.a_labelled_namespace_is_no_filter().await;
        scene.groups_fall_silent().await;
        scene.backups_tell_of_silent_groups().await;
        scene.restores_tell_of_silent_groups().await;
        scene.workload.delete().await;
        scene.server.stop().await;
    });
    TestBox::down(BOX).unwrap();
}

struct Scene<'a> {
    api: Cluster,
    server: Server,
    workload: Workload,
    directory: &'a Path,
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&item| item.to_owned()).collect()
}

fn api_services() -> ResourceType {
    ResourceType::new("apiregistration.k8s.io/v1", "APIService", "apiservices", false)
}

impl<'a> Scene<'a> {
    /// A server, and a namespace with a custom resource whose group is going to fall silent.
    async fn new(cluster: &TestCluster, directory: &'a Path) -> Self {
        let api = Cluster::from_client(cluster.client.clone());
        let definitions = ResourceType::new(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            false,
        );
        let definition = json!({
            "metadata": {"name": "things.seen.example.com"},
            "spec": {
                "group": "seen.example.com", "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things", "singular": "thing", "shortNames": ["th"]},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        });
        api.create(&definitions, None, &definition).await.unwrap();
        let workload = Workload::new(cluster, 1).await;
        let things = ResourceType::new("seen.example.com/v1", "Thing", "things", true);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let thing = json!({"apiVersion": "seen.example.com/v1", "kind": "Thing", "metadata": {"name": "mine"}});
        while let Err(error) = api.create(&things, Some(&workload.namespace), &thing).await {
            assert!(tokio::time::Instant::now() < deadline, "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory).await;
        Self { api, server, workload, directory }
    }

    /// A backup's end, and its warnings and errors.
    async fn backup(&self, name: &str, spec: BackupSpec) -> (Backup, String, String) {
        let backup = self.server.backup(name, spec).await;
        let (warnings, errors) = self.results(&format!("backups/{name}/{name}-results.gz"));
        (backup, warnings, errors)
    }

    fn results(&self, file: &str) -> (String, String) {
        let results = fs::read(self.directory.join(file)).unwrap();
        let results: Value = velero_archive::gzjson::decode(&results, 1_000_000).unwrap();
        (results["warnings"].to_string(), results["errors"].to_string())
    }

    fn resources(&self, backup: &str) -> String {
        let list = fs::read(self.directory.join(format!("backups/{backup}/{backup}-resource-list.json.gz"))).unwrap();
        String::from_utf8(velero_archive::gzjson::decompress(&list, 10_000_000).unwrap()).unwrap()
    }

    async fn a_labelled_namespace_is_no_filter(&self) {
        let namespaces: Api<Namespace> = Api::all(self.server.cluster.client.clone());
        let label = json!({"metadata": {"labels": {"velero.io/exclude-from-backup": "true"}}});
        namespaces.patch("kube-public", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
        let (backup, ..) = self.backup("everything", BackupSpec::default()).await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.spec.excluded_namespaces, ["kube-public"], "the object is completed as ever");
        let resources = self.resources("everything");
        assert!(resources.contains("rbac.authorization.k8s.io/v1/ClusterRole\""), "{resources}");
        assert!(resources.contains(&format!("{}/mine", self.workload.namespace)), "{resources}");
        assert!(!resources.contains("kube-public/"), "{resources}");
    }

    /// One group is taken away from who serves it; another one never had a server.
    async fn groups_fall_silent(&self) {
        let nowhere = json!({"name": "nowhere", "namespace": self.server.cluster.namespace, "port": 443});
        let manual = json!({
            "metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
            "spec": {"service": nowhere, "insecureSkipTLSVerify": true},
        });
        self.api.merge_patch(api_services().item(None, SEEN), &manual).await.unwrap();
        let never = json!({
            "metadata": {"name": NEVER},
            "spec": {
                "group": "never.example.com", "version": "v1", "service": nowhere, "insecureSkipTLSVerify": true,
                "groupPriorityMinimum": 1000, "versionPriority": 15,
            },
        });
        self.api.create(&api_services(), None, &never).await.unwrap();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let discovery = self.api.discover().await.unwrap();
            let silent: Vec<_> = discovery.unanswered().iter().map(|silent| silent.api_service()).collect();
            if silent.iter().any(|name| name == SEEN) && silent.iter().any(|name| name == NEVER) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "only {silent:?} do not answer");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn backups_tell_of_silent_groups(&self) {
        let (backup, warnings, errors) = self.backup("all", self.workload.spec()).await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        assert!(errors.contains(SEEN) && errors.contains("things.seen.example.com"), "{errors}");
        assert!(warnings.contains(NEVER) && !errors.contains(NEVER), "{warnings} {errors}");

        let included = |names: &[&str]| BackupSpec { included_resources: strings(names), ..self.workload.spec() };
        for (name, asked_for, silent) in [
            ("by-group", "items.never.example.com", NEVER),
            ("by-pattern", "*.never.example.com", NEVER),
            ("by-name", "things.seen.example.com", SEEN),
            ("by-short-name", "th", SEEN),
        ] {
            let (backup, _, errors) = self.backup(name, included(&[asked_for])).await;
            assert_phase(&backup, &BackupPhase::PartiallyFailed);
            assert!(errors.contains(silent), "{asked_for}: {errors}");
        }
        let (backup, warnings, _) = self.backup("misspelt", included(&["configmaps", "secretz"])).await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert!(warnings.contains("secretz") && warnings.contains(SEEN) && warnings.contains(NEVER), "{warnings}");
        let without = BackupSpec { excluded_resources: strings(&["*.example.com"]), ..self.workload.spec() };
        let (backup, warnings, _) = self.backup("without", without).await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.status.warnings, 0, "{warnings}");
    }

    async fn restores_tell_of_silent_groups(&self) {
        let mapped = |name: &str| {
            let mapping = [(self.workload.namespace.clone(), name.to_owned())].into();
            RestoreSpec {
                backup_name: "everything".to_owned(),
                included_namespaces: vec![self.workload.namespace.clone()],
                namespace_mapping: mapping,
                ..RestoreSpec::default()
            }
        };
        let target = harness::unique_name("restored");
        for (name, included) in [("back", vec![]), ("back-by-short-name", strings(&["th"]))] {
            let spec = RestoreSpec { included_resources: included, ..mapped(&target) };
            let restore = self.server.restore(name, spec).await;
            assert_restore_phase(&restore, &RestorePhase::PartiallyFailed);
            let (_, errors) = self.results(&format!("restores/{name}/restore-{name}-results.gz"));
            assert!(errors.contains(SEEN) && errors.contains("mine"), "{errors}");
        }
        let spec = RestoreSpec { included_resources: strings(&["configmaps", "secretz"]), ..mapped(&target) };
        let restore = self.server.restore("misspelt", spec).await;
        assert_restore_phase(&restore, &RestorePhase::Completed);
        let (warnings, _) = self.results("restores/misspelt/restore-misspelt-results.gz");
        assert!(warnings.contains("secretz"), "{warnings}");
        let namespaces: Api<Namespace> = Api::all(self.server.cluster.client.clone());
        namespaces.delete(&target, &DeleteParams::default()).await.unwrap();
    }
}

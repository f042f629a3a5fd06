//! The page shows what differs between backups, and between a backup and the cluster, and in which backup an object lies.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use velero_api::v1::{Backup, BackupPhase, BackupSpec};
use velero_testkit::{TestCluster, cluster_test};

use crate::support::assert_phase;
use crate::web_support::{EVIL, Page, Scene};

/// The objects of the namespace that is backed up.
struct Shop {
    maps: Api<ConfigMap>,
    secrets: Api<Secret>,
}

impl Shop {
    async fn new(cluster: &TestCluster, namespace: &str) -> Self {
        let maps = Api::namespaced(cluster.client.clone(), namespace);
        let secrets = Api::namespaced(cluster.client.clone(), namespace);
        let shop = Self { maps, secrets };
        shop.map("changed", "old-value").await;
        shop.map("gone", "1").await;
        let secret = json!({"metadata": {"name": "keys"}, "stringData": {"password": "first-password"}});
        shop.secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        shop
    }

    async fn map(&self, name: &str, value: &str) {
        let object = json!({"metadata": {"name": name}, "data": {"key": value}});
        self.maps.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// Changes one object, deletes one, makes one and changes a Secret.
    async fn change(&self) {
        let map = json!({"data": {"key": format!("new-value {EVIL}")}});
        self.maps.patch("changed", &PatchParams::default(), &Patch::Merge(map)).await.unwrap();
        self.maps.delete("gone", &DeleteParams::default()).await.unwrap();
        self.map("made", "1").await;
        let secret = json!({"stringData": {"password": "second-password"}});
        self.secrets.patch("keys", &PatchParams::default(), &Patch::Merge(secret)).await.unwrap();
    }
}

/// A backup of two types in the namespace.
fn spec(scene: &Scene) -> BackupSpec {
    let resources = ["configmaps", "secrets"].map(str::to_owned);
    BackupSpec { included_resources: resources.to_vec(), ..scene.workload.spec() }
}

/// Fails unless a page names what is only in the backup, only on the other side, and different.
fn assert_rows(page: &Page, other: &str, namespace: &str) {
    for (words, name) in [("only in one", "gone"), (other, "made"), ("different", "changed")] {
        let row = format!("{words}</td><td>configmaps</td>");
        let (_, rest) = page.body.split_once(&row).unwrap_or_else(|| panic!("{words}\n{}", page.body));
        assert!(rest.split_once("</tr>").unwrap().0.contains(&format!("{namespace}/{name}")), "{}", page.body);
    }
}

#[test]
fn two_backups_differ_in_what_people_changed_and_secrets_are_shown_to_nobody() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let mut scene = Scene::begin(&cluster, directory.path()).await;
        let namespace = scene.workload.namespace.clone();
        let shop = Shop::new(&cluster, &namespace).await;
        assert_phase(&scene.server.backup("one", spec(&scene)).await, &BackupPhase::Completed);
        shop.change().await;
        assert_phase(&scene.server.backup("other", spec(&scene)).await, &BackupPhase::Completed);

        let page = scene.operator.get("/backups/one/compare?with=other").await;
        assert_eq!(page.code, 200, "{}", page.body);
        assert_rows(&page, "only in backup other", &namespace);
        assert!(page.body.contains("different</td><td>secrets</td>"), "{}", page.body);
        assert!(!page.body.contains("settings-0"), "what is the same is not shown\n{}", page.body);
        let narrowed = scene.operator.get("/backups/one/compare?with=other&search=secrets&show=only-one").await.body;
        assert!(narrowed.contains("Nothing differs in that way") && !narrowed.contains("gone"), "{narrowed}");

        let object = |resource: &str, name: &str, with: &str| {
            let place = format!("resource={resource}&namespace={namespace}&name={name}&with={with}");
            format!("/backups/one/compare-object?{place}")
        };
        let map = scene.operator.get(&object("configmaps", "changed", "other")).await.body;
        assert!(map.contains("<del>") && map.contains("old-value") && map.contains("new-value"), "{map}");
        assert!(!map.contains(EVIL) && !map.contains("resourceVersion"), "{map}");
        for with in ["other", ""] {
            let secret = scene.operator.get(&object("secrets", "keys", with)).await;
            // The operator may not read Secrets in the cluster.
            assert_eq!(secret.code, if with.is_empty() { 422 } else { 200 }, "{}", secret.body);
            for value in ["Zmlyc3QtcGFzc3dvcmQ", "c2Vjb25kLXBhc3N3b3Jk", "first-password", "second-password"] {
                assert!(!secret.body.contains(value), "{}", secret.body);
            }
        }
        let gone = scene.operator.get(&object("configmaps", "gone", "other")).await.body;
        assert!(gone.contains("It is not in backup other"), "{gone}");
        scene.end().await;
    });
}

#[test]
fn what_is_not_there_and_who_may_not_see_files_gets_no_comparison() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let mut scene = Scene::begin(&cluster, directory.path()).await;
        assert_phase(&scene.server.backup("one", spec(&scene)).await, &BackupPhase::Completed);
        for (path, code) in [
            ("/backups/one/compare?with=absent", 404),
            ("/backups/one/compare?with=..%2Fother", 404),
            ("/backups/one/compare-object?resource=&name=", 400),
        ] {
            assert_eq!(scene.operator.get(path).await.code, code, "{path}");
        }
        for path in [
            "/backups/one/compare?with=one",
            "/backups/one/compare-cluster",
            "/backups/one/compare-object?resource=secrets&name=keys",
        ] {
            let refused = scene.viewer.get(path).await;
            assert_eq!(refused.code, 403, "{path}");
            assert!(refused.body.contains("may not create downloadrequests.velero.io"), "{}", refused.body);
        }
        scene.end().await;
    });
}

#[test]
fn a_backup_is_compared_with_the_cluster_as_far_as_who_asks_may_see_it() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let mut scene = Scene::begin(&cluster, directory.path()).await;
        let namespace = scene.workload.namespace.clone();
        let shop = Shop::new(&cluster, &namespace).await;
        assert_phase(&scene.server.backup("one", spec(&scene)).await, &BackupPhase::Completed);
        let same = scene.operator.get("/backups/one/compare-cluster?search=configmaps").await.body;
        assert!(same.contains("Nothing differs in that way"), "{same}");
        shop.change().await;

        let page = scene.operator.get("/backups/one/compare-cluster").await;
        assert_eq!(page.code, 200, "{}", page.body);
        assert_rows(&page, "only in the cluster", &namespace);
        // What may not be listed is neither there nor away.
        assert!(page.body.contains("Not everything was compared"), "{}", page.body);
        assert!(page.body.contains(&format!("secrets in namespace {namespace}: 1 objects were not compared")));
        assert!(!page.body.contains("<td>secrets</td>"), "{}", page.body);

        let place = format!("resource=configmaps&namespace={namespace}&name=changed");
        let map = scene.operator.get(&format!("/backups/one/compare-object?{place}")).await.body;
        assert!(map.contains("old-value") && map.contains("new-value") && !map.contains(EVIL), "{map}");

        // The store goes away: the page says so.
        drop(directory);
        let away = scene.operator.get("/backups/one/compare-cluster").await;
        assert_eq!(away.code, 200, "{}", away.body);
        assert!(
            away.body.contains("class=\"note\"") && away.body.contains("Compare with the cluster"),
            "{}",
            away.body
        );
        scene.end().await;
    });
}

#[test]
fn the_backups_that_hold_an_object_are_found_newest_first() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let mut scene = Scene::begin(&cluster, directory.path()).await;
        let shop = Shop::new(&cluster, &scene.workload.namespace).await;
        assert_phase(&scene.server.backup("one", spec(&scene)).await, &BackupPhase::Completed);
        shop.change().await;
        // The times of backups have whole seconds.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        assert_phase(&scene.server.backup("other", spec(&scene)).await, &BackupPhase::Completed);
        // One of whose files nothing is there.
        let mut bare = Backup::new(&cluster.namespace, "bare", scene.workload.spec());
        bare.spec.storage_location = "default".to_owned();
        bare.status.phase = Some(BackupPhase::Failed);
        scene.server.create(bare).await;
        let found = scene.operator.get("/search?kind=configmaps&name=gone").await.body;
        assert!(found.contains("1 of 3 backups hold it"), "{found}");
        assert!(found.contains("href=\"/backups/one\"") && !found.contains("href=\"/backups/other\""), "{found}");
        assert!(found.contains("1 backups may hold it too") && found.contains("bare"), "{found}");
        let place = format!("v1%2FConfigMap&amp;name={}%2Fgone", scene.workload.namespace);
        assert!(found.contains(&place), "{found}");
        let both = scene.operator.get("/search?name=changed").await.body;
        assert!(both.contains("2 of 3 backups hold it"), "{both}");
        assert!(both.find("/backups/other\"").unwrap() < both.find("/backups/one\"").unwrap(), "{both}");
        let evil = scene.operator.get("/search?name=%3Cscript%3Ealert(1)%3C%2Fscript%3E").await.body;
        assert!(evil.contains("0 of 3 backups") && !evil.contains(EVIL), "{evil}");
        assert_eq!(scene.viewer.get("/search?name=gone").await.code, 403);
        scene.end().await;
    });
}

//! Restores that go on with others that were interrupted: all is there in the end, once, and what was asked for is done.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;
use velero_api::annotations::{ASKED_FIELDS, RESUME_OF};
use velero_api::finalizers::RESTORE_EXTERNAL_RESOURCES;
use velero_api::labels;
use velero_api::metadata::{annotation, label, uid};
use velero_api::records::ResultsFile;
use velero_api::v1::{Backup, BackupPhase, BackupSpec, PodVolumeRestore, Restore, RestorePhase, RestoreSpec};
use velero_controllers::server::{PatienceSettings, Settings};
use velero_rules::resume::{resume_name, resuming};
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test, storage_box_test};

use crate::lossy_proxy::{Fate, open_for};
use crate::moved_scene::{LOOKS, PAUSE, Scene, done};
use crate::played_agents::{Ending, Nodes, play, remove_namespace};
use crate::support::{
    PATIENCE, Server, Workload, api, assert_phase, assert_restore_phase, assert_says, delete_namespace, into_copy,
    read, settings,
};

/// Resumes a restore as the command does, and waits for the end.
async fn resume(server: &Server, resumed: &str) -> Restore {
    let resumed = server.api::<Restore>().get(resumed).await.unwrap();
    let all = server.api::<Restore>().list(&ListParams::default()).await.unwrap().items;
    let name = resume_name(&resumed, |name| all.iter().any(|known| known.metadata.name.as_deref() == Some(name)));
    server.create(resuming(&resumed, &name).unwrap()).await;
    server.restore_ended(&name).await
}

/// The ConfigMaps of a namespace: their UIDs and data.
async fn contents(cluster: &TestCluster, namespace: &str) -> BTreeMap<String, (String, BTreeMap<String, String>)> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let all = api.list(&ListParams::default()).await.unwrap().items.into_iter();
    let own = all.filter(|found| found.metadata.name.as_deref() != Some("kube-root-ca.crt"));
    own.map(|found| (found.metadata.name.unwrap(), (found.metadata.uid.unwrap(), found.data.unwrap_or_default())))
        .collect()
}

#[test]
fn a_restore_that_is_cut_off_twice_is_resumed_until_everything_is_there_once() {
    cluster_test(|cluster| async move {
        const ITEMS: usize = 240;
        let directory = tempfile::tempdir().unwrap();
        let slow = || Settings { client_qps: Some(30.0), client_burst: Some(30), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), slow()).await;
        let (workload, copy) = (Workload::new(&cluster, ITEMS).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("many", workload.spec()).await, &BackupPhase::Completed);
        let begun = |restore: &Restore| restore.status.progress.as_ref().is_some_and(|it| it.items_restored > 10);
        server.create(Restore::new(&cluster.namespace, "cut", into_copy("many", &workload.namespace, &copy))).await;
        server.until("cut", begun).await;
        server.stop().await;
        let first = api::<Restore>(&cluster).get("cut").await.unwrap();
        assert_restore_phase(&first, &RestorePhase::Failed);
        assert!(!annotation(&first, ASKED_FIELDS).is_empty(), "what was asked for is known also after its end");
        let before = contents(&cluster, &copy).await;
        assert!(!before.is_empty() && before.len() < ITEMS, "{}", before.len());

        let server = Server::start_with(cluster.clone(), slow()).await;
        let second = resuming(&first, "cut-resume-1").unwrap();
        assert_eq!(second.spec, into_copy("many", &workload.namespace, &copy), "nothing of what the server completed");
        server.create(second).await;
        let further = before.len() + 20;
        while contents(&cluster, &copy).await.len() < further {
            tokio::time::sleep(PAUSE).await;
        }
        server.stop().await;
        assert_restore_phase(&api::<Restore>(&cluster).get("cut-resume-1").await.unwrap(), &RestorePhase::Failed);

        let server = Server::start(cluster.clone()).await;
        let last = resume(&server, "cut-resume-1").await;
        assert_eq!(last.metadata.name.as_deref(), Some("cut-resume-2"));
        assert_restore_phase(&last, &RestorePhase::Completed);
        assert_eq!((last.status.errors, last.status.warnings), (0, 0));
        assert!(annotation(&last, ASKED_FIELDS).is_empty() && annotation(&last, RESUME_OF) == "cut-resume-1");
        let (wanted, found) = (contents(&cluster, &workload.namespace).await, contents(&cluster, &copy).await);
        assert_eq!(found.len(), ITEMS);
        for (name, (uid, data)) in &found {
            assert_eq!(*data, wanted[name].1, "{name}");
            assert!(before.get(name).is_none_or(|(made, _)| made == uid), "{name} was made twice");
        }
        let again = server.restore_object(resuming(&first, "late").unwrap()).await;
        assert_says(&again.status.validation_errors, "restore \"cut-resume-2\" went on with it and is Completed");
        delete_namespace(&cluster, &copy).await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn what_cannot_be_resumed_by_then_is_refused_with_the_reason_and_nothing_is_made() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let (workload, copy) = (Workload::new(&cluster, 1).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("b", workload.spec()).await, &BackupPhase::Completed);
        assert_restore_phase(
            &server.restore("done", into_copy("b", &workload.namespace, &workload.namespace)).await,
            &RestorePhase::Completed,
        );
        let mut failed = Restore::new(&cluster.namespace, "failed", into_copy("b", &workload.namespace, &copy));
        failed.status.phase = Some(RestorePhase::Failed);
        let failed = server.create(failed).await;
        let resumes = |name: &str, of: &str, spec: RestoreSpec| {
            let mut restore = Restore::new(&cluster.namespace, name, spec);
            restore.metadata.annotations = Some([(RESUME_OF.to_owned(), of.to_owned())].into());
            restore
        };
        let leaving = unique_name("leaving");
        let held = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": leaving, "finalizers": ["example.com/held"]}});
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.client.clone());
        namespaces.create(&PostParams::default(), &serde_json::from_value(held).unwrap()).await.unwrap();
        namespaces.delete(&leaving, &DeleteParams::default()).await.unwrap();
        for (name, of, spec, expected) in [
            ("r1", "done", into_copy("b", &workload.namespace, &copy), "it is Completed"),
            ("r2", "nobody", into_copy("b", &workload.namespace, &copy), "it does not exist"),
            ("r3", "failed", into_copy("other", &workload.namespace, &copy), "can't find backup"),
            ("r4", "failed", into_copy("b", &workload.namespace, &leaving), "which is being deleted"),
        ] {
            let refused = server.restore_object(resumes(name, of, spec)).await;
            assert_restore_phase(&refused, &RestorePhase::FailedValidation);
            assert_says(&refused.status.validation_errors, expected);
        }
        server.api::<Backup>().delete("b", &DeleteParams::default()).await.unwrap();
        server.until_gone::<Backup>("b").await;
        let refused = server.restore_object(resuming(&failed, "r5").unwrap()).await;
        assert_restore_phase(&refused, &RestorePhase::FailedValidation);
        assert_says(&refused.status.validation_errors, "can't find backup");
        assert!(namespaces.get_opt(&copy).await.unwrap().is_none(), "nothing was made");
        let free = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
        namespaces.patch(&leaving, &Default::default(), &free).await.unwrap();
        workload.delete().await;
        server.stop().await;
    });
}

fn of_pods(namespace: &str) -> BackupSpec {
    BackupSpec {
        included_namespaces: vec![namespace.to_owned()],
        included_resources: vec!["pods".to_owned()],
        ..BackupSpec::default()
    }
}

async fn fillings(server: &Server, restore: &str) -> Vec<PodVolumeRestore> {
    let all = server.api::<PodVolumeRestore>().list(&ListParams::default()).await.unwrap().items;
    all.into_iter().filter(|filling| label(filling, labels::RESTORE_NAME) == restore).collect()
}

#[test]
fn a_pod_that_waits_for_data_gets_what_is_missing_and_is_made_again_only_if_nobody_can_tell_it() {
    cluster_test(|cluster| async move {
        let (directory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        let nodes = Nodes::new(&cluster).await;
        let (shop, copy) = (nodes.shop().await, unique_name("copy"));
        shop.pod("web", &nodes.with_agent, &["data", "logs"]).await;
        let agents = play(&cluster, |_| Ending::Completed);
        assert_phase(&server.backup("b", of_pods(&shop.namespace)).await, &BackupPhase::Completed);
        drop(agents);

        let agents = play(&cluster, |volume| if volume == "data" { Ending::Completed } else { Ending::Never });
        server.create(Restore::new(&cluster.namespace, "r", into_copy("b", &shop.namespace, &copy))).await;
        let is_open = |filling: &PodVolumeRestore| filling.spec.volume == "logs";
        while !(fillings(&server, "r").await.len() == 2
            && fillings(&server, "r").await.iter().any(|it| !is_open(it) && it.status.phase().is_terminal()))
        {
            tokio::time::sleep(PAUSE).await;
        }
        server.stop().await;
        let first = api::<Restore>(&cluster).get("r").await.unwrap();
        assert_restore_phase(&first, &RestorePhase::Failed);

        // While nobody ends what was begun, nothing is put into the volume, and the resumed restore says so.
        let patience = PatienceSettings { resource_timeout: velero_api::GoDuration::from_secs(2) };
        let hasty = Settings { patience, ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), hasty).await;
        let busy = resume(&server, "r").await;
        assert_restore_phase(&busy, &RestorePhase::PartiallyFailed);
        assert_eq!((busy.status.errors, fillings(&server, "r-resume-1").await.len()), (1, 0));
        let open = fillings(&server, "r").await.into_iter().find(is_open).unwrap();
        assert!(open.spec.cancel, "it is told to end");
        server
            .patch::<PodVolumeRestore>(open.metadata.name.as_deref().unwrap(), json!({"status": {"phase": "Canceled"}}))
            .await;
        drop(agents);

        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &copy);
        let before = pods.get("web").await.unwrap();
        let agents = play(&cluster, |_| Ending::Failed);
        let failed = resume(&server, "r").await;
        assert_eq!(failed.metadata.name.as_deref(), Some("r-resume-2"));
        assert_restore_phase(&failed, &RestorePhase::PartiallyFailed);
        drop(agents);
        let made = fillings(&server, "r-resume-2").await;
        assert_eq!((made.len(), made[0].spec.volume.as_str()), (1, "logs"), "only what is missing");
        let owners = made[0].metadata.owner_references.clone().unwrap();
        assert_eq!(owners[0].uid, uid(&first), "the pod waits for the word of the first restore");
        assert_eq!((owners[1].uid.as_str(), owners[1].controller), (uid(&failed), None));
        server.stop().await;

        let server = made_again_without_the_first(&cluster, folder.path()).await;
        let after = pods.get("web").await.unwrap();
        assert_ne!(after.metadata.uid, before.metadata.uid);
        assert_eq!(fillings(&server, "r-resume-3").await.len(), 2);
        remove_namespace(&cluster, &copy).await;
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

/// A ReplicaSet for pods with a label `app` of that value.
async fn replica_set(cluster: &TestCluster, namespace: &str, app: &str, replicas: i32) {
    let sets: Api<ReplicaSet> = Api::namespaced(cluster.client.clone(), namespace);
    let set = json!({
        "metadata": {"name": "set"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}},
    });
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
}

#[test]
fn a_pod_that_was_filled_and_is_gone_since_is_an_error_unless_its_controller_is_there() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        let nodes = Nodes::new(&cluster).await;
        let (shop, copy) = (nodes.shop().await, unique_name("copy"));
        for name in ["alone", "controlled"] {
            shop.pod_with_claim(name, &nodes.with_agent).await;
        }
        shop.pod("late", &nodes.with_agent, &["logs"]).await;
        replica_set(&cluster, &shop.namespace, "controlled", 1).await;
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &shop.namespace);
        let is_adopted = |pod: Option<&Pod>| pod.is_some_and(|pod| pod.metadata.owner_references.is_some());
        let adopted = await_condition(pods, "controlled", is_adopted);
        tokio::time::timeout(PATIENCE, adopted).await.expect("the pod is not adopted").unwrap();
        let agents = play(&cluster, |_| Ending::Completed);
        let mut spec = of_pods(&shop.namespace);
        spec.included_resources.extend(["persistentvolumeclaims", "persistentvolumes"].map(str::to_owned));
        assert_phase(&server.backup("b", spec).await, &BackupPhase::Completed);
        drop(agents);

        for claim in ["alone", "controlled"] {
            shop.volume_for(&copy, claim).await;
        }
        let agents = play(&cluster, |volume| if volume == "data" { Ending::Completed } else { Ending::Failed });
        let first = server.restore("r", into_copy("b", &shop.namespace, &copy)).await;
        assert_restore_phase(&first, &RestorePhase::PartiallyFailed);
        drop(agents);
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &copy);
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        for name in ["alone", "controlled"] {
            pods.delete(name, &at_once).await.unwrap();
        }
        replica_set(&cluster, &copy, "controlled", 0).await;

        let agents = play(&cluster, |_| Ending::Completed);
        let again = resume(&server, "r").await;
        assert_restore_phase(&again, &RestorePhase::PartiallyFailed);
        let results: ResultsFile = read(&directory.path().join("restores/r-resume-1/restore-r-resume-1-results.gz"));
        let (errors, warnings) = (&results.errors.namespaces[&copy], &results.warnings.namespaces[&copy]);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(
            errors[0].contains("alone was made and filled") && errors[0].contains("Make the pod by hand"),
            "{errors:?}"
        );
        assert_says(warnings, "controlled was made and filled by an earlier restore, and is gone since");
        assert_says(warnings, "ReplicaSet set sees to its pods");
        assert!(pods.get_opt("alone").await.unwrap().is_none(), "what its claim holds is not written over");
        drop(agents);
        remove_namespace(&cluster, &copy).await;
        shop.remove().await;
        nodes.remove().await;
        server.stop().await;
    });
}

/// With the first restore gone, nobody can give the pod its word: it is made again, though the answer to its removal is lost.
async fn made_again_without_the_first(cluster: &TestCluster, folder: &Path) -> Server {
    let removals = AtomicUsize::new(0);
    let rule =
        move |path: &str, _: &str| match path.contains("/pods/web") && removals.fetch_add(1, Ordering::SeqCst) == 0 {
            true => Fate::Swallowed,
            false => Fate::Answered,
        };
    let kubeconfig = Some(open_for(cluster, folder, &[Method::DELETE], rule).await);
    let server = Server::start_with(cluster.clone(), Settings { kubeconfig, ..settings(cluster) }).await;
    server.api::<Restore>().delete("r", &DeleteParams::default()).await.unwrap();
    server.until_gone::<Restore>("r").await;
    let agents = play(cluster, |_| Ending::Completed);
    let last = resume(&server, "r-resume-2").await;
    assert_restore_phase(&last, &RestorePhase::Completed);
    assert_eq!((last.status.errors, last.status.warnings), (0, 0));
    assert_eq!(last.metadata.finalizers.unwrap(), [RESTORE_EXTERNAL_RESOURCES]);
    drop(agents);
    server
}

#[test]
fn a_claim_whose_data_never_came_is_made_again_and_one_of_somebody_else_is_not() {
    storage_box_test(|cluster| async move {
        // Nobody brings the volumes, so they are not waited for as long as it may take.
        let patience = PatienceSettings { resource_timeout: velero_api::GoDuration::from_secs(5) };
        let hasty = Settings { patience, ..settings(&cluster) };
        let scene = Scene::with_settings(&cluster, &["data", "more"], hasty).await;
        scene.begin("b", scene.spec()).await;
        for (_, upload) in scene.uploads("b", 2).await {
            scene.write(&upload, done("k1")).await;
        }
        assert_phase(&scene.ended("b").await, &BackupPhase::Completed);
        let copy = unique_name("copy");
        let spec = into_copy("b", &scene.namespace, &copy);
        scene.server.create(Restore::new(&cluster.namespace, "r", spec)).await;
        for (_, download) in scene.downloads("r", 2).await {
            scene.write(&download, json!({"phase": "Failed", "message": "the disk is on fire"})).await;
        }
        let first = scene.server.restore_ended("r").await;
        assert_restore_phase(&first, &RestorePhase::PartiallyFailed);
        // Somebody makes one of the claims their own.
        let claims = scene.claims(&copy);
        let own = kube::api::Patch::Merge(json!({"metadata": {"labels": {labels::RESTORE_NAME: null}}}));
        claims.patch("more", &Default::default(), &own).await.unwrap();
        let before = (claims.get("data").await.unwrap(), claims.get("more").await.unwrap());

        scene.server.create(resuming(&first, "again").unwrap()).await;
        let download = scene.downloads("again", 1).await.remove("data").unwrap();
        for look in 0.. {
            assert!(look < LOOKS, "the claim is not made again");
            match claims.get_opt("data").await.unwrap() {
                Some(claim) if claim.metadata.uid != before.0.metadata.uid => break,
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
        scene.write(&download, json!({"phase": "Completed", "progress": {"bytesDone": 9, "totalBytes": 9}})).await;
        let last = scene.server.restore_ended("again").await;
        assert_eq!(claims.get("more").await.unwrap().metadata.uid, before.1.metadata.uid, "it is left as it is");
        assert_restore_phase(&last, &RestorePhase::PartiallyFailed);
        assert_says(
            &scene.errors("restores", "again"),
            &format!("the data of persistentvolumeclaims/{copy}/more is not restored"),
        );
        scene.end(&[&copy]).await;
    });
}

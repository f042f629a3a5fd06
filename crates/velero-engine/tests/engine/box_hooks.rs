//! Hooks in pods that really run.

use std::time::Duration;

use crate::support::{Scene, pods, service_accounts};
use serde_json::{Value, json};
use velero_api::v1::{BackupHooks, BackupResourceHook, BackupResourceHookSpec, BackupSpec, ExecHook, HookErrorMode};
use velero_cluster::ExecRequest;
use velero_engine::Journal;
use velero_engine::backup::{BackupRequest, OwedHooks, OwedPod, run_owed_hooks};
use velero_engine::journal::{Level, LogFormat};
use velero_testkit::{objects, whole_box_test};

async fn running_pod(scene: &Scene, name: &str, annotations: Value) {
    scene.wait(&service_accounts(), "default", |_| true).await;
    let mut pod = objects::pod(&scene.namespace, name, "sleep 600");
    pod["metadata"]["annotations"] = annotations;
    scene.create(&pods(), pod).await;
    scene.wait(&pods(), name, |pod| pod["status"]["phase"] == "Running").await;
}

async fn file_in(scene: &Scene, pod: &str, path: &str) -> String {
    let request = ExecRequest {
        namespace: scene.namespace.clone(),
        pod: pod.to_owned(),
        container: None,
        command: ["sh", "-c", &format!("cat {path} 2> /dev/null || true")].map(str::to_owned).to_vec(),
        timeout: None,
    };
    scene.cluster.exec(&request).await.unwrap().stdout
}

fn shell(command: &str) -> String {
    json!(["sh", "-c", command]).to_string()
}

fn only_pods(scene: &Scene) -> BackupSpec {
    BackupSpec { included_resources: vec!["pods".to_owned()], ..scene.own_namespace() }
}

#[test]
fn hooks_of_annotations_run_before_and_after_and_are_counted() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        let annotations = json!({
            "pre.hook.backup.velero.io/command": shell("echo before >> /tmp/trace"),
            "post.hook.backup.velero.io/command": shell("echo after >> /tmp/trace"),
        });
        running_pod(&scene, "traced", annotations).await;
        let taken = scene.back_up(only_pods(&scene)).await;
        assert_eq!(taken.names("pods", &scene.namespace), ["traced"]);
        assert_eq!(file_in(&scene, "traced", "/tmp/trace").await, "before\nafter\n");
        assert_eq!((taken.outcome.hook_status.hooks_attempted, taken.outcome.hook_status.hooks_failed), (2, 0));
    });
}

#[test]
fn a_failing_hook_keeps_its_pod_out_only_when_it_says_so() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        for (name, mode) in [("strict", "Fail"), ("mild", "Continue")] {
            let annotations = json!({
                "pre.hook.backup.velero.io/command": shell("exit 3"),
                "pre.hook.backup.velero.io/on-error": mode,
            });
            running_pod(&scene, name, annotations).await;
        }
        let taken = scene.back_up(only_pods(&scene)).await;
        assert_eq!(taken.names("pods", &scene.namespace), ["mild"]);
        assert_eq!((taken.outcome.hook_status.hooks_attempted, taken.outcome.hook_status.hooks_failed), (2, 2));
        assert_eq!(taken.outcome.failed_items.len(), 1);
        // Each failure is one error; that the strict pod stays out is another.
        assert_eq!(taken.journal.counts().errors, 3, "{:?}", taken.journal.results());
    });
}

#[test]
fn a_hook_of_the_spec_that_takes_too_long_fails() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        running_pod(&scene, "slow", json!({})).await;
        let hook = |command: &str, seconds| BackupResourceHook {
            exec: ExecHook {
                command: vec!["sh".to_owned(), "-c".to_owned(), command.to_owned()],
                on_error: Some(HookErrorMode::Continue),
                timeout: std::time::Duration::from_secs(seconds).into(),
                ..ExecHook::default()
            },
            ..BackupResourceHook::default()
        };
        let rule = BackupResourceHookSpec {
            name: "rule".to_owned(),
            included_namespaces: vec![scene.namespace.clone()],
            pre_hooks: vec![hook("sleep 60", 1), hook("echo ok > /tmp/second", 20)],
            ..BackupResourceHookSpec::default()
        };
        let hooks = BackupHooks { resources: vec![rule], ..BackupHooks::default() };
        let taken = scene.back_up(BackupSpec { hooks, ..only_pods(&scene) }).await;
        assert_eq!(taken.names("pods", &scene.namespace), ["slow"]);
        assert_eq!((taken.outcome.hook_status.hooks_attempted, taken.outcome.hook_status.hooks_failed), (2, 1));
        assert_eq!(file_in(&scene, "slow", "/tmp/second").await, "ok\n");
        let errors = taken.journal.results().errors;
        assert!(errors.namespaces[&scene.namespace][0].contains("timed out after 1s"), "{errors:?}");
    });
}

#[test]
fn a_pod_whose_hook_keeps_it_out_goes_on_all_the_same() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        let annotations = json!({
            "pre.hook.backup.velero.io/command": shell("echo stopped >> /tmp/trace; exit 3"),
            "pre.hook.backup.velero.io/on-error": "Fail",
            "post.hook.backup.velero.io/command": shell("echo goes on >> /tmp/trace"),
        });
        running_pod(&scene, "stopped", annotations).await;
        let taken = scene.back_up(only_pods(&scene)).await;
        assert!(taken.names("pods", &scene.namespace).is_empty());
        assert_eq!(file_in(&scene, "stopped", "/tmp/trace").await, "stopped\ngoes on\n");
    });
}

#[test]
fn a_backup_that_is_given_up_owes_its_hooks_and_pays_when_those_before_have_ended() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        let annotations = json!({
            "pre.hook.backup.velero.io/command": shell("echo stops >> /tmp/trace; sleep 6; echo stands >> /tmp/trace"),
            "post.hook.backup.velero.io/command": shell("echo goes on >> /tmp/trace"),
        });
        running_pod(&scene, "frozen", annotations).await;
        let (written, seen) = tokio::sync::watch::channel(Vec::new());
        let owed = OwedHooks::written_by(move |pods| {
            written.send_replace(pods);
            Box::pin(async { Ok(()) })
        });
        let request = BackupRequest { owed_hooks: owed.clone(), ..scene.request(only_pods(&scene)) };
        let stops = async {
            while file_in(&scene, "frozen", "/tmp/trace").await != "stops\n" {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            _ = scene.try_back_up(request) => panic!("the hook before lasts longer"),
            () = stops => {}
        }
        assert_eq!(seen.borrow()[0].name, "frozen", "it is written down before the hook runs");
        let journal = Journal::for_backup("velero", "b1", LogFormat::Text, Level::Info);
        let left = owed.pay(&scene.cluster, &journal, Duration::from_secs(60)).await;
        assert!(left.is_empty() && seen.borrow().is_empty(), "{left:?}");
        assert_eq!(file_in(&scene, "frozen", "/tmp/trace").await, "stops\nstands\ngoes on\n");
        assert_eq!(journal.counts().errors, 0, "{:?}", journal.results());
    });
}

#[test]
fn the_next_server_runs_what_is_owed_in_the_same_pods_only() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        let annotations = json!({"post.hook.backup.velero.io/command": shell("echo goes on >> /tmp/trace")});
        for name in ["same", "other"] {
            running_pod(&scene, name, annotations.clone()).await;
        }
        let mut owed = Vec::new();
        for name in ["same", "other", "gone"] {
            let pod = scene.cluster.get(pods().item(Some(&scene.namespace), name)).await.unwrap().unwrap_or_default();
            let uid = if name == "same" { pod["metadata"]["uid"].as_str().unwrap() } else { "1" };
            owed.push(OwedPod { namespace: scene.namespace.clone(), name: name.to_owned(), uid: uid.to_owned() });
        }
        let journal = Journal::for_backup("velero", "b1", LogFormat::Text, Level::Info);
        let patience = Duration::from_secs(30);
        let left = run_owed_hooks(&scene.cluster, &BackupHooks::default(), &owed, &journal, patience).await;
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(file_in(&scene, "same", "/tmp/trace").await, "goes on\n");
        assert_eq!(file_in(&scene, "other", "/tmp/trace").await, "", "a new pod of the same name was not stopped");
    });
}

//! Hooks in pods that really run.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod support;

use serde_json::{Value, json};
use support::{Scene, pods, service_accounts};
use velero_api::v1::{BackupHooks, BackupResourceHook, BackupResourceHookSpec, BackupSpec, ExecHook, HookErrorMode};
use velero_cluster::ExecRequest;
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
        command: vec!["cat".to_owned(), path.to_owned()],
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

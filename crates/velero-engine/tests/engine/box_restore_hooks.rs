//! Hooks in restored pods that really run.

use std::collections::BTreeMap;

use crate::support::Scene;
use crate::support::restore::{Restored, archive, request, try_restore};
use serde_json::{Value, json};
use velero_api::v1::{RestoreHooks, RestoreSpec};
use velero_cluster::ExecRequest;
use velero_plugin::Actions;
use velero_testkit::{objects, whole_box_test};

fn pod(name: &str, annotations: Value) -> Value {
    let mut pod = objects::pod("shop", name, "sleep 600");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["annotations"] = annotations;
    pod
}

fn shell(command: &str) -> String {
    json!(["sh", "-c", command]).to_string()
}

async fn restore(scene: &Scene, pods: &[Value], hooks: Value) -> Restored {
    let spec = RestoreSpec {
        namespace_mapping: BTreeMap::from([("shop".to_owned(), scene.namespace.clone())]),
        hooks: serde_json::from_value::<RestoreHooks>(hooks).unwrap(),
        ..RestoreSpec::default()
    };
    scene.wait(&crate::support::service_accounts(), "default", |_| true).await;
    let request = request(&scene.cluster, spec, Actions::default()).await;
    try_restore(request, archive(pods, |_| "pods")).await.unwrap()
}

async fn trace_of(scene: &Scene, pod: &str) -> String {
    let request = ExecRequest {
        namespace: scene.namespace.clone(),
        pod: pod.to_owned(),
        container: None,
        command: vec!["cat".to_owned(), "/tmp/trace".to_owned()],
        timeout: None,
    };
    scene.cluster.exec(&request).await.unwrap().stdout
}

#[test]
fn hooks_of_annotations_and_of_the_spec_run_once_the_container_is_up() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        let annotated =
            pod("annotated", json!({"post.hook.restore.velero.io/command": shell("echo annotation >> /tmp/trace")}));
        let hook = |word: &str| json!({"exec": {"command": ["sh", "-c", format!("echo {word} >> /tmp/trace")]}});
        let hooks = json!({"resources": [{"name": "all", "postHooks": [hook("first"), hook("second")]}]});
        let restored = restore(&scene, &[annotated, pod("plain", json!({}))], hooks).await;
        assert_eq!(restored.journal.counts().errors, 0, "{:?}", restored.journal.results());
        assert_eq!((restored.hooks.hooks_attempted, restored.hooks.hooks_failed), (3, 0));
        assert_eq!(trace_of(&scene, "annotated").await, "annotation\n");
        assert_eq!(trace_of(&scene, "plain").await, "first\nsecond\n");
    });
}

#[test]
fn a_failing_hook_is_an_error_and_stops_the_others_only_when_it_says_so() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        let hook =
            |command: &str, on_error: &str| json!({"exec": {"command": ["sh", "-c", command], "onError": on_error}});
        let rule = |name: &str, on_error: &str| {
            let labels = json!({"matchLabels": {"mood": name}});
            json!({"name": name, "labelSelector": labels,
                "postHooks": [hook("exit 3", on_error), hook("echo later >> /tmp/trace", "Continue")]})
        };
        let labelled = |name: &str| {
            let mut pod = pod(name, json!({}));
            pod["metadata"]["labels"] = json!({"mood": name});
            pod
        };
        let hooks = json!({"resources": [rule("strict", "Fail"), rule("mild", "Continue")]});
        let restored = restore(&scene, &[labelled("strict"), labelled("mild")], hooks).await;
        assert_eq!((restored.hooks.hooks_attempted, restored.hooks.hooks_failed), (4, 2));
        assert_eq!(restored.journal.counts().errors, 2, "{:?}", restored.journal.results());
        assert_eq!(trace_of(&scene, "mild").await, "later\n");
        assert_eq!(restored.list("v1/Pod").len(), 2, "the pods themselves are restored");
    });
}

#[test]
fn a_container_that_does_not_come_up_in_time_fails_its_hooks() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        let annotations = json!({
            "post.hook.restore.velero.io/command": shell("echo never"),
            "post.hook.restore.velero.io/wait-timeout": "2s",
        });
        let mut stuck = pod("stuck", annotations);
        stuck["spec"]["nodeSelector"] = json!({"no": "such-node"});
        let restored = restore(&scene, &[stuck], json!({})).await;
        assert_eq!((restored.hooks.hooks_attempted, restored.hooks.hooks_failed), (1, 1));
        let errors = restored.journal.results().errors;
        assert!(errors.namespaces[&scene.namespace][0].contains("stuck"), "{errors:?}");
    });
}

#[test]
fn an_init_hook_runs_before_the_containers_of_the_pod() {
    whole_box_test(|test| async move {
        let scene = Scene::new(&test).await;
        let image = objects::pod("shop", "any", "true")["spec"]["containers"][0]["image"].clone();
        let mount = json!([{"name": "shared", "mountPath": "/tmp"}]);
        let container = json!({"name": "prepare", "image": image, "imagePullPolicy": "Never", "volumeMounts": mount,
            "command": ["sh", "-c", "echo prepared > /tmp/trace"]});
        let mut target = pod("target", json!({}));
        target["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
        target["spec"]["containers"][0]["volumeMounts"] = mount;
        let hooks = json!({"resources": [{"name": "init", "postHooks": [{"init": {"initContainers": [container]}}]}]});
        let restored = restore(&scene, &[target], hooks).await;
        assert_eq!(restored.journal.counts().errors, 0, "{:?}", restored.journal.results());
        scene.wait(&crate::support::pods(), "target", |pod| pod["status"]["phase"] == "Running").await;
        assert_eq!(trace_of(&scene, "target").await, "prepared\n");
    });
}

use super::*;
use serde_json::json;

fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": {"namespace": "app", "name": "db-0", "labels": {"app": "db"}, "annotations": annotations},
        "spec": {"containers": [{"name": "db"}, {"name": "proxy"}]},
    })
}

fn rules(spec: &Value) -> RestoreHookRules {
    let hooks: RestoreHooks = serde_json::from_value(spec.clone()).unwrap();
    RestoreHookRules::new(&hooks, |name| (name == "po").then(|| "pods".to_owned())).unwrap()
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "busybox", "command": ["true"], "volumeMounts": [{"name": "data"}]})
}

#[test]
fn spec_hooks_are_grouped_by_container_in_order_with_their_defaults() {
    let rules = rules(&json!({"resources": [
        {"name": "warm", "includedResources": ["po"], "postHooks": [
            {"exec": {"command": ["one"], "container": "proxy", "onError": "Fail", "execTimeout": "1m",
                      "waitTimeout": "5m", "waitForReady": true}},
            {"init": {"initContainers": [container("prepare")]}},
            {"exec": {"command": ["two"]}},
        ]},
        {"name": "check", "postHooks": [{"exec": {"command": ["three"], "container": "proxy", "waitTimeout": "1m"}}]},
    ]}));
    let found = rules.exec_hooks(&pod(&json!({})));
    let shape: Vec<_> = found.containers.iter().map(|group| (group.container.as_str(), group.hooks.len())).collect();
    assert_eq!(shape, [("proxy", 2), ("db", 1)]);
    let first = &found.containers[0].hooks[0];
    assert_eq!((first.name.as_str(), first.index, first.source), ("warm", 0, HookSource::Spec));
    assert_eq!(first.exec_timeout, GoDuration::from_mins(1));
    assert_eq!(first.longest_wait(), Some(Duration::from_secs(300)));
    assert!(first.wait_for_ready && first.stops_on_failure());
    assert_eq!(found.containers[0].hooks[1].command, ["three"]);
    let second = &found.containers[1].hooks[0];
    assert_eq!((second.index, second.container.as_str()), (2, "db"), "the place counts init hooks too");
    assert_eq!(second.exec_timeout, GoDuration::from_secs(30));
    assert!(!second.wait_for_ready && !second.stops_on_failure());
    assert_eq!(found.longest_wait(), None, "one hook without a limit is waited for without a limit");
}

#[test]
fn the_longest_wait_of_all_hooks_counts() {
    let exec =
        |container: &str, wait: &str| json!({"exec": {"command": ["x"], "container": container, "waitTimeout": wait}});
    let rules = rules(&json!({"resources": [{"name": "n", "postHooks": [exec("db", "2m"), exec("proxy", "1m")]}]}));
    assert_eq!(rules.exec_hooks(&pod(&json!({}))).longest_wait(), Some(Duration::from_secs(120)));
}

#[test]
fn spec_hooks_are_only_for_what_they_select() {
    let table = [
        (json!({"includedNamespaces": ["other"]}), 0),
        (json!({"excludedNamespaces": ["a*"]}), 0),
        (json!({"includedNamespaces": ["a*"]}), 1),
        (json!({"includedResources": ["deployments"]}), 0),
        (json!({"labelSelector": {"matchLabels": {"app": "web"}}}), 0),
        (json!({}), 1),
    ];
    for (mut group, expected) in table {
        group["name"] = json!("n");
        group["postHooks"] =
            json!([{"exec": {"command": ["x"]}}, {"init": {"initContainers": [container("prepare")]}}]);
        let rules = rules(&json!({"resources": [group]}));
        let pod = pod(&json!({}));
        assert_eq!(rules.exec_hooks(&pod).containers.len(), expected, "{rules:?}");
        assert_eq!(rules.init_containers(&pod, "app").unwrap().len(), expected, "{rules:?}");
    }
}

#[test]
fn a_pod_is_selected_only_by_groups_with_hooks() {
    for (group, namespace, expected) in [
        (json!({"name": "g", "postHooks": [{"exec": {"command": ["x"]}}]}), "app", true),
        (json!({"name": "g", "postHooks": []}), "app", false),
        (json!({"name": "g", "includedNamespaces": ["app"], "postHooks": [{}]}), "other", false),
    ] {
        assert_eq!(rules(&json!({"resources": [group]})).select(&pod(&json!({})), namespace), expected, "{group}");
    }
}

#[test]
fn init_containers_are_chosen_by_the_target_namespace() {
    let group = json!({"name": "n", "includedNamespaces": ["copy"],
                       "postHooks": [{"init": {"initContainers": [container("prepare")]}}]});
    let rules = rules(&json!({"resources": [group]}));
    let pod = pod(&json!({}));
    assert_eq!(rules.init_containers(&pod, "copy").unwrap(), [container("prepare")], "kept as it was given");
    assert!(rules.init_containers(&pod, "app").unwrap().is_empty());
}

#[test]
fn an_annotation_replaces_the_exec_hooks_of_the_spec() {
    let rules = rules(&json!({"resources": [{"name": "n", "postHooks": [{"exec": {"command": ["spec"]}}]}]}));
    let found = rules.exec_hooks(&pod(&json!({
        "post.hook.restore.velero.io/command": "[\"/bin/sh\", \"-c\", \"warm\"]",
        "post.hook.restore.velero.io/container": "proxy",
        "post.hook.restore.velero.io/on-error": "Fail",
        "post.hook.restore.velero.io/exec-timeout": "10s",
        "post.hook.restore.velero.io/wait-timeout": "1m",
        "post.hook.restore.velero.io/wait-for-ready": "True",
    })));
    assert_eq!(found.warnings, Vec::<String>::new());
    let [group] = &found.containers[..] else { panic!("{found:?}") };
    let expected = PodRestoreHook {
        source: HookSource::Annotation,
        name: "<from-annotation>".into(),
        index: 0,
        container: "proxy".into(),
        command: vec!["/bin/sh".into(), "-c".into(), "warm".into()],
        on_error: Some(HookErrorMode::Fail),
        exec_timeout: GoDuration::from_secs(10),
        wait_timeout: GoDuration::from_mins(1),
        wait_for_ready: true,
    };
    assert_eq!(group.hooks, [expected]);
}

#[test]
fn what_cannot_be_read_in_an_annotation_is_a_warning_and_a_default() {
    let found = rules(&json!({})).exec_hooks(&pod(&json!({
        "post.hook.restore.velero.io/command": "warm",
        "post.hook.restore.velero.io/on-error": "Explode",
        "post.hook.restore.velero.io/exec-timeout": "soon",
        "post.hook.restore.velero.io/wait-timeout": "later",
        "post.hook.restore.velero.io/wait-for-ready": "maybe",
    })));
    let hook = &found.containers[0].hooks[0];
    assert_eq!((hook.container.as_str(), hook.exec_timeout), ("db", GoDuration::from_secs(30)));
    assert_eq!((hook.on_error.as_ref(), hook.longest_wait(), hook.wait_for_ready), (None, None, false));
    assert!(found.warnings[0].starts_with("Unable to parse exec timeout soon, ignoring"), "{:?}", found.warnings);
    assert!(found.warnings[1].starts_with("Unable to parse wait timeout later, ignoring"), "{:?}", found.warnings);
    assert!(found.warnings[2].starts_with("Unable to parse wait for ready maybe, ignoring"), "{:?}", found.warnings);
}

#[test]
fn a_hook_in_a_container_the_pod_lacks_is_dropped_with_a_warning() {
    let exec = |container: &str| json!({"exec": {"command": ["x"], "container": container}});
    let rules = rules(&json!({"resources": [{"name": "n", "postHooks": [exec("gone"), exec("db")]}]}));
    let found = rules.exec_hooks(&pod(&json!({})));
    assert_eq!(found.containers.len(), 1);
    let message = "Pod app/db-0 does not have container gone: discarding post-restore exec hooks";
    assert_eq!(found.warnings, [message]);
}

#[test]
fn a_container_is_up_when_it_runs_or_is_ready_as_its_hooks_ask() {
    let table = [
        (json!({"name": "db", "state": {"running": {}}, "ready": false}), true, false),
        (json!({"name": "db", "state": {"running": {}}, "ready": true}), true, true),
        (json!({"name": "db", "state": {"waiting": {}}, "ready": false}), false, false),
        (json!({"name": "other", "state": {"running": {}}, "ready": true}), false, false),
    ];
    for (status, running, ready) in table {
        for (must_be_ready, expected) in [(false, running), (true, ready)] {
            let hook = json!({"exec": {"command": ["x"], "waitForReady": must_be_ready}});
            let rules = rules(&json!({"resources": [{"name": "n", "postHooks": [hook]}]}));
            let hooks = rules.exec_hooks(&pod(&json!({})));
            let now = json!({"status": {"containerStatuses": [status]}});
            assert_eq!(hooks.containers[0].is_up(&now), expected, "{status} {must_be_ready}");
        }
    }
}

#[test]
fn an_annotation_replaces_the_init_containers_of_the_spec() {
    let spec = json!({"name": "n", "postHooks": [{"init": {"initContainers": [container("prepare")]}}]});
    let rules = rules(&json!({"resources": [spec]}));
    let annotated = pod(&json!({
        "init.hook.restore.velero.io/container-image": "busybox",
        "init.hook.restore.velero.io/container-name": "fetch",
        "init.hook.restore.velero.io/command": "[\"fetch\", \"all\"]",
    }));
    let expected = json!({"name": "fetch", "image": "busybox", "command": ["fetch", "all"]});
    assert_eq!(rules.init_containers(&annotated, "app").unwrap(), [expected]);

    let image_only = pod(&json!({"init.hook.restore.velero.io/container-image": "busybox"}));
    let made = rules.init_containers(&image_only, "app").unwrap();
    let name = made[0]["name"].as_str().unwrap();
    assert!(name.len() == "velero-restore-init-".len() + 8 && name.starts_with("velero-restore-init-"), "{name}");
    assert_eq!(made[0].get("command"), None, "the image's own entry point runs");
    assert_eq!(rules.init_containers(&image_only, "copy").unwrap(), made, "the same pod gives the same name");
}

#[test]
fn an_init_container_that_is_not_whole_is_an_error() {
    let group = json!({"name": "n", "postHooks": [{"init": {"initContainers": [{"name": "x", "image": "y"}]}}]});
    let found = rules(&json!({"resources": [group]})).init_containers(&pod(&json!({})), "app");
    assert_eq!(found, Err(InvalidInitContainer));
}

#[test]
fn init_containers_go_first_but_behind_the_one_that_waits() {
    let table: [(Value, &[&str]); 5] = [
        (json!(null), &["a", "b"]),
        (json!([{"name": "own"}]), &["a", "b", "own"]),
        (json!([{"name": "restore-wait"}, {"name": "own"}]), &["restore-wait", "a", "b", "own"]),
        (json!([{"name": "restic-wait"}]), &["restic-wait", "a", "b"]),
        (json!([{"name": "own"}, {"name": "restore-wait"}]), &["a", "b", "own", "restore-wait"]),
    ];
    for (existing, expected) in table {
        let mut pod = json!({"spec": {"initContainers": existing}});
        insert_init_containers(&mut pod, vec![json!({"name": "a"}), json!({"name": "b"})]);
        assert_eq!(names_of(&pod["spec"]["initContainers"], |_| true), expected);
    }
    let mut untouched = json!({"spec": {}});
    insert_init_containers(&mut untouched, Vec::new());
    assert_eq!(untouched, json!({"spec": {}}));
}

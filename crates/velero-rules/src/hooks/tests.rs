use super::*;
use serde_json::json;

fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": {"namespace": "app", "name": "db-0", "labels": {"app": "db"}, "annotations": annotations},
        "spec": {
            "containers": [{"name": "db"}, {"name": "proxy"}],
            "initContainers": [{"name": "sidecar", "restartPolicy": "Always"}, {"name": "setup"}],
        },
    })
}

fn rules(spec: &Value) -> HookRules {
    let hooks: BackupHooks = serde_json::from_value(spec.clone()).unwrap();
    HookRules::new(&hooks, |name| (name == "po").then(|| "pods".to_owned())).unwrap()
}

fn spec_rules() -> HookRules {
    rules(&json!({"resources": [{
        "name": "quiesce",
        "includedNamespaces": ["app"],
        "includedResources": ["po"],
        "labelSelector": {"matchLabels": {"app": "db"}},
        "pre": [
            {"exec": {"command": ["freeze"], "container": "proxy", "onError": "Fail", "timeout": "1m"}},
            {"exec": {"command": ["sync"]}},
        ],
        "post": [{"exec": {"command": ["thaw"]}}],
    }]}))
}

#[test]
fn spec_hooks_run_in_order_with_their_defaults() {
    let found = spec_rules().for_pod(&pod(&json!({})), HookPhase::Pre).hooks;
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].name.as_str(), found[0].index, found[0].container.as_str()), ("quiesce", 0, "proxy"));
    assert_eq!(found[0].timeout, GoDuration::from_mins(1));
    assert!(found[0].stops_on_failure());
    assert_eq!((found[1].index, found[1].container.as_str()), (1, "db"));
    assert_eq!(found[1].timeout, GoDuration::from_secs(30));
    assert!(!found[1].stops_on_failure(), "an unset onError goes on");
    assert_eq!(spec_rules().for_pod(&pod(&json!({})), HookPhase::Post).hooks[0].command, ["thaw"]);
}

#[test]
fn spec_hooks_are_only_for_what_they_select() {
    let exec = json!([{"exec": {"command": ["x"]}}]);
    let table = [
        (json!({"includedNamespaces": ["other"]}), 0),
        (json!({"excludedNamespaces": ["a*"]}), 0),
        (json!({"includedNamespaces": ["a*"]}), 1),
        (json!({"includedResources": ["deployments"]}), 0),
        (json!({"excludedResources": ["pods"]}), 0),
        (json!({"includedResources": ["*"]}), 1),
        (json!({"labelSelector": {"matchLabels": {"app": "web"}}}), 0),
        (json!({}), 1),
    ];
    for (mut selection, expected) in table {
        selection["name"] = json!("hook");
        selection["pre"] = exec.clone();
        let found = rules(&json!({"resources": [selection]})).for_pod(&pod(&json!({})), HookPhase::Pre);
        assert_eq!(found.hooks.len(), expected, "{selection}");
    }
}

#[test]
fn an_annotation_replaces_the_spec_hooks_of_its_phase_only() {
    let annotated = pod(&json!({
        "pre.hook.backup.velero.io/command": "[\"/bin/sh\", \"-c\", \"sync\"]",
        "pre.hook.backup.velero.io/container": "sidecar",
        "pre.hook.backup.velero.io/on-error": "Fail",
        "pre.hook.backup.velero.io/timeout": "90s",
    }));
    let found = spec_rules().for_pod(&annotated, HookPhase::Pre);
    assert_eq!(found.warnings, Vec::<String>::new());
    let [hook] = &found.hooks[..] else { panic!("one hook expected, found {found:?}") };
    assert_eq!(hook.source, HookSource::Annotation);
    assert_eq!(hook.name, "<from-annotation>");
    assert_eq!(hook.command, ["/bin/sh", "-c", "sync"]);
    assert_eq!((hook.container.as_str(), hook.timeout), ("sidecar", GoDuration::from_secs(90)));
    assert!(hook.stops_on_failure());
    assert_eq!(hook.refusal, None, "a sidecar is a valid target");
    assert_eq!(spec_rules().for_pod(&annotated, HookPhase::Post).hooks[0].source, HookSource::Spec);
}

#[test]
fn an_annotation_without_a_phase_is_a_pre_hook() {
    let annotated = pod(&json!({"hook.backup.velero.io/command": "/bin/sync"}));
    assert_eq!(HookRules::default().for_pod(&annotated, HookPhase::Pre).hooks[0].command, ["/bin/sync"]);
    assert!(HookRules::default().for_pod(&annotated, HookPhase::Post).hooks.is_empty());
}

#[test]
fn an_unreadable_timeout_or_mode_falls_back_with_a_warning() {
    let annotated = pod(&json!({
        "post.hook.backup.velero.io/command": "sync",
        "post.hook.backup.velero.io/timeout": "soon",
        "post.hook.backup.velero.io/on-error": "Explode",
    }));
    let found = HookRules::default().for_pod(&annotated, HookPhase::Post);
    assert_eq!(found.hooks[0].timeout, GoDuration::from_secs(30));
    assert_eq!(found.hooks[0].on_error, None);
    assert!(found.warnings[0].starts_with("Unable to parse provided timeout soon"), "{:?}", found.warnings);
}

#[test]
fn a_hook_that_cannot_run_says_why() {
    let hook = |exec: &Value, pod: &Value| {
        let spec = json!({"resources": [{"name": "h", "pre": [{"exec": exec}]}]});
        rules(&spec).for_pod(pod, HookPhase::Pre).hooks.remove(0).refusal
    };
    let plain = pod(&json!({}));
    let missing = |container: &str| Some(HookError::NoSuchContainer { container: container.to_owned() });
    assert_eq!(hook(&json!({"command": ["x"]}), &plain), None);
    assert_eq!(hook(&json!({"command": ["x"], "container": "nope"}), &plain), missing("nope"));
    assert_eq!(hook(&json!({"command": ["x"], "container": "setup"}), &plain), missing("setup"));
    assert_eq!(hook(&json!({"command": []}), &plain), Some(HookError::NoCommand));
    assert_eq!(hook(&json!({"command": ["x"]}), &json!({"spec": {}})), Some(HookError::NoContainer));
}

#[test]
fn commands_are_lists_or_single_programs() {
    assert_eq!(parse_command("[\"a\",\"b c\"]"), ["a", "b c"]);
    assert_eq!(parse_command("[broken"), ["[broken"]);
    assert_eq!(parse_command("a b"), ["a b"]);
}

#[test]
fn ended_pods_are_recognised() {
    assert!(has_ended(&json!({"status": {"phase": "Succeeded"}})));
    assert!(has_ended(&json!({"status": {"phase": "Failed"}})));
    assert!(!has_ended(&json!({"status": {"phase": "Running"}})));
    assert!(!has_ended(&json!({})));
}

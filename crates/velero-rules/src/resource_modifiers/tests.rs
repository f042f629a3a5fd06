use super::*;
use serde_json::json;

const CLAIMS: &str = "persistentvolumeclaims";

fn claim() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "foo", "name": "mysql-0", "labels": {"foo": "bar", "test": "x"}},
        "spec": {"storageClassName": "premium", "replicas": 3},
    })
}

/// Gives the modifiers of one rule, written in the flow style of YAML.
fn rule(conditions: &str, patches: &str) -> ResourceModifiers {
    ResourceModifiers::parse(&document(conditions, patches)).unwrap()
}

fn document(conditions: &str, patches: &str) -> String {
    format!("version: v1\nresourceModifierRules:\n- conditions: {conditions}\n  {patches}\n")
}

fn refusal(yaml: &str) -> String {
    ResourceModifiers::parse(yaml).unwrap_err().to_string()
}

/// Applies modifiers that must not fail.
fn applied(modifiers: &ResourceModifiers, mut object: Value, group_resource: &str) -> Value {
    assert_eq!(modifiers.apply(&mut object, group_resource), Vec::<String>::new());
    object
}

#[test]
fn a_rule_changes_what_it_selects_and_nothing_else() {
    let modifiers = ResourceModifiers::parse(
        r#"
version: v1
resourceModifierRules:
- conditions:
    groupResource: persistentvolumeclaims
    resourceNameRegex: "^mysql.*$"
    namespaces: [bar, foo]
    labelSelector:
      matchLabels:
        foo: bar
  patches:
  - operation: replace
    path: "/spec/storageClassName"
    value: "standard"
  - operation: remove
    path: "/metadata/labels/test"
"#,
    )
    .unwrap();
    let changed = applied(&modifiers, claim(), CLAIMS);
    assert_eq!(changed["spec"]["storageClassName"], "standard");
    assert_eq!(changed["metadata"]["labels"], json!({"foo": "bar"}));

    let others = [
        ("secrets", "/metadata/name", json!("mysql-0")),
        (CLAIMS, "/metadata/namespace", json!("other")),
        (CLAIMS, "/metadata/name", json!("postgres")),
        (CLAIMS, "/metadata/labels/foo", json!("baz")),
    ];
    for (group_resource, path, value) in others {
        let mut other = claim();
        *other.pointer_mut(path).unwrap() = value;
        assert_eq!(applied(&modifiers, other.clone(), group_resource), other, "{group_resource} {path}");
    }
}

#[test]
fn types_are_matched_by_patterns_that_stop_at_the_dot() {
    let table = [
        ("*", "pods", true),
        ("*", "deployments.apps", false),
        ("*.apps", "deployments.apps", true),
        ("*.apps", "pods", false),
        ("**", "ingresses.networking.k8s.io", true),
        ("*.*", "deployments.apps", true),
        ("{pods,secrets}", "secrets", true),
        ("pods", "pod", false),
    ];
    for (pattern, group_resource, expected) in table {
        let modifiers = rule(&format!("{{groupResource: '{pattern}'}}"), "mergePatches: [{patchData: '{x: 1}'}]");
        let changed = applied(&modifiers, claim(), group_resource);
        assert_eq!(changed.get("x").is_some(), expected, "{pattern} {group_resource}");
    }
}

#[test]
fn an_object_without_a_namespace_is_in_all_of_them() {
    let modifiers = rule("{groupResource: '**', namespaces: [foo]}", "mergePatches: [{patchData: '{x: 1}'}]");
    let role = json!({"kind": "ClusterRole", "metadata": {"name": "r"}});
    assert_eq!(applied(&modifiers, role, "clusterroles.rbac.authorization.k8s.io")["x"], 1);
}

#[test]
fn matches_compare_values_at_paths() {
    let table = [
        ("[{path: /spec/storageClassName, value: premium}]", true),
        ("[{path: /spec/storageClassName, value: standard}]", false),
        ("[{path: /spec/replicas, value: '3'}]", true),
        ("[{path: /spec/replicas, value: 3}]", true),
        ("[{path: /spec/replicas, value: '\"3\"'}]", false),
        ("[{path: /spec/missing, value: x}]", false),
        ("[{path: /spec/missing, value: 'null'}]", true),
        ("[{path: /spec/missing/deeper, value: x}]", false),
        ("[{path: /metadata/labels, value: '{\"test\": \"x\", \"foo\": \"bar\"}'}]", true),
        ("[{path: /metadata/name, value: mysql-0}, {path: /spec/replicas, value: '4'}]", false),
    ];
    for (matches, expected) in table {
        let conditions = format!("{{groupResource: {CLAIMS}, matches: {matches}}}");
        let modifiers = rule(&conditions, "mergePatches: [{patchData: '{x: 1}'}]");
        assert_eq!(applied(&modifiers, claim(), CLAIMS).get("x").is_some(), expected, "{matches}");
    }
}

#[test]
fn every_operation_of_json_patch_works() {
    let table = [
        (
            "{operation: add, path: /metadata/labels/new, value: yes-please}",
            "/metadata/labels/new",
            json!("yes-please"),
        ),
        ("{operation: Replace, path: /spec/replicas, value: '5'}", "/spec/replicas", json!(5)),
        ("{operation: replace, path: /spec, value: '{\"a\": [1]}'}", "/spec", json!({"a": [1]})),
        ("{operation: remove, path: /spec/replicas}", "/spec", json!({"storageClassName": "premium"})),
        (
            "{operation: move, from: /spec/replicas, path: /spec/moved}",
            "/spec",
            json!({"storageClassName": "premium", "moved": 3}),
        ),
        ("{operation: copy, from: /spec/replicas, path: /copied}", "/copied", json!(3)),
        ("{operation: add, path: /metadata/labels/a~1b, value: c}", "/metadata/labels/a~1b", json!("c")),
    ];
    for (operation, path, expected) in table {
        let modifiers = rule("{groupResource: '**'}", &format!("patches: [{operation}]"));
        assert_eq!(applied(&modifiers, claim(), CLAIMS).pointer(path), Some(&expected), "{operation}");
    }
}

#[test]
fn a_container_can_be_added_and_copied() {
    let modifiers = ResourceModifiers::parse(
        r#"
version: v1
resourceModifierRules:
- conditions:
    groupResource: deployments.apps
  patches:
  - operation: add
    path: "/spec/template/spec/containers/0"
    value: "{\"name\": \"nginx\", \"image\": \"nginx:1.14.2\", \"ports\": [{\"containerPort\": 80}]}"
  - operation: copy
    from: "/spec/template/spec/containers/0"
    path: "/spec/template/spec/containers/1"
"#,
    )
    .unwrap();
    let deployment = json!({"kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"name": "own"}]}}}});
    let nginx = json!({"name": "nginx", "image": "nginx:1.14.2", "ports": [{"containerPort": 80}]});
    let changed = applied(&modifiers, deployment, "deployments.apps");
    assert_eq!(changed["spec"]["template"]["spec"]["containers"], json!([nginx, nginx, {"name": "own"}]));
}

#[test]
fn a_failed_test_leaves_the_object_alone_without_an_error() {
    let patches = "patches: [{operation: add, path: /x, value: '1'}, {operation: test, path: /spec/storageClassName, \
                   value: gp2}, {operation: add, path: /y, value: '1'}]";
    let modifiers = rule("{groupResource: '**'}", patches);
    assert_eq!(applied(&modifiers, claim(), CLAIMS), claim());
    let mut matching = claim();
    matching["spec"]["storageClassName"] = json!("gp2");
    assert_eq!(applied(&modifiers, matching, CLAIMS)["y"], 1);
}

#[test]
fn values_are_read_as_the_table_says() {
    let table = [
        ("", json!("")),
        ("text", json!("text")),
        ("v1.2.3", json!("v1.2.3")),
        ("true", json!(true)),
        ("False", json!(false)),
        ("null", json!(null)),
        ("5", json!(5)),
        ("-1.5", json!(-1.5)),
        ("007", json!("007")),
        ("\"true\"", json!("true")),
        ("\"5\"", json!("5")),
        ("\"", json!("\"")),
        ("[1, \"a\"]", json!([1, "a"])),
        ("{\"a\": null}", json!({"a": null})),
        ("two\\nlines", json!("two\nlines")),
        ("said \"so\"", json!("said \"so\"")),
        ("back\\slash", json!("back\\slash")),
    ];
    for (text, expected) in table {
        assert_eq!(patches::read_value(text).unwrap(), expected, "{text:?}");
    }
    assert!(patches::read_value("{a: 1}").unwrap_err().to_string().starts_with("value \"{a: 1}\" is no valid JSON"));
}

#[test]
fn values_without_quotes_are_taken_for_their_text() {
    for (written, expected) in [("true", json!(true)), ("12", json!(12)), ("1.5", json!(1.5)), ("null", json!(""))] {
        let patch = format!("patches: [{{operation: add, path: /x, value: {written}}}]");
        assert_eq!(applied(&rule("{groupResource: '**'}", &patch), claim(), CLAIMS)["x"], expected, "{written}");
    }
}

#[test]
fn merge_patches_are_read_as_json_or_yaml_and_applied_in_order() {
    let modifiers = ResourceModifiers::parse(
        r#"
version: V1
resourceModifierRules:
- conditions: {groupResource: persistentvolumeclaims}
  mergePatches:
  - patchData: |
      {
      	"metadata": {"labels": {"test": null, "step": "1"}}
      }
  - patchData: |
      metadata:
        labels:
          step: "2"
"#,
    )
    .unwrap();
    let changed = applied(&modifiers, claim(), CLAIMS);
    assert_eq!(changed["metadata"]["labels"], json!({"foo": "bar", "step": "2"}));
}

#[test]
fn strategic_patches_know_merge_keys() {
    let patches = "strategicPatches: [{patchData: '{\"spec\": {\"containers\": [{\"name\": \"nginx\", \"image\": \
                   \"repo2/nginx\"}]}}'}]";
    let modifiers = rule("{groupResource: '**', resourceNameRegex: '^my-pod$'}", patches);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "my-pod"}, "spec": {"containers": [
        {"name": "sidecar", "image": "repo1/sidecar"}, {"name": "nginx", "image": "repo1/nginx", "tty": true},
    ]}});
    assert_eq!(
        applied(&modifiers, pod, "pods")["spec"]["containers"],
        json!([
            {"name": "sidecar", "image": "repo1/sidecar"}, {"name": "nginx", "image": "repo2/nginx", "tty": true},
        ])
    );

    let custom = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "my-pod"}});
    let mut changed = custom.clone();
    assert_eq!(
        modifiers.apply(&mut changed, "widgets.example.com"),
        ["error in applying patch of resourceModifierRules[0] to widgets.example.com: no merge keys are known for \
          \"Widget\" of \"example.com/v1\": use mergePatches or patches for this type"]
    );
    assert_eq!(changed, custom);
}

#[test]
fn all_conditions_are_tested_before_the_first_rule_changes_anything() {
    let modifiers = ResourceModifiers::parse(
        "version: v1
resourceModifierRules:
- conditions: {groupResource: persistentvolumeclaims, matches: [{path: /spec/storageClassName, value: premium}]}
  mergePatches: [{patchData: '{spec: {storageClassName: standard}}'}]
- conditions: {groupResource: persistentvolumeclaims, matches: [{path: /spec/storageClassName, value: standard}]}
  mergePatches: [{patchData: '{spec: {storageClassName: cheap}}'}]
- conditions: {groupResource: persistentvolumeclaims, matches: [{path: /spec/storageClassName, value: premium}]}
  patches: [{operation: copy, from: /spec/storageClassName, path: /spec/seen}]",
    )
    .unwrap();
    let changed = applied(&modifiers, claim(), CLAIMS);
    assert_eq!(changed["spec"]["storageClassName"], "standard");
    assert_eq!(changed["spec"]["seen"], "standard", "later rules see what earlier ones made");
}

#[test]
fn a_rule_that_fails_changes_nothing_and_the_others_still_apply() {
    let modifiers = ResourceModifiers::parse(
        "version: v1
resourceModifierRules:
- conditions: {groupResource: '*'}
  patches: [{operation: add, path: /x, value: '1'}, {operation: remove, path: /missing}]
- conditions: {groupResource: '*'}
  mergePatches: [{patchData: '{kind: null}'}]
- conditions: {groupResource: '*'}
  mergePatches: [{patchData: '{y: 1}'}]",
    )
    .unwrap();
    let mut object = claim();
    let problems = modifiers.apply(&mut object, CLAIMS);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("error in applying patch of resourceModifierRules[0]"), "{problems:?}");
    assert!(problems[0].contains("/missing"), "{problems:?}");
    assert!(problems[1].ends_with("the patch leaves the object without its kind"), "{problems:?}");
    let mut expected = claim();
    expected["y"] = json!(1);
    assert_eq!(object, expected);
}

#[test]
fn documents_that_cannot_be_used_are_refused() {
    let all = "{groupResource: '*'}";
    let table = [
        ("version: v2".to_owned(), "unsupported resource modifier version v2"),
        ("version: v1".to_owned(), "resource modifier rules cannot be empty"),
        (document("{}", "patches: []"), "resourceModifierRules[0]: groupResource cannot be empty"),
        (
            document(all, "patches: []"),
            "resourceModifierRules[0]: no patch data found: specify patches, mergePatches or strategicPatches",
        ),
        (
            document(all, "patches: [{operation: remove, path: /a}]\n  mergePatches: [{patchData: '{}'}]"),
            "resourceModifierRules[0]: only one of patches, mergePatches, strategicPatches can be specified",
        ),
        (document(all, "patches: [{path: /a}]"), "resourceModifierRules[0]: operation cannot be empty"),
        (
            document(all, "patches: [{operation: burn, path: /a}]"),
            "resourceModifierRules[0]: unsupported operation burn",
        ),
        (document(all, "patches: [{operation: add}]"), "resourceModifierRules[0]: path cannot be empty"),
        (
            document("{groupResource: '*', matches: [{value: x}]}", "mergePatches: [{patchData: '{}'}]"),
            "resourceModifierRules[0]: path is required for match rule",
        ),
        (document(all, "mergePatches: [{patchData: '[]'}]"), "resourceModifierRules[0]: patchData must be an object"),
    ];
    for (yaml, message) in table {
        assert_eq!(refusal(&yaml), message, "{yaml}");
    }
    let beginnings = [
        (
            document("{groupResource: '[a-'}", "patches: []"),
            "resourceModifierRules[0]: bad glob pattern of groupResource",
        ),
        (
            document("{groupResource: '*', resourceNameRegex: '('}", "patches: []"),
            "resourceModifierRules[0]: error in matching regex",
        ),
        (
            document("{groupResource: '*', labelSelector: {matchLabels: {'a b': c}}}", "patches: []"),
            "resourceModifierRules[0]: error in creating label selector",
        ),
        (
            document(all, "patches: [{operation: add, path: no-slash}]"),
            "resourceModifierRules[0]: error in decoding json patch of path \"no-slash\"",
        ),
        (
            document(all, "strategicPatches: [{patchData: '{'}]"),
            "resourceModifierRules[0]: error in converting YAML to JSON",
        ),
        ("version: v1\nrules: []".to_owned(), "failed to decode yaml data into resource modifiers, err: "),
        (document(all, "patches: [{operation: add, pth: /a}]"), "failed to decode yaml data"),
        ("version: v1\nversion: v1".to_owned(), "failed to decode yaml data"),
    ];
    for (yaml, message) in beginnings {
        assert!(refusal(&yaml).starts_with(message), "{}", refusal(&yaml));
    }
}

#[test]
fn a_config_map_holds_exactly_one_document() {
    let data = |keys: &[&str]| -> BTreeMap<String, String> {
        let text = document("{groupResource: '*'}", "mergePatches: [{patchData: '{}'}]");
        keys.iter().map(|key| ((*key).to_owned(), text.clone())).collect()
    };
    assert!(ResourceModifiers::from_config_map(&data(&["a"])).is_ok());
    for keys in [&[][..], &["a", "b"]] {
        let error = ResourceModifiers::from_config_map(&data(keys)).unwrap_err();
        assert_eq!(error, ModifierError::DataKeys { keys: keys.len() });
        assert!(
            error
                .message("velero", "m")
                .starts_with("Error in parsing resource modifiers provided in configmap velero/m: illegal"),
        );
    }
    let error = ResourceModifiers::parse("version: v1").unwrap_err();
    assert_eq!(
        error.message("velero", "m"),
        "Validation error in resource modifiers provided in configmap velero/m: resource modifier rules cannot be empty"
    );
}

/// Applies one rule with that many times the same operation.
fn repeated(operation: &str, times: usize) -> (Value, Vec<String>) {
    let operations = vec![operation; times].join(", ");
    let modifiers = rule("{groupResource: persistentvolumeclaims}", &format!("patches: [{operations}]"));
    let mut object = claim();
    let problems = modifiers.apply(&mut object, CLAIMS);
    (object, problems)
}

#[test]
fn operations_that_double_an_object_again_and_again_are_refused_before_it_fills_the_memory() {
    let wider = "{operation: copy, from: /spec, path: /spec/NEW}";
    let operations: Vec<String> = (0..64).map(|number| wider.replace("NEW", &format!("n{number}"))).collect();
    let modifiers = rule("{groupResource: persistentvolumeclaims}", &format!("patches: [{}]", operations.join(", ")));
    let mut object = claim();
    let problems = modifiers.apply(&mut object, CLAIMS);
    assert!(problems[0].contains("copies more than 16777216 bytes"), "{problems:?}");
    assert_eq!(object, claim(), "it stays as it was");
}

#[test]
fn operations_that_nest_an_object_in_itself_are_refused_before_it_is_too_deep_to_be_dropped() {
    let (object, problems) = repeated("{operation: copy, from: /spec, path: /spec/x}", 200);
    assert!(problems[0].contains("too deep"), "{problems:?}");
    assert_eq!(object, claim(), "it stays as it was");
    let (_, problems) = repeated("{operation: copy, from: /spec, path: /copied}", 200);
    assert!(problems.is_empty(), "{problems:?}");
}

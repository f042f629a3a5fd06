use super::*;
use serde_json::json;

fn merged(mut object: Value, patch: &Value) -> Result<Value, StrategicMergeError> {
    strategic_merge(&mut object, patch).map(|()| object)
}

fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec})
}

/// Merges a patch into the spec of a pod.
fn merged_spec(spec: &Value, patch: &Value) -> Result<Value, StrategicMergeError> {
    merged(pod(spec), &json!({"spec": patch})).map(|pod| pod["spec"].clone())
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_patch_of_a_pod_spec_gives_what_the_table_says() {
    let two = json!({"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}]});
    let table = [
        (
            "an element with a known key is merged and stays in its place",
            two.clone(),
            json!({"containers": [{"name": "b", "image": "3"}]}),
            json!({"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "3"}]}),
        ),
        (
            "a new element comes first",
            two.clone(),
            json!({"containers": [{"name": "c", "image": "3", "tty": null}]}),
            json!({"containers": [
                {"name": "c", "image": "3"}, {"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"},
            ]}),
        ),
        (
            "elements of the patch are in its order",
            json!({"tolerations": 1, "volumes": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"volumes": [{"name": "c"}, {"name": "a"}]}),
            json!({"tolerations": 1, "volumes": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}),
        ),
        (
            "an element is deleted by its key",
            two.clone(),
            json!({"containers": [{"$patch": "delete", "name": "a"}]}),
            json!({"containers": [{"name": "b", "image": "2"}]}),
        ),
        (
            "a list is replaced as a whole",
            two.clone(),
            json!({"containers": [{"name": "c"}, {"$patch": "replace"}]}),
            json!({"containers": [{"name": "c"}]}),
        ),
        (
            "a list without a merge key is replaced",
            json!({"tolerations": [{"key": "a"}]}),
            json!({"tolerations": [{"key": "b"}]}),
            json!({"tolerations": [{"key": "b"}]}),
        ),
        (
            "lists deep inside are merged too",
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "3"}], "ports": [{"containerPort": 1}]}]}),
            json!({"containers": [{
                "name": "a",
                "env": [{"name": "X", "value": "3"}, {"name": "Y", "value": "2"}],
                "ports": [{"containerPort": 1}],
            }]}),
        ),
        (
            "null deletes a field, and is not added",
            json!({"nodeName": "n", "dnsConfig": {"options": 1}}),
            json!({"nodeName": null, "hostname": null, "affinity": {"nodeAffinity": null, "podAffinity": {}}}),
            json!({"dnsConfig": {"options": 1}, "affinity": {"podAffinity": {}}}),
        ),
        (
            "an object is replaced, also where there is none",
            json!({"securityContext": {"runAsUser": 1}}),
            json!({"securityContext": {"$patch": "replace", "fsGroup": 2}, "affinity": {"$patch": "replace", "x": 1}}),
            json!({"securityContext": {"fsGroup": 2}, "affinity": {"x": 1}}),
        ),
        (
            "an object is emptied",
            json!({"securityContext": {"runAsUser": 1}}),
            json!({"securityContext": {"$patch": "delete"}, "affinity": {"$patch": "delete"}}),
            json!({"securityContext": {}}),
        ),
        (
            "merging can be asked for",
            json!({"securityContext": {"runAsUser": 1}}),
            json!({"securityContext": {"$patch": "merge", "fsGroup": 2}}),
            json!({"securityContext": {"runAsUser": 1, "fsGroup": 2}}),
        ),
        (
            "only the keys to retain are kept",
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}),
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
        ),
        (
            "the order of elements can be set",
            two,
            json!({
                "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c"}],
            }),
            json!({"containers": [
                {"name": "b", "image": "2"}, {"name": "c"}, {"name": "a", "image": "1", "args": ["x"]},
            ]}),
        ),
        (
            "the order can be set without a change",
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}),
        ),
        (
            "a value of another type is replaced",
            json!({"containers": "none"}),
            json!({"containers": [{"name": "a"}, {"$patch": "delete", "name": "b"}]}),
            json!({"containers": [{"name": "a"}]}),
        ),
    ];
    for (what, spec, patch, expected) in table {
        assert_eq!(merged_spec(&spec, &patch).as_ref(), Ok(&expected), "{what}");
    }
}

#[test]
fn sets_of_plain_values_are_merged_and_deleted_from() {
    let object =
        |finalizers: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"finalizers": finalizers}});
    let table = [
        (json!({"finalizers": ["c", "a"]}), json!(["c", "a", "b"])),
        (json!({"$deleteFromPrimitiveList/finalizers": ["a", "x"]}), json!(["b"])),
        (json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}), json!(["c", "b"])),
        (json!({"$setElementOrder/finalizers": ["b", "a"]}), json!(["b", "a"])),
        (json!({"$deleteFromPrimitiveList/missing": ["a"]}), json!(["a", "b"])),
    ];
    for (metadata, expected) in table {
        let found = merged(object(json!(["a", "b"])), &json!({"metadata": metadata}));
        assert_eq!(found, Ok(object(expected)), "{metadata}");
    }
}

#[test]
fn every_type_has_its_own_merge_keys() {
    let table = [
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "1"}]}}}}),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "tty": true}]}}}}),
            "/spec/template/spec/containers",
            json!([{"name": "a", "image": "1", "tty": true}]),
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": {"volumes": [{"name": "a"}]}}}}}}),
            json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"volumes": [{"name": "b"}]}}}}}}),
            "/spec/jobTemplate/spec/template/spec/volumes",
            json!([{"name": "b"}, {"name": "a"}]),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443}]}}),
            json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
            "/spec/ports",
            json!([{"port": 80, "name": "http", "targetPort": 8080}, {"port": 443}]),
        ),
        (
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{"name": "a"}]}),
            json!({"secrets": [{"name": "b"}]}),
            "/secrets",
            json!([{"name": "b"}, {"name": "a"}]),
        ),
        (
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"selector": {"matchLabels": {"a": "b"}}}}),
            json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
            "/spec/selector",
            json!({"matchLabels": {"c": "d"}}),
        ),
        (
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {"rules": [{"host": "a"}]}}),
            json!({"spec": {"rules": [{"host": "b"}]}}),
            "/spec/rules",
            json!([{"host": "b"}]),
        ),
        (
            json!({"apiVersion": "velero.io/v1", "kind": "Schedule", "spec": {"template": {"includedNamespaces": ["a"]}}}),
            json!({"spec": {"template": {"includedNamespaces": ["b"]}}}),
            "/spec/template",
            json!({"includedNamespaces": ["b"]}),
        ),
    ];
    for (object, patch, pointer, expected) in table {
        let found = merged(object.clone(), &patch).unwrap();
        assert_eq!(found.pointer(pointer), Some(&expected), "{object}");
    }
}

#[test]
fn the_table_of_kinds_is_in_order() {
    assert!(table::KINDS.is_sorted_by_key(|(api_version, kind, _)| (api_version, kind)));
    assert!(table::KINDS.len() > 80, "all built-in kinds are known");
}

#[test]
fn what_cannot_be_merged_is_an_error() {
    let custom = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
    assert_eq!(
        merged(custom, &json!({})).unwrap_err().to_string(),
        "no merge keys are known for \"Widget\" of \"example.com/v1\": use mergePatches or patches for this type"
    );
    assert_eq!(merged(pod(&json!({})), &json!([])), Err(StrategicMergeError::NotAnObject));

    let spec = json!({"containers": [{"name": "a"}], "securityContext": {}});
    let table = [
        (json!({"securityContext": {"$patch": "explode"}}), "unknown $patch \"explode\": use delete, replace or merge"),
        (json!({"$retainKeys": "containers"}), "$retainKeys must be a list"),
        (
            json!({"$retainKeys": ["containers"], "nodeName": "n"}),
            "field \"nodeName\" is in the patch but not in its $retainKeys: add it there",
        ),
        (json!({"$deleteFromPrimitiveList/x": {}}), "$deleteFromPrimitiveList/x must be a list"),
        (
            json!({"containers": [{"image": "x"}]}),
            "an element of the list \"containers\" lacks its merge key \"name\": {\"image\":\"x\"}",
        ),
        (
            json!({"containers": [{"$patch": "delete"}]}),
            "an element of the list \"containers\" lacks its merge key \"name\": {}",
        ),
        (
            json!({"containers": [{"name": "b"}], "$setElementOrder/containers": [{"name": "a"}]}),
            "an element of the list \"containers\" is in the patch but not in its $setElementOrder: add it there",
        ),
    ];
    for (patch, message) in table {
        assert_eq!(merged_spec(&spec, &patch).unwrap_err().to_string(), message);
    }
}

//! Whether an object that an earlier restore made was changed by nobody but the cluster since.

use serde_json::Value;
use velero_plugin::item::text;
use velero_rules::pod_volumes::remove_wait_containers;

/// Where users keep what is theirs: nothing is added there by a cluster.
const OF_USERS: [&str; 3] = ["/data", "/binaryData", "/stringData"];
const FINALIZERS: &str = "/metadata/finalizers";

/// Whether an object in the cluster holds all that was wanted, and besides only what clusters add: defaults, and what
/// controllers and admission put into the metadata and the spec. In which container a pod waits for its data is up to the
/// restore that made it.
pub(super) fn only_cluster_changed(live: &Value, wanted: &Value) -> bool {
    if text(wanted, "/kind") != "Pod" {
        return holds("", live, wanted, false);
    }
    let (mut live, mut wanted) = (live.clone(), wanted.clone());
    remove_wait_containers(&mut live);
    remove_wait_containers(&mut wanted);
    holds("", &live, &wanted, true)
}

fn holds(path: &str, live: &Value, wanted: &Value, is_pod: bool) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let is_known = |key: &String| wanted.contains_key(key);
            let has_grown = OF_USERS.contains(&path) && !live.keys().all(is_known);
            let within = |key: &String| format!("{path}/{key}");
            !has_grown
                && wanted.iter().all(|(key, wanted)| match live.get(key) {
                    Some(live) => holds(&within(key), live, wanted, is_pod),
                    None => is_empty(wanted),
                })
        }
        (Value::Array(live), Value::Array(wanted)) => {
            // Admission adds volumes, mounts and tolerations to pods.
            let may_grow = path == FINALIZERS || is_pod && path.starts_with("/spec/");
            let is_there = |wanted: &Value| live.iter().any(|live| holds(path, live, wanted, is_pod));
            (may_grow || live.len() == wanted.len()) && wanted.iter().all(is_there)
        }
        (_, Value::Null) => true,
        (live, wanted) => live == wanted,
    }
}

/// What the API server leaves away.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_clusters_add_is_told_from_what_users_change() {
        let claim = |spec: Value, annotations: Value| {
            json!({"kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "annotations": annotations}, "spec": spec})
        };
        let service = |ports: Value| json!({"kind": "Service", "spec": {"ports": ports}});
        let map = |data: Value| json!({"kind": "ConfigMap", "metadata": {"labels": {}}, "data": data});
        for (live, wanted, expected) in [
            (
                claim(json!({"volumeName": "pv", "a": 1}), json!({"bound": "yes"})),
                claim(json!({"a": 1}), json!(null)),
                true,
            ),
            (claim(json!({"a": 2}), json!({})), claim(json!({"a": 1}), json!({})), false),
            (claim(json!({}), json!({})), claim(json!({"a": 1}), json!({})), false),
            (claim(json!({}), json!({})), claim(json!({"a": []}), json!({})), true),
            (map(json!({"a": "1"})), map(json!({"a": "1"})), true),
            (map(json!({"a": "1", "b": "2"})), map(json!({"a": "1"})), false),
            (map(json!({"a": "2"})), map(json!({"a": "1"})), false),
            (service(json!([{"port": 80, "nodePort": 3000}])), service(json!([{"port": 80}])), true),
            (service(json!([{"port": 80}, {"port": 81}])), service(json!([{"port": 80}])), false),
        ] {
            assert_eq!(only_cluster_changed(&live, &wanted), expected, "{live} {wanted}");
        }
    }

    #[test]
    fn a_pod_is_the_same_whichever_restore_it_waits_for() {
        let pod = |waits_for: &str, tolerations: Value, image: &str| {
            json!({"kind": "Pod", "spec": {"tolerations": tolerations, "containers": [{"name": "main", "image": image}],
                "initContainers": [{"name": "restore-wait", "args": [waits_for]}]}})
        };
        let wanted = pod("2", json!([]), "a");
        assert!(only_cluster_changed(&pod("1", json!([{"key": "x"}]), "a"), &wanted));
        assert!(!only_cluster_changed(&pod("1", json!([]), "b"), &wanted));
    }
}

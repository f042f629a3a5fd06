//! Where two objects differ, whoever asks: a restore about the cluster, a person about two backups. What a cluster gives its
//! objects makes no difference, and what a Secret holds is told to nobody.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a cluster gave an object. Finalizers, labels, annotations and the owners of fields stay.
const GIVEN_BY_CLUSTER: [&str; 9] = [
    "generateName",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
];
/// What stands for a value that must not be seen.
pub const HIDDEN: &str = "<hidden>";
/// The same for a value that is another one than that of the object it is compared with.
pub const HIDDEN_AND_OTHER: &str = "<hidden, and another one>";
/// The annotation in which `kubectl apply` keeps the whole object.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What of a Secret is no secret.
const OPEN_IN_SECRETS: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];

/// One place where two objects differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Where, as a JSON pointer.
    pub path: String,
    /// What the one has, which is that of the cluster for a restore; none when it has nothing there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// What the other has, which is that of the backup for a restore; none when it has nothing there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

impl Change {
    /// About how many bytes it takes to tell it.
    pub fn size(&self) -> usize {
        let value = |value: &Option<Value>| value.as_ref().map_or(0, |value| value.to_string().len());
        self.path.len() + value(&self.from) + value(&self.to)
    }
}

/// Takes off what belongs to one cluster; gives the status.
pub fn strip(object: &mut Value) -> Option<Value> {
    if let Some(metadata) = metadata(object) {
        metadata.retain(|key, _| !GIVEN_BY_CLUSTER.contains(&key.as_str()));
    }
    object.as_object_mut()?.remove("status")
}

/// Takes off the owners of fields.
pub fn take_managed_fields(object: &mut Value) -> Vec<Value> {
    match metadata(object).and_then(|metadata| metadata.remove("managedFields")) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    }
}

/// Leaves of an object what somebody has written: two that are equal then do not differ.
pub fn reduce(object: &mut Value) {
    strip(object);
    take_managed_fields(object);
}

/// The places where two objects differ.
pub fn changes(from: &Value, to: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    collect("", Some(from), Some(to), &mut found);
    found
}

fn collect(path: &str, from: Option<&Value>, to: Option<&Value>, found: &mut Vec<Change>) {
    match (from, to) {
        (Some(Value::Object(from)), Some(Value::Object(to))) => {
            let mut keys: Vec<&String> = from.keys().chain(to.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                collect(&format!("{path}/{escaped}"), from.get(key), to.get(key), found);
            }
        }
        (from, to) if from == to => {}
        (from, to) => found.push(Change { path: path.to_owned(), from: from.cloned(), to: to.cloned() }),
    }
}

fn is_secret(api_version: &str, kind: &str) -> bool {
    (api_version, kind) == ("v1", "Secret")
}

/// Tells of the changes of a Secret where they are, but nothing that may be its content.
pub fn hide_changes(api_version: &str, kind: &str, changes: &mut [Change]) {
    if !is_secret(api_version, kind) {
        return;
    }
    for change in changes.iter_mut().filter(|change| !is_harmless(&change.path)) {
        for value in [&mut change.from, &mut change.to].into_iter().flatten() {
            *value = HIDDEN.into();
        }
    }
}

fn is_harmless(path: &str) -> bool {
    let annotation = path.strip_prefix("/metadata/annotations/");
    path == "/type"
        || path == "/immutable"
        || path.starts_with("/metadata/labels")
        || annotation.is_some_and(|annotation| annotation != LAST_APPLIED.replace('/', "~1"))
}

/// Puts something else where two Secrets that are compared, or one of them, hold their content. Which values differ can still be
/// seen.
pub fn hide_contents(one: &mut Value, other: &mut Value) {
    let is = |object: &Value| is_secret(text(object, "apiVersion"), text(object, "kind"));
    if !is(one) && !is(other) {
        return;
    }
    let before = one.clone();
    hide_object(one, None);
    hide_object(other, Some(&before));
}

fn hide_object(object: &mut Value, before: Option<&Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    for (key, value) in fields.iter_mut() {
        let before = before.map(|before| &before[key]);
        if !OPEN_IN_SECRETS.contains(&key.as_str()) {
            hide(value, before);
        } else if let Some(annotation) = value.get_mut("annotations").and_then(|all| all.get_mut(LAST_APPLIED)) {
            hide(annotation, before.map(|before| &before["annotations"][LAST_APPLIED]));
        }
    }
}

fn hide(value: &mut Value, before: Option<&Value>) {
    if let Value::Object(fields) = value {
        fields.iter_mut().for_each(|(key, value)| hide(value, before.map(|before| &before[key])));
        return;
    }
    let is_other = before.is_some_and(|before| !before.is_null() && *before != *value);
    *value = if is_other { HIDDEN_AND_OTHER } else { HIDDEN }.into();
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn metadata(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.as_object_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_old_cluster_gave_goes_and_the_rest_stays() {
        let mut object = json!({
            "metadata": {
                "name": "a", "namespace": "shop", "uid": "1", "resourceVersion": "2", "generation": 3, "selfLink": "/a",
                "generateName": "a-", "creationTimestamp": "x", "deletionTimestamp": "y",
                "deletionGracePeriodSeconds": 1, "ownerReferences": [{}], "finalizers": ["f"], "labels": {"a": "b"},
                "annotations": {"c": "d"}, "managedFields": [{"manager": "m"}]
            },
            "spec": {"x": 1},
            "status": {"y": 2}
        });
        let mut reduced = object.clone();
        assert_eq!(strip(&mut object), Some(json!({"y": 2})));
        assert_eq!(take_managed_fields(&mut object), [json!({"manager": "m"})]);
        let metadata = json!({"name": "a", "namespace": "shop", "finalizers": ["f"], "labels": {"a": "b"}, "annotations": {"c": "d"}});
        assert_eq!(object, json!({"metadata": metadata, "spec": {"x": 1}}));
        reduce(&mut reduced);
        assert_eq!(reduced, object);
    }

    #[test]
    fn what_is_no_object_is_left_as_it_is() {
        for value in [json!(null), json!([1]), json!("text"), json!({"metadata": 1})] {
            let mut reduced = value.clone();
            reduce(&mut reduced);
            assert_eq!(reduced, value);
        }
    }

    #[test]
    fn changes_name_each_place() {
        let one = json!({"data": {"a": "1", "b": "2", "same": [1]}});
        let other = json!({"data": {"a": "9", "c/d": "3", "same": [1]}});
        let found: Vec<_> =
            changes(&one, &other).into_iter().map(|change| (change.path, change.from, change.to)).collect();
        assert_eq!(
            found,
            [
                ("/data/a".to_owned(), Some(json!("1")), Some(json!("9"))),
                ("/data/b".to_owned(), Some(json!("2")), None),
                ("/data/c~1d".to_owned(), None, Some(json!("3"))),
            ]
        );
    }

    fn secret(data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data, "metadata": {"name": "s",
            "labels": {"app": "web"}, "annotations": {LAST_APPLIED: "{\"data\":\"c2VjcmV0\"}", "open": "yes"}}})
    }

    #[test]
    fn of_two_secrets_is_seen_which_values_differ_and_none_of_them() {
        let mut one = secret(&json!({"same": "c2VjcmV0", "changed": "b2xk", "gone": "Z29uZQ=="}));
        let mut other = secret(&json!({"same": "c2VjcmV0", "changed": "bmV3", "added": "YWRkZWQ="}));
        hide_contents(&mut one, &mut other);
        assert_eq!(one["data"], json!({"same": HIDDEN, "changed": HIDDEN, "gone": HIDDEN}));
        assert_eq!(other["data"], json!({"same": HIDDEN, "changed": HIDDEN_AND_OTHER, "added": HIDDEN}));
        let text = format!("{one}{other}");
        for value in ["c2VjcmV0", "b2xk", "bmV3", "Z29uZQ==", "YWRkZWQ="] {
            assert!(!text.contains(value), "{value} in {text}");
        }
        assert_eq!((&one["metadata"]["annotations"]["open"], &one["type"]), (&json!("yes"), &json!("Opaque")));
    }

    #[test]
    fn a_secret_is_hidden_whatever_it_is_compared_with_and_whatever_its_fields_are() {
        let mut odd =
            json!({"apiVersion": "v1", "kind": "Secret", "data": "c2VjcmV0", "extra": [{"deep": "c2VjcmV0"}]});
        let mut other = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "open"}});
        hide_contents(&mut odd, &mut other);
        assert!(!odd.to_string().contains("c2VjcmV0"), "{odd}");
        let (mut one, mut other) =
            (other.clone(), json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"}}));
        let kept = (one.clone(), other.clone());
        hide_contents(&mut one, &mut other);
        assert_eq!((one, other), kept, "what is no Secret is not hidden");
    }

    #[test]
    fn the_changes_of_a_secret_are_told_without_its_content() {
        let all = || changes(&secret(&json!({"a": "b2xk"})), &json!({"type": "Other", "data": {"a": "bmV3"}}));
        let mut hidden = all();
        hide_changes("v1", "Secret", &mut hidden);
        let of = |path: &str| hidden.iter().find(|change| change.path == path).cloned().unwrap();
        assert_eq!(
            of("/data/a"),
            Change { path: "/data/a".into(), from: Some(HIDDEN.into()), to: Some(HIDDEN.into()) }
        );
        assert_eq!(of("/type").from, Some(json!("Opaque")));
        assert_eq!(of("/metadata").from, Some(json!(HIDDEN)));
        let mut open = all();
        hide_changes("v1", "ConfigMap", &mut open);
        assert_eq!(open, all());
    }
}

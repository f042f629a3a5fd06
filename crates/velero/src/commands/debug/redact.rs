//! Taking out of objects what nobody else should see.

use serde_json::Value;
use velero_controllers::DOWNLOAD_TOKEN_ANNOTATION;
use velero_rules::difference::{HIDDEN, LAST_APPLIED};

/// Words in the name of a variable or setting whose value is likely a secret.
const TELLTALES: [&str; 6] = ["secret", "password", "token", "credential", "apikey", "accesskey"];

/// Hides signed addresses, download tokens and values that look like secrets; drops what only repeats.
pub(super) fn redact(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
            annotations.remove(DOWNLOAD_TOKEN_ANNOTATION);
        }
    }
    hide(object);
}

fn hide(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Object(fields) => {
            let names_a_secret = fields.get("name").and_then(Value::as_str).is_some_and(is_telltale);
            for (key, field) in fields {
                let hidden = key == "downloadURL" || (key == "value" && names_a_secret);
                match field {
                    Value::String(text) if hidden => *text = HIDDEN.to_owned(),
                    Value::Object(settings) if key == "config" => hide_settings(settings),
                    field => hide(field),
                }
            }
        }
        _ => {}
    }
}

/// Settings of providers, which should name files and Secrets but may hold keys.
fn hide_settings(settings: &mut serde_json::Map<String, Value>) {
    for (key, value) in settings {
        if is_telltale(key) && !key.ends_with("File") {
            *value = HIDDEN.into();
        }
    }
}

fn is_telltale(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    TELLTALES.iter().any(|word| plain.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_hidden_and_the_rest_stays() {
        let cases = [
            (
                json!({"metadata": {"name": "a", "managedFields": [1], "annotations": {(LAST_APPLIED): "{}", "kept": "1"}}}),
                json!({"metadata": {"name": "a", "annotations": {"kept": "1"}}}),
            ),
            (
                json!({"metadata": {"annotations": {(DOWNLOAD_TOKEN_ANNOTATION): "t"}}, "status": {"downloadURL": "http://s3/?sig=1", "phase": "Processed"}}),
                json!({"metadata": {"annotations": {}}, "status": {"downloadURL": HIDDEN, "phase": "Processed"}}),
            ),
            (
                json!({"spec": {"containers": [{"name": "velero", "env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}, {"name": "VELERO_NAMESPACE", "value": "velero"}]}]}}),
                json!({"spec": {"containers": [{"name": "velero", "env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": HIDDEN}, {"name": "VELERO_NAMESPACE", "value": "velero"}]}]}}),
            ),
            (
                json!({"spec": {"config": {"region": "r", "storageAccountAccessKey": "k", "credentialsFile": "/c"}, "credential": {"name": "cloud", "key": "cloud"}}}),
                json!({"spec": {"config": {"region": "r", "storageAccountAccessKey": HIDDEN, "credentialsFile": "/c"}, "credential": {"name": "cloud", "key": "cloud"}}}),
            ),
        ];
        for (mut object, expected) in cases {
            redact(&mut object);
            assert_eq!(object, expected);
        }
    }
}

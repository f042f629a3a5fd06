//! Objects that are made once, however many answers get lost: their names are drawn here, so a request can be sent again.

use std::time::Duration;

use serde_json::Value;

use crate::connect::Cluster;
use crate::error::{Error, Result};
use crate::resource_type::ResourceType;

/// How long to wait after each answer that does not come.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];
/// How many names are drawn.
const NAMES: usize = 8;
/// What the API server makes names of, and how much of it; and the longest name it makes.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const DRAWN: usize = 5;
const LONGEST: usize = 63;

impl Cluster {
    /// Creates an object that has a name, and sends it again as long as nobody knows what came of it. That it exists already may
    /// then mean that an earlier request was carried out.
    pub async fn create_until_answered(
        &self,
        resource_type: &ResourceType,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value> {
        for pause in PAUSES {
            match self.create(resource_type, namespace, object).await {
                Err(error) if error.is_unanswered() || error.is_retryable() => tokio::time::sleep(pause).await,
                answer => return answer,
            }
        }
        self.create(resource_type, namespace, object).await
    }

    /// Creates an object, never twice, whose name is left to chance (`generateName`) or nobody else gives. Its labels must tell
    /// it from all others that may get such a name.
    pub async fn create_once(
        &self,
        resource_type: &ResourceType,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value> {
        let (mut object, mut refusal) = (object.clone(), None);
        let own_name = object["metadata"]["name"].as_str().map(str::to_owned);
        let names = if own_name.is_some() { 1 } else { NAMES };
        for _ in 0..names {
            let beginning = object["metadata"]["generateName"].as_str().unwrap_or_default();
            let name = own_name.clone().unwrap_or_else(|| drawn_name(beginning));
            object["metadata"]["name"] = name.clone().into();
            let error = match self.create_until_answered(resource_type, namespace, &object).await {
                Err(error) if error.is_already_exists() => error,
                answer => return answer,
            };
            match self.get(resource_type.item(namespace, &name)).await? {
                Some(found) if has_labels_of(&found, &object) => return Ok(found),
                _ => refusal = Some(error),
            }
        }
        let action = format!("create {}", resource_type.kind);
        Err(refusal.unwrap_or_else(|| Error::BadRequest { action, message: "no name is free".to_owned() }))
    }
}

/// A name as the API server would make it.
fn drawn_name(beginning: &str) -> String {
    let bytes = uuid::Uuid::new_v4().into_bytes();
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    let kept = beginning.char_indices().map(|(place, letter)| place + letter.len_utf8());
    let kept = kept.take_while(|end| *end <= LONGEST - DRAWN).last().unwrap_or_default();
    beginning[..kept].chars().chain(bytes.iter().take(DRAWN).map(letter)).collect()
}

fn has_labels_of(found: &Value, wanted: &Value) -> bool {
    let Some(labels) = wanted["metadata"]["labels"].as_object() else { return false };
    labels.iter().all(|(key, value)| found["metadata"]["labels"].get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_drawn_name_is_as_the_api_server_would_make_it() {
        let name = drawn_name("nightly-");
        assert!(name.starts_with("nightly-") && name.len() == 13, "{name}");
        assert!(name.bytes().skip(8).all(|letter| LETTERS.contains(&letter)), "{name}");
        assert_ne!(drawn_name("nightly-"), drawn_name("nightly-"));
        let long = drawn_name(&"b".repeat(80));
        assert!(long.starts_with(&"b".repeat(58)) && long.len() == 63, "{long}");
        assert_eq!(drawn_name(&"ö".repeat(40)).chars().count(), 29 + 5);
    }

    #[test]
    fn what_has_the_name_and_not_the_labels_is_of_somebody_else() {
        let of = |labels: Value| json!({"metadata": {"name": "n", "labels": labels}});
        let wanted = of(json!({"a": "1", "b": "2"}));
        for (found, expected) in [
            (json!({"a": "1", "b": "2", "c": "3"}), true),
            (json!({"a": "1"}), false),
            (json!({"a": "1", "b": "3"}), false),
            (Value::Null, false),
        ] {
            assert_eq!(has_labels_of(&of(found.clone()), &wanted), expected, "{found}");
        }
        assert!(!has_labels_of(&of(json!({"a": "1"})), &json!({"metadata": {}})), "nothing tells whose it is");
    }
}

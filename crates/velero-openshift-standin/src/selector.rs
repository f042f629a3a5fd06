//! Label selectors, as far as tests use them: equality and existence.

use std::fmt;

use serde_json::Value;

/// A requirement of a kind that tests do not use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotUnderstood {
    requirement: String,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requirement = &self.requirement;
        write!(formatter, "label selector {requirement:?}: only =, != and existence are understood")
    }
}

/// Whether the labels of an object are selected.
pub(crate) fn selects(selector: &str, object: &Value) -> Result<bool, NotUnderstood> {
    let mut all = true;
    for requirement in selector.split(',').map(str::trim).filter(|requirement| !requirement.is_empty()) {
        all &= meets(requirement, &object["metadata"]["labels"])?;
    }
    Ok(all)
}

fn meets(requirement: &str, labels: &Value) -> Result<bool, NotUnderstood> {
    if requirement.contains([' ', '(', ')', '<', '>']) {
        return Err(NotUnderstood { requirement: requirement.to_owned() });
    }
    let value = |key: &str| labels.get(key).and_then(Value::as_str);
    if let Some((key, wanted)) = requirement.split_once("!=") {
        return Ok(value(key) != Some(wanted));
    }
    if let Some((key, wanted)) = requirement.split_once('=') {
        return Ok(value(key) == Some(wanted.trim_start_matches('=')));
    }
    Ok(match requirement.strip_prefix('!') {
        Some(key) => value(key).is_none(),
        None => value(requirement).is_some(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_selected_by_value_and_existence() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        for (selector, expected) in [
            ("", Some(true)),
            ("app=web", Some(true)),
            ("app==web,tier=front", Some(true)),
            ("app=web,tier=back", Some(false)),
            ("app!=web", Some(false)),
            ("other!=web", Some(true)),
            ("app", Some(true)),
            ("!app", Some(false)),
            ("app in (web)", None),
        ] {
            assert_eq!(selects(selector, &object).ok(), expected, "{selector:?}");
        }
        assert_eq!(selects("app", &json!({"metadata": {}})), Ok(false));
    }
}

//! On which nodes movers may run.

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

/// Nodes that a selector and the place of the volume allow, and never those with Windows.
pub(crate) fn node_affinity(
    selector: Option<&LabelSelector>,
    topology: Option<&NodeSelector>,
    not_on: &[String],
) -> Value {
    let mut expressions = vec![json!({ "key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"] })];
    if let Some(selector) = selector {
        let labels = selector.match_labels.iter().flatten();
        expressions.extend(labels.map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] })));
        expressions.extend(selector.match_expressions.iter().flatten().map(|expression| json!(expression)));
    }
    if !not_on.is_empty() {
        expressions.push(json!({ "key": "kubernetes.io/hostname", "operator": "NotIn", "values": not_on }));
    }
    let terms: Vec<Value> = match topology {
        None => vec![json!({ "matchExpressions": expressions })],
        Some(topology) => {
            topology.node_selector_terms.iter().map(|term| with_expressions(&json!(term), &expressions)).collect()
        }
    };
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } })
}

fn with_expressions(term: &Value, further: &[Value]) -> Value {
    let mut term = term.clone();
    let mut expressions = term["matchExpressions"].as_array().cloned().unwrap_or_default();
    expressions.extend_from_slice(further);
    term["matchExpressions"] = json!(expressions);
    term
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(affinity: &Value) -> Vec<String> {
        let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let expression =
            |value: &Value| format!("{} {} {}", word(&value["key"]), word(&value["operator"]), value["values"]);
        let term = |value: &Value| {
            let expressions = value["matchExpressions"].as_array().unwrap();
            expressions.iter().map(expression).collect::<Vec<_>>().join("; ")
        };
        terms.as_array().unwrap().iter().map(term).collect()
    }

    #[test]
    fn selector_and_topology_hold_both() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchLabels": { "zone": "a" }, "matchExpressions": [{ "key": "gpu", "operator": "DoesNotExist" }],
        }))
        .unwrap();
        let topology: NodeSelector = serde_json::from_value(json!({ "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "rack", "operator": "In", "values": ["1"] }] }, {},
        ] }))
        .unwrap();
        let windows = "kubernetes.io/os NotIn [\"windows\"]";
        let selected = format!("{windows}; zone In [\"a\"]; gpu DoesNotExist null");
        assert_eq!(terms(&node_affinity(None, None, &[])), [windows]);
        assert_eq!(terms(&node_affinity(Some(&selector), None, &[])), [selected.as_str()]);
        assert_eq!(
            terms(&node_affinity(Some(&selector), Some(&topology), &["n".to_owned()])),
            [
                format!("rack In [\"1\"]; {selected}; kubernetes.io/hostname NotIn [\"n\"]"),
                format!("{selected}; kubernetes.io/hostname NotIn [\"n\"]"),
            ]
        );
    }
}

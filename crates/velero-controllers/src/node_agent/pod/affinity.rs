//! On which nodes movers may run.

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

/// That node alone, by its name: its label `kubernetes.io/hostname` may be another.
pub(crate) fn on_node(node: &str) -> Value {
    required(&[with_fields(json!({ "matchExpressions": [not_windows()] }), &[by_name("In", node)])])
}

/// Nodes that a selector and the place of the volume allow, and never those with Windows.
pub(crate) fn node_affinity(
    selector: Option<&LabelSelector>,
    topology: Option<&NodeSelector>,
    not_on: &[String],
) -> Value {
    let mut expressions = vec![not_windows()];
    if let Some(selector) = selector {
        let labels = selector.match_labels.iter().flatten();
        expressions.extend(labels.map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] })));
        expressions.extend(selector.match_expressions.iter().flatten().map(|expression| json!(expression)));
    }
    // A requirement by name takes one.
    let fields: Vec<Value> = not_on.iter().map(|node| by_name("NotIn", node)).collect();
    let terms: Vec<Value> = match topology {
        None => vec![json!({ "matchExpressions": expressions })],
        Some(topology) => {
            topology.node_selector_terms.iter().map(|term| with_expressions(&json!(term), &expressions)).collect()
        }
    };
    let terms: Vec<Value> = terms.into_iter().map(|term| with_fields(term, &fields)).collect();
    required(&terms)
}

fn required(terms: &[Value]) -> Value {
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } })
}

fn not_windows() -> Value {
    json!({ "key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"] })
}

fn by_name(operator: &str, node: &str) -> Value {
    json!({ "key": "metadata.name", "operator": operator, "values": [node] })
}

fn with_fields(mut term: Value, further: &[Value]) -> Value {
    let mut fields = term["matchFields"].as_array().cloned().unwrap_or_default();
    fields.extend_from_slice(further);
    if !fields.is_empty() {
        term["matchFields"] = json!(fields);
    }
    term
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
            let expressions = ["matchExpressions", "matchFields"].into_iter().filter_map(|part| value[part].as_array());
            expressions.flatten().map(expression).collect::<Vec<_>>().join("; ")
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
                format!("rack In [\"1\"]; {selected}; metadata.name NotIn [\"n\"]"),
                format!("{selected}; metadata.name NotIn [\"n\"]"),
            ]
        );
        let both = node_affinity(None, None, &["n".to_owned(), "m".to_owned()]);
        assert_eq!(terms(&both), [format!("{windows}; metadata.name NotIn [\"n\"]; metadata.name NotIn [\"m\"]")]);
    }

    #[test]
    fn a_node_is_meant_by_its_name() {
        let expected = "kubernetes.io/os NotIn [\"windows\"]; metadata.name In [\"n1.example.com\"]";
        assert_eq!(terms(&on_node("n1.example.com")), [expected]);
    }
}

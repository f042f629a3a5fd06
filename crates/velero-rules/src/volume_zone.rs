//! The availability zone of a persistent volume, as its labels or its node affinity tell.

use serde_json::Value;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

/// Volumes of this driver may lie in several zones.
const GKE: &str = "topology.gke.io/zone";

/// What stands between several zones.
const SEPARATOR: &str = "__";

/// The keys of node affinities that name a zone.
const AFFINITIES: [&str; 7] = [
    "topology.ebs.csi.aws.com/zone",
    "topology.disk.csi.azure.com/zone",
    GKE,
    "topology.manila.csi.openstack.org/zone",
    "topology.cinder.csi.openstack.org/zone",
    LABELS[0],
    LABELS[1],
];

/// The zone of a PersistentVolume; empty when nothing names one.
pub fn zone_of(volume: &Value) -> String {
    let labels = &volume["metadata"]["labels"];
    let labelled = LABELS.into_iter().find_map(|key| labels[key].as_str());
    labelled.map_or_else(|| zone_of_affinity(volume), str::to_owned)
}

fn zone_of_affinity(volume: &Value) -> String {
    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let terms = terms.as_array().into_iter().flatten();
    let expressions = terms.filter_map(|term| term["matchExpressions"].as_array()).flatten();
    let mut several = Vec::new();
    for expression in expressions.filter(|expression| expression["operator"] == "In") {
        let key = expression["key"].as_str().unwrap_or_default();
        let Some(zone) = expression["values"][0].as_str().filter(|_| AFFINITIES.contains(&key)) else {
            continue;
        };
        if key != GKE {
            return zone.to_owned();
        }
        several.push(zone);
    }
    several.join(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn affinity(expressions: &[(&str, &str, &[&str])]) -> Value {
        let expression = |(key, operator, values): &(&str, &str, &[&str])| json!({"key": key, "operator": operator, "values": values});
        let terms: Vec<Value> =
            expressions.iter().map(|found| json!({"matchExpressions": [expression(found)]})).collect();
        json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn labels_come_before_the_node_affinity_and_the_new_label_before_the_old() {
        let mut volume = affinity(&[("topology.ebs.csi.aws.com/zone", "In", &["c"])]);
        assert_eq!(zone_of(&volume), "c");
        volume["metadata"]["labels"] = json!({"failure-domain.beta.kubernetes.io/zone": "b"});
        assert_eq!(zone_of(&volume), "b");
        volume["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("a");
        assert_eq!(zone_of(&volume), "a");
    }

    #[test]
    fn the_first_zone_of_the_node_affinity_counts_and_several_only_where_volumes_span_them() {
        let gke = "topology.gke.io/zone";
        for (expressions, expected) in [
            (&[][..], ""),
            (&[("kubernetes.io/hostname", "In", &["n"][..])][..], ""),
            (&[("topology.kubernetes.io/zone", "NotIn", &["n"])], ""),
            (&[("topology.kubernetes.io/zone", "In", &[])], ""),
            (&[("topology.kubernetes.io/zone", "In", &["a", "b"])], "a"),
            (&[("topology.cinder.csi.openstack.org/zone", "In", &["a"]), (LABELS[0], "In", &["b"])], "a"),
            (&[(gke, "In", &["a"]), (gke, "In", &["b"])], "a__b"),
            (&[(gke, "In", &["a"]), (LABELS[0], "In", &["b"])], "b"),
        ] {
            assert_eq!(zone_of(&affinity(expressions)), expected, "{expressions:?}");
        }
        assert_eq!(zone_of(&json!({})), "");
    }
}

use serde_json::json;
use velero_api::v1::{Restore, RestoreSpec};

use super::*;

/// The spec of a service after the action, or why it failed.
fn restored(service: &Value, preserve_node_ports: Option<bool>) -> std::result::Result<Value, String> {
    let restore = Restore::new("velero", "r1", RestoreSpec { preserve_node_ports, ..RestoreSpec::default() });
    let input = RestoreItemInput { item: service, item_from_backup: service, restore: &restore };
    let outcome = futures::executor::block_on(RestoreAction.execute(input)).map_err(|error| error.to_string())?;
    Ok(outcome.updated_item.unwrap_or_else(|| service.clone())["spec"].take())
}

fn applied(spec: &Value) -> Value {
    json!({"annotations": {LAST_APPLIED: json!({"spec": spec}).to_string()}})
}

fn owned(fields: &Value) -> Value {
    json!({"managedFields": [{"manager": "a"}, {"manager": "b", "fieldsV1": {"f:spec": fields}}]})
}

fn service(metadata: &Value, spec: &Value) -> Value {
    json!({"kind": "Service", "metadata": metadata, "spec": spec})
}

#[test]
fn addresses_go_unless_the_service_is_headless() {
    for (before, after) in [
        (
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "loadBalancerIP": "1.2.3.4"}),
            json!({"loadBalancerIP": "1.2.3.4"}),
        ),
        (json!({"clusterIP": "None", "clusterIPs": ["None"]}), json!({"clusterIP": "None", "clusterIPs": ["None"]})),
        (json!({"clusterIP": ""}), json!({})),
        (json!({"type": "ExternalName", "externalName": "x"}), json!({"type": "ExternalName", "externalName": "x"})),
    ] {
        for preserve in [None, Some(true)] {
            assert_eq!(restored(&service(&json!({}), &before), preserve), Ok(json!(after)), "{before} {preserve:?}");
        }
    }
}

/// A row: metadata, ports, and for each port whether it keeps its node port.
type Row = (&'static str, Value, Value, Vec<bool>);

fn rows() -> Vec<Row> {
    let key = r#"k:{"port":80,"protocol":"TCP"}"#;
    let http = json!({"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080});
    let admin = json!({"name": "admin", "port": 90, "protocol": "TCP", "nodePort": 30090});
    let bare = |node_port: u32| json!({"port": node_port, "nodePort": node_port});
    let ports = |ports: Value| applied(&json!({"ports": ports}));
    vec![
        ("nothing is known", json!({}), json!([bare(32000), bare(32001)]), vec![false, false]),
        ("applied without ports", applied(&json!({})), json!([bare(30080)]), vec![false]),
        ("applied with null", ports(Value::Null), json!([http]), vec![false]),
        ("applied by number", ports(json!([bare(30080)])), json!([bare(30080), bare(30090)]), vec![true, false]),
        ("applied by another name", ports(json!([http])), json!([bare(30080)]), vec![false]),
        ("applied by name", ports(json!([http])), json!([http, admin]), vec![true, false]),
        (
            "applied as text",
            ports(json!([{"name": "http", "nodePort": "30080"}])),
            json!([http, bare(30080)]),
            vec![true, false],
        ),
        (
            "applied by name, other number",
            ports(json!([{"name": "http", "nodePort": 31000}])),
            json!([http]),
            vec![true],
        ),
        ("applied as zero", ports(json!([{"name": "http", "nodePort": 0}])), json!([http]), vec![false]),
        ("owned", owned(&json!({"f:ports": {key: {"f:nodePort": {}}}})), json!([http, admin]), vec![true, false]),
        ("owned without the node port", owned(&json!({"f:ports": {key: {"f:port": {}}}})), json!([http]), vec![false]),
        ("owned without ports", owned(&json!({"f:type": {}})), json!([http]), vec![false]),
        (
            "applied decides over owned",
            json!({
                "annotations": applied(&json!({}))["annotations"],
                "managedFields": owned(&json!({"f:ports": {key: {"f:nodePort": {}}}}))["managedFields"],
            }),
            json!([http]),
            vec![false],
        ),
    ]
}

#[test]
fn node_ports_stay_where_they_were_asked_for() {
    for (what, metadata, ports, kept) in rows() {
        let item = service(&metadata, &json!({"type": "NodePort", "ports": ports}));
        let spec = restored(&item, Some(false)).unwrap();
        let keeps = |port: &Value| port.get("nodePort").is_some();
        let found: Vec<bool> = spec["ports"].as_array().unwrap().iter().map(keeps).collect();
        assert_eq!(found, kept, "{what}");
        assert_eq!(restored(&item, None).unwrap(), spec, "{what}: false is the default");
        assert_eq!(restored(&item, Some(true)).unwrap()["ports"], ports, "{what}: preserved");
    }
}

#[test]
fn the_health_check_port_stays_where_it_was_asked_for() {
    let asked = applied(&json!({"healthCheckNodePort": 30999}));
    let owns = owned(&json!({"f:healthCheckNodePort": {}}));
    let both = json!({"annotations": applied(&json!({}))["annotations"], "managedFields": owns["managedFields"]});
    for (what, metadata, kind, policy, preserve, kept) in [
        ("nobody asked", &json!({}), "LoadBalancer", "Local", Some(false), false),
        ("preserved", &json!({}), "LoadBalancer", "Local", Some(true), true),
        ("another policy", &json!({}), "LoadBalancer", "Cluster", None, true),
        ("another type", &json!({}), "NodePort", "Local", None, true),
        ("applied", &asked, "LoadBalancer", "Local", None, true),
        ("applied as zero", &applied(&json!({"healthCheckNodePort": 0})), "LoadBalancer", "Local", None, false),
        ("owned", &owns, "LoadBalancer", "Local", None, true),
        ("applied without it, but owned", &both, "LoadBalancer", "Local", None, true),
    ] {
        let spec = json!({"type": kind, "externalTrafficPolicy": policy, "healthCheckNodePort": 30999});
        let spec = restored(&service(metadata, &spec), preserve).unwrap();
        assert_eq!(spec.get("healthCheckNodePort").is_some(), kept, "{what}");
    }
}

#[test]
fn an_external_name_keeps_its_ports() {
    let spec = json!({"type": "ExternalName", "ports": [{"port": 80, "nodePort": 30080}]});
    assert_eq!(restored(&service(&json!({}), &spec), None), Ok(spec));
}

#[test]
fn an_unreadable_annotation_fails_the_item_and_names_the_way_out() {
    for text in ["{", r#"{"spec":{"ports":[{"nodePort":"many"}]}}"#] {
        let metadata = json!({"namespace": "shop", "name": "web", "annotations": {LAST_APPLIED: text}});
        let item = service(&metadata, &json!({"ports": [{"port": 80}]}));
        let error = restored(&item, None).unwrap_err();
        assert!(error.contains("Service shop/web") && error.contains("preserveNodePorts"), "{error}");
        assert!(restored(&item, Some(true)).is_ok());
    }
}
